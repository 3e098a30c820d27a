//! A socket that listens before the meeting begins.

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};

/// It is taken once: clones share it, and two stores on one socket would each get some of the ranks.
#[derive(Clone, Debug)]
pub(crate) struct Listening(Arc<Mutex<Option<TcpListener>>>);

impl Listening {
    pub(super) fn on(listener: TcpListener) -> Self {
        Self(Arc::new(Mutex::new(Some(listener))))
    }

    /// The socket, for the first who asks.
    pub(crate) fn take(&self) -> Option<TcpListener> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether those who call at one of these addresses come to a socket that listens here.
    pub(crate) fn is_reached_at(here: SocketAddr, addresses: &[SocketAddr]) -> bool {
        let leads_here = |address: &SocketAddr| {
            let (called, listens) = (address.ip().to_canonical(), here.ip().to_canonical());
            // Who listens everywhere may do so for the newer kind of addresses only, or for both.
            let is_everywhere = listens.is_unspecified() && (here.is_ipv6() || called.is_ipv4());
            address.port() == here.port() && (called == listens || is_everywhere)
        };
        addresses.iter().any(leads_here)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_reached_at_its_own_port_and_address_or_at_all_if_it_listens_everywhere() {
        let is_reached = |here: &str, at: &[&str]| {
            let at: Vec<SocketAddr> = at.iter().map(|address| address.parse().unwrap()).collect();
            Listening::is_reached_at(here.parse().unwrap(), &at)
        };
        assert!(is_reached("127.0.0.1:5", &["127.0.0.1:5"]));
        assert!(is_reached("127.0.0.1:5", &["[::1]:5", "127.0.0.1:5"]));
        assert!(is_reached("127.0.0.1:5", &["[::ffff:127.0.0.1]:5"]));
        assert!(is_reached("0.0.0.0:5", &["10.0.0.1:5"]));
        assert!(is_reached("[::]:5", &["10.0.0.1:5"]));
        assert!(is_reached("[::]:5", &["[fd00::1]:5"]));
        assert!(!is_reached("127.0.0.1:5", &["127.0.0.1:6"]));
        assert!(!is_reached("127.0.0.1:5", &["127.0.0.2:5"]));
        assert!(!is_reached("0.0.0.0:5", &["10.0.0.1:6", "[fd00::1]:5"]));
        assert!(!is_reached("127.0.0.1:5", &[]));
    }
}
