//! A store over TCP: [`Server`] holds the data, [`TcpStore`] is a client's handle on it.

mod client;
mod complaints;
mod connection;
mod dial;
mod server;

use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};

pub use client::TcpStore;
pub use dial::Dial;
pub use server::Server;

/// Sends small messages at once, and notices a peer that has vanished without a word within
/// about ten seconds.
///
/// Probes find it out while nothing is being sent. They are not sent while data are on their way;
/// without a limit of its own the system would repeat those for a quarter of an hour. The limit
/// also counts against a peer that is there but has had no room for more data for so long. A
/// client always reads what it has asked for, so only a process that is stopped, or as good as
/// that, is lost in this way. It cannot be longer than the probes take together, because the
/// system would then make those wait for it too.
fn tune(socket: SockRef<'_>) -> std::io::Result<()> {
    let probes = TcpKeepalive::new()
        .with_time(Duration::from_secs(4))
        .with_interval(Duration::from_secs(2))
        .with_retries(3);
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_keepalive(&probes)?;
    socket.set_tcp_user_timeout(Some(Duration::from_secs(10)))
}
