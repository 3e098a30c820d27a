//! A store over TCP: [`Server`] holds the data, [`TcpStore`] is a client's handle on it.

mod client;
mod connection;
mod dial;
mod server;

use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};

pub use client::TcpStore;
pub use dial::Dial;
pub use server::Server;

/// Sends small messages at once, and notices a peer that has vanished without a word within
/// about ten seconds, also when nothing is being sent.
fn tune(socket: SockRef<'_>) -> std::io::Result<()> {
    let probes = TcpKeepalive::new()
        .with_time(Duration::from_secs(4))
        .with_interval(Duration::from_secs(2))
        .with_retries(3);
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_keepalive(&probes)?;
    socket.set_tcp_user_timeout(Some(Duration::from_secs(10)))
}
