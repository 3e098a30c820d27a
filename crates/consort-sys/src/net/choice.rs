//! Choosing the address that peers can reach.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::sync::Arc;

use super::interface::{Interface, interfaces, is_link_local};
use super::route_to;

/// The interface and address that a job uses on this host, and why.
///
/// Shown as `eth0 (10.0.0.1): it routes to 10.0.0.2`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The interface's name.
    pub interface: String,
    /// The address to listen on.
    pub address: IpAddr,
    /// The interface's number when `address` is link-local, else 0.
    pub scope: u32,
    /// Why, in words.
    pub reason: String,
}

/// The result of a choice.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why no address could be chosen.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Neither an interface nor an address of this host.
    #[error("{wanted:?} is neither an interface nor an address of this host; there are {there}")]
    NotHere {
        /// What was asked for.
        wanted: String,
        /// The interfaces there are.
        there: String,
    },
    /// The interface is switched off or has no cable.
    #[error("interface {interface} is down: switch it on, or use one that is up: {there}")]
    Down {
        /// The interface.
        interface: String,
        /// The interfaces that are up.
        there: String,
    },
    /// The interface speaks another version of IP than the peer.
    #[error(
        "{interface} has no {family} address, which it needs to reach {peer}; there are {there}"
    )]
    Family {
        /// The interface.
        interface: String,
        /// `IPv4` or `IPv6`.
        family: &'static str,
        /// The peer.
        peer: IpAddr,
        /// The interfaces there are.
        there: String,
    },
    /// Loopback was asked for, and the peer is on another host.
    #[error("{wanted:?} leads only to this host and {peer} is elsewhere; there are {there}")]
    OnlyThisHost {
        /// What was asked for.
        wanted: String,
        /// The peer.
        peer: IpAddr,
        /// The interfaces there are.
        there: String,
    },
    /// `0.0.0.0` or `::` as a peer.
    #[error("{peer} is every address and nobody's: name the host that the others can reach")]
    Unspecified {
        /// The peer.
        peer: IpAddr,
    },
    /// The peer cannot be reached from here.
    #[error("no route leads to {peer}: {source}; there are {there}")]
    NoRoute {
        /// The peer.
        peer: IpAddr,
        /// What the system said.
        source: Arc<io::Error>,
        /// The interfaces there are.
        there: String,
    },
    /// A route exists, but not from an address of an interface.
    #[error("{peer} is reached from {local}, which is no interface's address; there are {there}")]
    Nameless {
        /// The peer.
        peer: IpAddr,
        /// The local address.
        local: IpAddr,
        /// The interfaces there are.
        there: String,
    },
    /// A one-host job without a loopback interface.
    #[error("the loopback interface is missing or down: `ip link set lo up`")]
    NoLoopback,
    /// The system does not list its interfaces.
    #[error("cannot list the network interfaces: {0}")]
    System(Arc<io::Error>),
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::System(error.into())
    }
}

/// Chooses the address on which the other processes of a job can reach this one.
///
/// What was `wanted`, an interface's name or an address, as in `CONSORT_INTERFACE`, is taken if it
/// can serve. Else the interface that routes to `peer`. Without either the job has one host, and
/// the address is loopback.
///
/// # Errors
/// When what was wanted is not there, is down or cannot reach the peer; when no route leads there.
///
/// ```
/// use consort_sys::net::choose;
///
/// let alone = choose(None, None)?;
/// assert!(alone.address.is_loopback());
/// println!("listening on {alone}");
/// # Ok::<(), consort_sys::net::Error>(())
/// ```
pub fn choose(peer: Option<SocketAddr>, wanted: Option<&str>) -> Result<Choice> {
    let interfaces = interfaces()?;
    let there = There(&interfaces);
    match (wanted.map(str::trim).filter(|wanted| !wanted.is_empty()), peer) {
        (Some(wanted), peer) => there.wanted(wanted, peer.map(|peer| peer.ip().to_canonical())),
        (None, Some(peer)) => there.routed(peer.ip().to_canonical(), || route_to(peer)),
        (None, None) => there.loopback(),
    }
}

impl Choice {
    fn new(interface: &Interface, address: IpAddr, reason: String) -> Self {
        let scope = if is_link_local(&address) { interface.index } else { 0 };
        Self { interface: interface.name.clone(), address, scope, reason }
    }

