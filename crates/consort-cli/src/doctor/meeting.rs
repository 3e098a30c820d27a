//! Testing the place where the hosts of a job meet.

mod file;
mod tcp;

use std::net::SocketAddr;
use std::path::Path;

use consort_store::Place;

use super::finding::Finding;
use file::FileVisit;
use tcp::TcpVisit;

/// What was seen there.
#[derive(Debug)]
pub(crate) enum Visit {
    Tcp(TcpVisit),
    File(FileVisit),
}

/// Goes to a place and looks, for some seconds at most.
pub(crate) fn visit(place: &Place, secret_file: Option<&Path>) -> Visit {
    match (place.endpoint(), place) {
        (Some(address), _) => Visit::Tcp(TcpVisit::pay(&address, secret_file)),
        (None, Place::File(path)) => Visit::File(FileVisit::pay(path)),
        (None, Place::Tcp { .. }) => unreachable!("every server has an endpoint"),
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
        (Place::Tcp { .. }, Visit::Tcp(visit)) => {
            tcp::check(&place.endpoint().expect("every server has an endpoint"), visit)
        }
        (Place::File(path), Visit::File(visit)) => vec![file::check(path, visit)],
        _ => unreachable!("a visit is of the kind of its place"),
    }
}
