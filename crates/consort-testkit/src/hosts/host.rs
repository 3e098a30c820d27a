//! One host.

use std::ffi::OsStr;
use std::fs;
use std::net::{IpAddr, Ipv6Addr};
use std::process::Command;

use super::address::Address;
use super::firewall;
use super::network::{Family, Network};
use super::space::{Label, NameSpace};
use crate::skip::Skip;

/// One host.
#[derive(Debug)]
pub struct Host {
    space: NameSpace,
    address: Address,
    stray: Option<Address>,
}

impl Host {
    pub(super) fn new(
        network: &Network,
        label: Label,
        index: usize,
        switch: &NameSpace,
    ) -> Result<Self, Skip> {
        let space = NameSpace::new(format!("{label}h{index}"))?;
        space.ip(&["link", "set", "lo", "up"]);
        space.enter(use_addresses_at_once);
        let stray = network.stray.then(|| Address::new(NOWHERE, label, index, network.family));
        let address = Address::new(HERE, label, index, network.family);
        let host = Self { space, address, stray };
        if let Some(stray) = stray {
            // Made first, so that it comes first wherever interfaces are listed.
            host.plug(switch, &format!("astray{index}"), STRAY, &stray, network)?;
            host.lead_astray(label);
        }
        host.plug(switch, &port(index), "eth0", &address, network)?;
        if let Some(open) = &network.open {
            firewall::put(&host.space, "eth0", open)?;
        }
        Ok(host)
    }

    /// A command that runs on this host.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.space.name()]).arg(program);
        command
    }

    /// Runs a closure of this process on this host: the sockets that it opens are the host's, and
    /// stay so wherever they are used afterwards.
    ///
    /// # Panics
    /// When the closure does.
    pub fn run<T: Send>(&self, body: impl FnOnce() -> T + Send) -> T {
        self.space.enter(body)
    }

    /// The name of its network namespace.
    pub fn name(&self) -> &str {
        self.space.name()
    }

    /// Its IPv4 address, or if it has none its IPv6 address.
    pub fn address(&self) -> IpAddr {
        self.address.ip()
    }

    /// Its IPv6 address.
    ///
    /// # Panics
    /// When it was made without one.
    pub fn address_v6(&self) -> Ipv6Addr {
        self.address.v6.expect("the host was made with an IPv6 address")
    }

    /// Its address of each family.
    pub fn addresses(&self) -> Address {
        self.address
    }

    /// Its addresses on the interface that leads nowhere, if it has that.
    pub fn stray_addresses(&self) -> Option<Address> {
        self.stray
    }

    pub(super) fn has_link(&self) -> bool {
        self.space.ip(&["-oneline", "link", "show", "eth0"]).contains("LOWER_UP")
    }

    /// Runs a cable from a port of the switch to an interface of this host and gives it addresses.
    fn plug(
        &self,
        switch: &NameSpace,
        port: &str,
        interface: &str,
        address: &Address,
        network: &Network,
    ) -> Result<(), Skip> {
        let space = &self.space;
        let cable = ["type", "veth", "peer", "name", interface, "netns", space.name()];
        switch.attempt("ip", &[&["link", "add", port], cable.as_slice()].concat())?;
        if let Some(mtu) = network.mtu {
            let mtu = mtu.to_string();
            switch.ip(&["link", "set", port, "mtu", &mtu]);
            space.ip(&["link", "set", interface, "mtu", &mtu]);
        }
        if network.counts_packets() {
            // Else the kernel sends 64 KiB at a time through a cable that is none.
            space.attempt("ip", &["link", "set", interface, "gso_max_segs", "1"])?;
        }
        if network.family == Family::V4 {
            space.ip(&["link", "set", interface, "addrgenmode", "none"]);
        }
        if let Some(v4) = address.v4 {
            space.ip(&["addr", "add", &format!("{v4}/24"), "dev", interface]);
        }
        if let Some(v6) = address.v6 {
            space.ip(&["addr", "add", &format!("{v6}/64"), "dev", interface, "nodad"]);
        }
        switch.ip(&["link", "set", port, "up"]);
        space.ip(&["link", "set", interface, "up"]);
        Ok(())
    }

    /// Makes a gateway that takes everything and passes nothing on the default.
    fn lead_astray(&self, label: Label) {
        let gateway = Address::new(NOWHERE, label, GATEWAY, Family::Both);
        let gateways = [
            self.address.v4.and(gateway.v4).map(IpAddr::V4),
            self.address.v6.and(gateway.v6).map(IpAddr::V6),
        ];
        for gateway in gateways.into_iter().flatten() {
            let gateway = gateway.to_string();
            let neighbour = ["neigh", "add", &gateway, "lladdr", NOBODY, "nud", "permanent"];
            self.space.ip(&[neighbour.as_slice(), &["dev", STRAY]].concat());
            self.space.ip(&["route", "add", "default", "via", &gateway, "dev", STRAY]);
        }
    }
}

/// The switch's end of a host's cable.
pub(super) fn port(host: usize) -> String {
    format!("port{host}")
}

/// Interfaces made from now on do not first ask for a second whether their IPv6 address is taken.
fn use_addresses_at_once() {
    // Where there is no IPv6 there is nothing to wait for.
    let _ = fs::write("/proc/sys/net/ipv6/conf/default/accept_dad", "0");
}

/// The second number of addresses that work, and of those that do not.
const HERE: u8 = 77;
const NOWHERE: u8 = 78;

const STRAY: &str = "away0";
const GATEWAY: usize = 253;
const NOBODY: &str = "02:00:00:00:00:01";