    /// The address with a port, ready to listen on.
    pub fn socket(&self, port: u16) -> SocketAddr {
        match self.address {
            IpAddr::V4(address) => (address, port).into(),
            IpAddr::V6(address) => SocketAddrV6::new(address, port, 0, self.scope).into(),
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.interface, self.address, self.reason)
    }
}

/// The interfaces to choose from.
struct There<'a>(&'a [Interface]);

impl There<'_> {
    fn wanted(&self, wanted: &str, peer: Option<IpAddr>) -> Result<Choice> {
        let (interface, address) = self.find(wanted)?;
        if !interface.up {
            return Err(Error::Down { interface: interface.name.clone(), there: self.up() });
        }
        if let Some(peer) = peer.filter(|peer| interface.loopback && !self.is_own(peer)) {
            return Err(Error::OnlyThisHost { wanted: wanted.into(), peer, there: self.all() });
        }
        let of_family =
            |address: &IpAddr| peer.is_none_or(|peer| peer.is_ipv6() == address.is_ipv6());
        match address.or_else(|| interface.address(peer.map(|peer| peer.is_ipv6()))) {
            Some(address) if of_family(&address) => {
                Ok(Choice::new(interface, address, "it was asked for".into()))
            }
            _ => Err(self.wrong_family(wanted, peer)),
        }
    }

    fn routed(&self, peer: IpAddr, route: impl FnOnce() -> io::Result<IpAddr>) -> Result<Choice> {
        if peer.is_unspecified() {
            return Err(Error::Unspecified { peer });
        }
        let local = route().map_err(|source| Error::NoRoute {
            peer,
            source: source.into(),
            there: self.all(),
        })?;
        let local = local.to_canonical();
        match self.0.iter().find(|interface| interface.addresses.contains(&local)) {
            Some(interface) => Ok(Choice::new(interface, local, format!("it routes to {peer}"))),
            None => Err(Error::Nameless { peer, local, there: self.all() }),
        }
    }

    fn loopback(&self) -> Result<Choice> {
        let interface = self.0.iter().find(|interface| interface.loopback && interface.up);
        let interface = interface.ok_or(Error::NoLoopback)?;
        let address = interface.addresses.iter().find(|address| address.is_loopback());
        let address = address.ok_or(Error::NoLoopback)?;
        Ok(Choice::new(interface, *address, "one-host job".into()))
    }

    /// An interface by name, or by address together with that address. `fe80::1%eth0` is both.
    fn find(&self, wanted: &str) -> Result<(&Interface, Option<IpAddr>)> {
        let (text, scope) = wanted.split_once('%').unwrap_or((wanted, ""));
        let address: Option<IpAddr> = text.parse().ok();
        let found = self.0.iter().find(|interface| match address {
            Some(address) => {
                interface.addresses.contains(&address) && (scope.is_empty() || interface.is(scope))
            }
            None => interface.name == wanted,
        });
        let interface =
            found.ok_or_else(|| Error::NotHere { wanted: wanted.into(), there: self.all() })?;
        Ok((interface, address))
    }

    fn wrong_family(&self, wanted: &str, peer: Option<IpAddr>) -> Error {
        match peer {
            Some(peer) => Error::Family {
                interface: wanted.into(),
                family: if peer.is_ipv6() { "IPv6" } else { "IPv4" },
                peer,
                there: self.all(),
            },
            None => Error::NotHere { wanted: wanted.into(), there: self.all() },
        }
    }

    fn is_own(&self, address: &IpAddr) -> bool {
        address.is_loopback()
            || self.0.iter().any(|interface| interface.addresses.contains(address))
    }

    fn all(&self) -> String {
        list(self.0.iter())
    }

    fn up(&self) -> String {
        list(self.0.iter().filter(|interface| interface.up))
    }
}

fn list<'a>(interfaces: impl Iterator<Item = &'a Interface>) -> String {
    let names: Vec<String> = interfaces.map(Interface::to_string).collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

impl Interface {
    fn is(&self, name_or_number: &str) -> bool {
        self.name == name_or_number || name_or_number.parse() == Ok(self.index)
    }
}

#[cfg(test)]
mod tests;
