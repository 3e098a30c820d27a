//! Testing the place where the hosts of a job meet.

mod file;
mod tcp;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::finding::Finding;
use file::FileVisit;
use tcp::TcpVisit;

/// A meeting place, as `--rdzv` gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// `tcp://HOST:PORT`
    Tcp {
        /// `HOST:PORT`
        address: String,
    },
    /// `file://PATH`
    File { path: PathBuf },
}

/// What was seen there.
#[derive(Debug)]
pub(crate) enum Visit {
    Tcp(TcpVisit),
    File(FileVisit),
}

impl Place {
    /// Goes there and looks, for some seconds at most.
    pub(crate) fn visit(&self, secret_file: Option<&Path>) -> Visit {
        match self {
            Self::Tcp { address } => Visit::Tcp(TcpVisit::pay(address, secret_file)),
            Self::File { path } => Visit::File(FileVisit::pay(path)),
        }
    }
}

impl Visit {
    /// Where the others are, once that is known.
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(visit) => visit.peer(),
            Self::File(_) => None,
        }
    }
}

/// Judges a visit.
pub(crate) fn check(place: &Place, visit: &Visit) -> Vec<Finding> {
    match (place, visit) {
        (Place::Tcp { address }, Visit::Tcp(visit)) => tcp::check(address, visit),
        (Place::File { path }, Visit::File(visit)) => vec![file::check(path, visit)],
        _ => unreachable!("a visit is of the kind of its place"),
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("file://").filter(|path| !path.is_empty()) {
            return Ok(Self::File { path: path.into() });
        }
        let address = text.strip_prefix("tcp://").filter(|address| {
            let (host, port) = address.rsplit_once(':').unwrap_or_default();
            let number = port.parse::<u16>().is_ok_and(|port| port > 0);
            let bare_v6 = host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
            !host.is_empty() && number && !bare_v6
        });
        match address {
            Some(address) => Ok(Self::Tcp { address: address.to_owned() }),
            None => Err("give tcp://HOST:PORT (IPv6 in brackets) or file://PATH".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_understood() {
        for address in ["host0:29400", "10.0.0.1:1", "[::1]:29400", "[fe80::1%eth0]:5"] {
            let place = format!("tcp://{address}").parse();
            assert_eq!(place, Ok(Place::Tcp { address: address.into() }));
        }
        assert_eq!("file:///a/b".parse(), Ok(Place::File { path: "/a/b".into() }));
    }

    #[test]
    fn other_texts_are_refused_with_what_to_give() {
        for text in [
            "",
            "host0:29400",
            "tcp://host0",
            "tcp://:1",
            "tcp://h:0",
            "tcp://h:70000",
            "tcp://::1:5",
            "file://",
        ] {
            let error = text.parse::<Place>().unwrap_err();
            assert!(error.contains("tcp://HOST:PORT"), "{text:?}: {error}");
        }
    }
}
