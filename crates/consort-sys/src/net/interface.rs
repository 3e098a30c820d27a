//! Network interfaces.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;

use crate::root::Root;

/// A network interface that has an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name, such as `eth0`.
    pub name: String,
    /// Its number, which is also the scope of its link-local addresses.
    pub index: u32,
    /// Whether it is switched on and its cable is plugged in.
    pub up: bool,
    /// Whether it leads only to this host.
    pub loopback: bool,
    /// Its addresses, the most widely usable first.
    pub addresses: Vec<IpAddr>,
    /// Its speed in megabits a second, if the driver knows.
    pub megabits: Option<u32>,
    /// The largest packet it carries.
    pub mtu: Option<u32>,
}

/// The interfaces of this host that have an address, in order of their number.
///
/// # Errors
/// When the system does not list them.
///
/// ```
/// for interface in consort_sys::net::interfaces()? {
///     println!("{interface}: up {}, {:?} Mbit/s", interface.up, interface.megabits);
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn interfaces() -> io::Result<Vec<Interface>> {
    let mut interfaces: Vec<Interface> = Vec::new();
    for entry in if_addrs::get_if_addrs()? {
        let address = entry.ip();
        match interfaces.iter_mut().find(|interface| interface.name == entry.name) {
            Some(interface) => interface.addresses.push(address),
            None => interfaces.push(Interface {
                index: entry.index.unwrap_or_default(),
                up: entry.is_oper_up(),
                name: entry.name,
                loopback: false,
                addresses: vec![address],
                megabits: None,
                mtu: None,
            }),
        }
    }
    for interface in &mut interfaces {
        interface.loopback = interface.addresses.iter().any(IpAddr::is_loopback);
        interface.addresses.sort_by_key(|address| (reach(address), address.is_ipv6()));
        interface.add_figures(Root(Path::new("/")));
    }
    interfaces.sort_by_key(|interface| interface.index);
    Ok(interfaces)
}

/// Of addresses that lead out of this host the one that can be reached from farthest away: of several the first.
pub fn farthest(interfaces: &[Interface]) -> Option<IpAddr> {
    let out = interfaces.iter().filter(|interface| interface.up && !interface.loopback);
    out.flat_map(|interface| &interface.addresses).copied().min_by_key(reach)
}

impl Interface {
    /// The first address of the wanted kind: IPv6, IPv4, or any.
    pub(super) fn address(&self, v6: Option<bool>) -> Option<IpAddr> {
        let mut addresses = self.addresses.iter().copied();
        addresses.find(|address| v6.is_none_or(|v6| address.is_ipv6() == v6))
    }

    /// Fills in what only the file system knows. It may show another namespace's interfaces, so
    /// the number must agree.
    fn add_figures(&mut self, root: Root<'_>) {
        let figure = |name: &str| {
            let number = root.number(format!("sys/class/net/{}/{name}", self.name))?;
            u32::try_from(number).ok()
        };
        if figure("ifindex") != Some(self.index) {
            return;
        }
        let speed = figure("speed").filter(|&speed| speed > 0);
        (self.mtu, self.megabits) = (figure("mtu"), speed);
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses: Vec<String> = self.addresses.iter().map(IpAddr::to_string).collect();
        write!(f, "{} ({})", self.name, addresses.join(", "))
    }
}

/// Whether the address means something only together with an interface.
pub(super) fn is_link_local(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

/// From how far away an address can be reached: smaller is farther.
fn reach(address: &IpAddr) -> u8 {
    let deprecated = |v6: &Ipv6Addr| v6.segments()[0] & 0xffc0 == 0xfec0;
    match address {
        address if is_link_local(address) => 2,
        IpAddr::V6(v6) if deprecated(v6) => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::fake;

    fn interface(addresses: &[&str]) -> Interface {
        let mut addresses: Vec<IpAddr> =
            addresses.iter().map(|address| address.parse().unwrap()).collect();
        addresses.sort_by_key(|address| (reach(address), address.is_ipv6()));
        Interface {
            name: "eth0".into(),
            index: 4,
            up: true,
            loopback: false,
            addresses,
            megabits: None,
            mtu: None,
        }
    }

    #[test]
    fn link_local_addresses_come_last() {
        let eth0 = interface(&["fe80::1", "169.254.0.9", "fd00::2", "10.0.0.1"]);
        assert_eq!(eth0.to_string(), "eth0 (10.0.0.1, fd00::2, 169.254.0.9, fe80::1)");
        assert_eq!(eth0.address(None), Some("10.0.0.1".parse().unwrap()));
        assert_eq!(eth0.address(Some(true)), Some("fd00::2".parse().unwrap()));
        assert_eq!(interface(&["fe80::1"]).address(Some(false)), None);
    }

    #[test]
    fn a_link_local_address_leads_out_only_if_no_interface_has_another() {
        let link = interface(&["fe80::1"]);
        let (near, far) = (interface(&["169.254.0.9", "10.0.0.1"]), interface(&["192.0.2.7"]));
        let found = |all: &[&Interface]| {
            let all: Vec<Interface> = all.iter().copied().cloned().collect();
            farthest(&all).map(|address| address.to_string())
        };
        assert_eq!(found(&[&link, &near, &far]).unwrap(), "10.0.0.1");
        assert_eq!(found(&[&link, &far, &near]).unwrap(), "192.0.2.7");
        assert_eq!(found(&[&link]).unwrap(), "fe80::1");
        let down = Interface { up: false, ..near.clone() };
        let loopback = Interface { loopback: true, ..near };
        assert_eq!(found(&[&down, &loopback]), None);
    }

    #[test]
    fn figures_are_taken_only_for_the_same_interface() {
        let machine = |index| {
            fake::machine(&[
                ("sys/class/net/eth0/ifindex", index),
                ("sys/class/net/eth0/mtu", "9000\n"),
                ("sys/class/net/eth0/speed", "25000\n"),
            ])
        };
        let mut ours = interface(&["10.0.0.1"]);
        ours.add_figures(Root(machine("4").path()));
        assert_eq!((ours.mtu, ours.megabits), (Some(9000), Some(25_000)));
        let mut another = interface(&["10.0.0.1"]);
        another.add_figures(Root(machine("5").path()));
        assert_eq!((another.mtu, another.megabits), (None, None));
    }

    #[test]
    fn an_unknown_speed_is_none() {
        let files = [("sys/class/net/eth0/ifindex", "4"), ("sys/class/net/eth0/speed", "-1")];
        let mut virtual_one = interface(&["10.0.0.1"]);
        virtual_one.add_figures(Root(fake::machine(&files).path()));
        assert_eq!(virtual_one.megabits, None);
    }

    #[test]
    fn this_host_has_a_loopback_interface() {
        let interfaces = interfaces().unwrap();
        let loopback = interfaces.iter().filter(|interface| interface.loopback);
        let indices: Vec<u32> = loopback.map(|interface| interface.index).collect();
        assert_eq!(indices, [1], "Linux numbers loopback first: {interfaces:?}");
    }
}
