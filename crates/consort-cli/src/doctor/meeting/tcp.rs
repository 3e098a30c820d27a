//! A meeting over TCP: is somebody there, does it let us in, how fast is it?

mod judge;
mod measure;

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use consort_store::{Deadline, Error, HandshakeError, Secret, TcpStore};

pub(super) use judge::check;
use measure::Figures;

/// How far we came.
#[derive(Debug)]
pub(crate) enum TcpVisit {
    /// The name has no address.
    Unresolved { reason: String },
    /// No address took a connection.
    Unreached { first: SocketAddr, silence: Silence },
    /// Somebody took the connection.
    Reached { peer: SocketAddr, took: Duration, welcome: Welcome },
}

/// Why no connection was made.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Silence {
    /// The host is there, and nobody listens.
    Refused,
    /// Nothing came back.
    NoAnswer,
    Other(String),
}

/// What happened after the connection was made.
#[derive(Debug)]
pub(crate) enum Welcome {
    /// We had no secret to show.
    NoSecret,
    /// The secret's file is no good, which is reported elsewhere.
    UnreadableSecret,
    /// We do not belong together.
    TurnedAway(HandshakeError),
    /// The conversation broke down.
    Broken(String),
    In(Figures),
}

impl TcpVisit {
    pub(super) fn pay(address: &str, secret_file: Option<&Path>) -> Self {
        let addresses = match resolve(address) {
            Ok(addresses) => addresses,
            Err(reason) => return Self::Unresolved { reason },
        };
        let Some(&first) = addresses.first() else {
            return Self::Unresolved { reason: "the name has no address".into() };
        };
        let mut silence = Silence::NoAnswer;
        for &peer in &addresses {
            let started = Instant::now();
            match TcpStream::connect_timeout(&peer, CONNECT_LIMIT) {
                Ok(_) => {
                    let (took, welcome) = (started.elapsed(), Welcome::seek(address, secret_file));
                    return Self::Reached { peer, took, welcome };
                }
                Err(error) => silence = error.into(),
            }
        }
        Self::Unreached { first, silence }
    }

    pub(super) fn peer(&self) -> Option<SocketAddr> {
        match self {
            Self::Unresolved { .. } => None,
            Self::Unreached { first, .. } => Some(*first),
            Self::Reached { peer, .. } => Some(*peer),
        }
    }
}

impl Welcome {
    fn seek(address: &str, secret_file: Option<&Path>) -> Self {
        let Some(path) = secret_file else {
            return Self::NoSecret;
        };
        let Ok(secret) = Secret::from_file(path) else {
            return Self::UnreadableSecret;
        };
        let measured = TcpStore::connect(address, &secret, Deadline::after(HANDSHAKE_LIMIT))
            .and_then(|store| Figures::measure(&store.with_patience(CALL_LIMIT)));
        match measured {
            Ok(figures) => Self::In(figures),
            Err(Error::Handshake { reason, .. }) => Self::TurnedAway(reason),
            Err(error) => Self::Broken(error.to_string()),
        }
    }
}

impl From<io::Error> for Silence {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::Refused,
            io::ErrorKind::TimedOut => Self::NoAnswer,
            _ => Self::Other(error.to_string()),
        }
    }
}

/// Asks for the addresses of a name, on a thread of its own: the system has no limit for it.
fn resolve(address: &str) -> Result<Vec<SocketAddr>, String> {
    let (answer, answered) = mpsc::channel();
    let name = address.to_owned();
    thread::spawn(move || {
        let found = name.to_socket_addrs().map(Iterator::collect);
        // Nobody listens any more when the limit has passed.
        let _ = answer.send(found.map_err(|error| error.to_string()));
    });
    let silence = |_| Err(format!("no answer within {RESOLVE_LIMIT:?}"));
    answered.recv_timeout(RESOLVE_LIMIT).unwrap_or_else(silence)
}

const RESOLVE_LIMIT: Duration = Duration::from_secs(10);
const CONNECT_LIMIT: Duration = Duration::from_secs(3);
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);
const CALL_LIMIT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
