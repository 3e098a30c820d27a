//! Interfaces, loopback and ports.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::ops::RangeInclusive;
use std::time::Duration;

use rustix::io::Errno;

use consort_sys::net::{self, Choice, Interface};

/// Interfaces, loopback and ports.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    pub(crate) interfaces: Result<Vec<Interface>, String>,
    /// What `CONSORT_INTERFACE` says.
    pub(crate) wanted: Option<String>,
    /// What a job would listen on.
    pub(crate) choice: Result<Choice, String>,
    /// What it would listen on if it had other hosts, as far as the default route tells.
    pub(crate) abroad: Option<Choice>,
    pub(crate) v4: Loopback,
    pub(crate) v6: Loopback,
    /// The ports from which the system chooses free ones.
    pub(crate) free_ports: Option<RangeInclusive<u16>>,
}

/// Whether a process can talk to itself over one version of IP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Loopback {
    Works,
    /// This version of IP is switched off.
    Off,
    Fails(String),
}

impl Network {
    pub(super) fn gather() -> Self {
        let wanted = std::env::var("CONSORT_INTERFACE").ok().filter(|name| !name.is_empty());
        let ports = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok();
        Self {
            interfaces: net::interfaces().map_err(|error| error.to_string()),
            choice: choose(None, wanted.as_deref()),
            abroad: net::choose(Some(SOMEWHERE_ELSE), None).ok(),
            wanted,
            v4: Loopback::of(talk_to_self(Ipv4Addr::LOCALHOST.into())),
            v6: Loopback::of(talk_to_self(Ipv6Addr::LOCALHOST.into())),
            free_ports: ports.and_then(|text| parse_range(&text)),
        }
    }

    /// Chooses again, now that it is known where the others are.
    pub(super) fn toward(&mut self, peer: SocketAddr) {
        self.choice = choose(Some(peer), self.wanted.as_deref());
        self.abroad = None;
    }
}

impl Loopback {
    fn of(outcome: io::Result<()>) -> Self {
        match outcome {
            Ok(()) => Self::Works,
            Err(error) => match error.kind() {
                ErrorKind::AddrNotAvailable | ErrorKind::Unsupported => Self::Off,
                _ if error.raw_os_error() == Some(Errno::AFNOSUPPORT.raw_os_error()) => Self::Off,
                _ => Self::Fails(error.to_string()),
            },
        }
    }
}

fn choose(peer: Option<SocketAddr>, wanted: Option<&str>) -> Result<Choice, String> {
    net::choose(peer, wanted).map_err(|error| error.to_string())
}

/// Listens on a free port, connects to it and sends a byte each way.
fn talk_to_self(address: IpAddr) -> io::Result<()> {
    let listener = TcpListener::bind((address, 0))?;
    let mut caller = TcpStream::connect_timeout(&listener.local_addr()?, LIMIT)?;
    listener.set_nonblocking(true)?;
    let (mut called, _) = listener.accept()?;
    for end in [&caller, &called] {
        end.set_read_timeout(Some(LIMIT))?;
    }
    called.set_nonblocking(false)?;
    let mut byte = [0];
    caller.write_all(&[1])?;
    called.read_exact(&mut byte)?;
    called.write_all(&byte)?;
    caller.read_exact(&mut byte)
}

/// Two numbers, as in `32768 60999`.
fn parse_range(text: &str) -> Option<RangeInclusive<u16>> {
    let mut words = text.split_whitespace().map(str::parse);
    Some(words.next()?.ok()?..=words.next()?.ok()?)
}

/// An address that belongs to no one: only the default route leads there. Nothing is sent to it.
const SOMEWHERE_ELSE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1)), 9);
const LIMIT: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_can_talk_to_itself_over_loopback() {
        assert_eq!(Loopback::of(talk_to_self(Ipv4Addr::LOCALHOST.into())), Loopback::Works);
    }

    #[test]
    fn a_version_of_ip_that_is_off_is_not_a_failure() {
        assert_eq!(Loopback::of(Err(ErrorKind::AddrNotAvailable.into())), Loopback::Off);
        assert_eq!(Loopback::of(Err(io::Error::from(Errno::AFNOSUPPORT))), Loopback::Off);
        let refused = Loopback::of(Err(ErrorKind::ConnectionRefused.into()));
        assert!(matches!(refused, Loopback::Fails(_)), "{refused:?}");
    }

    #[test]
    fn the_range_of_free_ports_is_read() {
        assert_eq!(parse_range("32768\t60999\n"), Some(32768..=60999));
        assert_eq!(parse_range("32768"), None);
        assert_eq!(parse_range("a b"), None);
    }

    #[test]
    fn a_peer_changes_the_choice() {
        let mut network = Network::gather();
        network.wanted = None;
        network.toward(SocketAddr::from(([127, 0, 0, 1], 1)));
        let choice = network.choice.unwrap();
        assert_eq!(choice.reason, "it routes to 127.0.0.1");
        assert_eq!(network.abroad, None);
    }
}
