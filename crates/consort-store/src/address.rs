//! Where a job meets: `tcp://host:port` or `file:///path`, with rank and world if they are known.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::error::{Error, Result};

/// A parsed meeting address.
///
/// ```
/// use consort_store::{Address, Place};
///
/// let address: Address = "tcp://node0:29400?rank=1&world=4".parse()?;
/// assert_eq!(address.place, Place::Tcp { host: "node0".to_owned(), port: 29400 });
/// assert_eq!((address.rank, address.world), (Some(1), Some(4)));
/// # Ok::<(), consort_store::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The place itself.
    pub place: Place,
    /// This process's rank, if the address says it.
    pub rank: Option<u32>,
    /// How many processes meet, if the address says it.
    pub world: Option<u32>,
}

/// The place of a meeting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A server's.
    Tcp {
        /// A name or a number, IPv6 without its brackets.
        host: String,
        /// The port.
        port: u16,
    },
    /// A file's.
    File(PathBuf),
}

impl Place {
    /// `host:port` as the system's resolver takes it; none for a file.
    pub fn endpoint(&self) -> Option<String> {
        match self {
            Self::Tcp { host, port } if host.contains(':') => Some(format!("[{host}]:{port}")),
            Self::Tcp { host, port } => Some(format!("{host}:{port}")),
            Self::File(_) => None,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.endpoint(), self) {
            (Some(endpoint), _) => write!(f, "tcp://{endpoint}"),
            (None, Self::File(path)) => write!(f, "file://{}", path.display()),
            (None, Self::Tcp { .. }) => unreachable!("every server has an endpoint"),
        }
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parse(text).map_err(|reason| Error::Address { text: text.to_owned(), reason })
    }
}

fn parse(text: &str) -> Result<Address, String> {
    let (scheme, rest) = text.split_once("://").ok_or(FORMS)?;
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let place = match scheme {
        "tcp" => parse_endpoint(place)?,
        "file" if place.starts_with('/') => Place::File(PathBuf::from(place)),
        "file" => return Err("a file's path starts with /: file:///path".to_owned()),
        other => return Err(format!("there is no meeting by {other:?}; {FORMS}")),
    };
    let mut address = Address { place, rank: None, world: None };
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').ok_or(format!("{part:?} has no value"))?;
        let slot = match name {
            "rank" => &mut address.rank,
            "world" | "world_size" => &mut address.world,
            _ => return Err(format!("it takes rank and world, not {name:?}")),
        };
        let number = value.parse().map_err(|_| format!("{name} is a number, not {value:?}"))?;
        if slot.replace(number).is_some() {
            return Err(format!("it says {name} twice"));
        }
    }
    Ok(address)
}

fn parse_endpoint(text: &str) -> Result<Place, String> {
    let text = text.strip_suffix('/').unwrap_or(text);
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => rest.split_once("]:").ok_or("an IPv6 address is written [host]:port")?,
        None => text.rsplit_once(':').ok_or("the port is missing: tcp://host:port")?,
    };
    if host.is_empty() {
        return Err("the host is missing: tcp://host:port".to_owned());
    }
    if host.contains(':') && !text.starts_with('[') {
        return Err(format!("an IPv6 address is written in brackets: tcp://[{host}]:{port}"));
    }
    let port = port.parse().map_err(|_| format!("a port is 0 to 65535, not {port:?}"))?;
    Ok(Place::Tcp { host: host.to_owned(), port })
}

const FORMS: &str = "it is tcp://host:port or file:///path";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn places_read_back_as_they_are_shown() {
        for text in
            ["tcp://node-0:29400", "tcp://[fd00::1]:1", "tcp://10.0.0.1:65535", "file:///a b/c"]
        {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.place.to_string(), text);
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, reason) in [
            ("node0:29400", "it is tcp://host:port"),
            ("http://a:1", "no meeting by \"http\""),
            ("tcp://node0", "the port is missing"),
            ("tcp://:29400", "the host is missing"),
            ("tcp://a:65536", "a port is 0 to 65535"),
            ("tcp://::1:29400", "in brackets: tcp://[::1]:29400"),
            ("tcp://[::1]", "[host]:port"),
            ("file://relative", "starts with /"),
            ("tcp://a:1?rank=x", "rank is a number"),
            ("tcp://a:1?rank=-1", "rank is a number"),
            ("tcp://a:1?rank", "\"rank\" has no value"),
            ("tcp://a:1?size=3", "not \"size\""),
            ("tcp://a:1?rank=1&rank=2", "says rank twice"),
        ] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_judged_without_harm(text in ".{0,60}", scheme in "(tcp|file)?(://)?") {
            let _ = format!("{scheme}{text}").parse::<Address>();
        }
    }
}
