//! A store over TCP: [`Server`] holds the data, [`TcpStore`] is a client's handle on it.

mod client;
mod complaints;
mod connection;
mod dial;
mod feed;
mod server;
#[cfg(test)]
pub(crate) mod simulated;

use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};

pub use client::TcpStore;
pub use dial::Dial;
pub use server::{Role, Server};

/// Sends small messages at once, and notices a peer that has vanished without a word when it has
/// been silent for `silence`, or for ten seconds if that is longer.
///
/// Probes find it out while nothing is being sent. They are not sent while data are on their way;
/// without a limit of its own the system would repeat those for a quarter of an hour. The limit
/// also counts against a peer that is there but has had no room for more data for so long. A
/// client always reads what it has asked for, so only a process that is stopped, or as good as
/// that, is lost in this way. Where the limit is longer than the probes take together, the system
/// goes on probing until it is reached.
fn tune(socket: SockRef<'_>, silence: Duration) -> std::io::Result<()> {
    let probes = TcpKeepalive::new()
        .with_time(Duration::from_secs(4))
        .with_interval(Duration::from_secs(2))
        .with_retries(3);
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_keepalive(&probes)?;
    socket.set_tcp_user_timeout(Some(silence.clamp(LEAST_SILENCE, MOST_SILENCE)))
}

/// Notices sooner that a store is lost which has a standby: calls have to go on with that one before
/// the job is given up. A store that is only slow takes its clients back.
fn expect_loss(socket: SockRef<'_>, silence: Duration) -> std::io::Result<()> {
    let probes = TcpKeepalive::new()
        .with_time(Duration::from_secs(1))
        .with_interval(Duration::from_secs(1))
        .with_retries(3);
    socket.set_tcp_keepalive(&probes)?;
    socket.set_tcp_user_timeout(Some((silence / 3).clamp(SOON, MOST_SILENCE)))
}

/// Shorter ones are noticed by those who expect a sign of life.
const LEAST_SILENCE: Duration = Duration::from_secs(10);
const SOON: Duration = Duration::from_secs(3);
/// The longest that the system can count.
const MOST_SILENCE: Duration = Duration::from_millis(i32::MAX as u64);

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_connection_bears_the_silence_that_was_asked_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        for (asked, borne) in [
            (Duration::ZERO, LEAST_SILENCE),
            (Duration::from_secs(60), Duration::from_secs(60)),
            (Duration::MAX, MOST_SILENCE),
        ] {
            tune(SockRef::from(&stream), asked).unwrap();
            assert_eq!(SockRef::from(&stream).tcp_user_timeout().unwrap(), Some(borne));
        }
    }
}
