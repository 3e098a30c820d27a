//! Where hosts can be reached.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use serde::{Deserialize, Serialize};

use super::network::Family;
use super::space::Label;

/// Where a host can be reached: at one address or two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// Its IPv4 address, if it has one.
    pub v4: Option<Ipv4Addr>,
    /// Its IPv6 address, if it has one.
    pub v6: Option<Ipv6Addr>,
}

impl Address {
    /// The address of host `index` on a network; `block` tells the network that works from the one
    /// that leads nowhere.
    pub(super) fn new(block: u8, label: Label, index: usize, family: Family) -> Self {
        let last = u8::try_from(index + 1).expect("at most 250 hosts");
        let (number, group) = (label.number, |value: u8| u16::from(value));
        let v4 = Ipv4Addr::new(10, block, number, last);
        let v6 = Ipv6Addr::new(0xfd00, group(block), group(number), 0, 0, 0, 0, group(last));
        Self { v4: family.has_v4().then_some(v4), v6: family.has_v6().then_some(v6) }
    }

    /// The IPv4 address, or if there is none the IPv6 address.
    pub fn ip(&self) -> IpAddr {
        let v4 = self.v4.map(IpAddr::V4);
        v4.or(self.v6.map(IpAddr::V6)).expect("a host has an address")
    }

    /// A port at [`ip`](Address::ip). Shown as URLs want it, with brackets where they belong.
    pub fn at(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.ip(), port)
    }
}
