//! A port that stays free for rank 0.
//!
//! PyTorch's rank 0 listens on MASTER_PORT itself, so the launcher has to name a free port before
//! anybody listens on it. Choosing one and letting it go again would leave a moment in which
//! another process can take it. Instead the launcher keeps a socket *bound* to the port, with
//! SO_REUSEADDR and without listening, for as long as the ranks run. Linux gives such a port to
//! nobody who asks for any port, neither to listen nor to connect from; but a program that asks
//! for this very port, with SO_REUSEADDR as PyTorch, Rust's standard library and nearly every
//! server do, gets it.

use std::io;
use std::net::{IpAddr, SocketAddr};

use socket2::{Domain, Protocol, Socket, Type};

/// A port on one address of this host, kept for rank 0 until dropped.
#[derive(Debug)]
pub(crate) struct ReservedPort {
    port: u16,
    _bound: Socket,
}

impl ReservedPort {
    /// Finds a free port on `address` and keeps it.
    pub(crate) fn on(address: IpAddr) -> io::Result<Self> {
        let wanted = SocketAddr::new(address, 0);
        let socket = Socket::new(Domain::for_address(wanted), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.bind(&wanted.into())?;
        let bound = socket.local_addr()?.as_socket();
        let port = bound.expect("an internet socket has an internet address").port();
        Ok(Self { port, _bound: socket })
    }

    /// Its number.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_server_that_asks_for_the_port_gets_it() {
        let reserved = ReservedPort::on(Ipv4Addr::LOCALHOST.into()).unwrap();
        for address in [Ipv4Addr::LOCALHOST, Ipv4Addr::UNSPECIFIED] {
            let server = TcpListener::bind((address, reserved.port())).unwrap();
            TcpStream::connect((Ipv4Addr::LOCALHOST, reserved.port())).unwrap();
            server.accept().unwrap();
        }
    }

    #[test]
    fn a_stranger_cannot_take_the_port_while_it_is_kept() {
        let reserved = ReservedPort::on(Ipv4Addr::LOCALHOST.into()).unwrap();
        let wanted = SocketAddr::from((Ipv4Addr::LOCALHOST, reserved.port()));
        let stranger = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let refused = stranger.bind(&wanted.into()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn nobody_listens_until_rank_0_does() {
        let reserved = ReservedPort::on(Ipv4Addr::LOCALHOST.into()).unwrap();
        let refused = TcpStream::connect((Ipv4Addr::LOCALHOST, reserved.port())).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn a_host_with_the_newer_protocol_alone_has_ports_too() {
        match ReservedPort::on(Ipv6Addr::LOCALHOST.into()) {
            Ok(reserved) => {
                TcpListener::bind((Ipv6Addr::LOCALHOST, reserved.port())).unwrap();
            }
            Err(error) => eprintln!("skipped: no IPv6 loopback here ({error})"),
        }
    }
}
