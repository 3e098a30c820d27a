//! Which interfaces there are, and which of them leads to a peer.
//!
//! A job listens on one address of each host, the one that its peers can reach. [`choose`] finds
//! it, and says why in words for the log.

mod choice;
mod interface;

pub use choice::{Choice, Error, Result, choose};
pub use interface::{Interface, farthest, interfaces};

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// The local address from which packets to `peer` would leave. None is sent.
///
/// # Errors
/// When no route leads there.
///
/// ```
/// use consort_sys::net::route_to;
///
/// let local = route_to("127.0.0.1:80".parse().unwrap())?;
/// assert!(local.is_loopback());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn route_to(peer: SocketAddr) -> io::Result<IpAddr> {
    let any: IpAddr = match peer {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(peer)?;
    Ok(socket.local_addr()?.ip())
}
