//! A port that stays free for rank 0: bound, but not listened on.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;

use socket2::{Domain, Protocol, Socket, Type};

/// A port of the loopback interface that nobody else gets while this lives.
#[derive(Debug)]
pub(crate) struct ReservedPort {
    pub(crate) number: u16,
    _bound: Socket,
}

impl ReservedPort {
    /// The first free one of these; 0 stands for any.
    pub(crate) fn within(mut ports: RangeInclusive<u16>) -> Self {
        ports.find_map(Self::reserve).expect("one of these ports is free")
    }

    fn reserve(port: u16) -> Option<Self> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).ok()?;
        socket.set_reuse_address(true).ok()?;
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into()).ok()?;
        let number = socket.local_addr().ok()?.as_socket()?.port();
        Some(Self { number, _bound: socket })
    }
}
