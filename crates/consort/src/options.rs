//! How data travels between ranks: what can be chosen, and what was.

mod engine;
mod wishes;

use std::fmt;
use std::num::{NonZeroU8, NonZeroU32};
use std::str::FromStr;

pub use self::engine::{Engine, UnknownEngine};
pub(crate) use self::wishes::{OPTIONS, Wishes};

/// What data travels over.
///
/// ```
/// use consort::Transport;
///
/// assert_eq!("tcp".parse(), Ok(Transport::Tcp));
/// assert_eq!(Transport::default().to_string(), "auto");
/// let error = "udp".parse::<Transport>().unwrap_err();
/// assert_eq!(error.to_string(), r#"no transport "udp"; choose auto, shm or tcp"#);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Transport {
    /// `auto`: shared memory where ranks share a host, TCP between hosts.
    #[default]
    Auto,
    /// `shm`: shared memory alone. Ranks on several hosts are refused.
    Shm,
    /// `tcp`: TCP everywhere, also between ranks of one host.
    Tcp,
}

impl FromStr for Transport {
    type Err = UnknownTransport;

    fn from_str(name: &str) -> Result<Self, UnknownTransport> {
        match name {
            "auto" => Ok(Self::Auto),
            "shm" => Ok(Self::Shm),
            "tcp" => Ok(Self::Tcp),
            _ => Err(UnknownTransport { name: name.to_owned() }),
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Shm => "shm",
            Self::Tcp => "tcp",
        })
    }
}

/// There is no [`Transport`] of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no transport {name:?}; choose auto, shm or tcp")]
pub struct UnknownTransport {
    name: String,
}

/// How data travels, as it was settled for this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Who carries out calls.
    pub(crate) engine: Engine,
    /// What it travels over.
    pub(crate) transport: Transport,
    /// Whether it is sealed between hosts.
    pub(crate) encrypt: bool,
    /// Whether a checksum goes with it between hosts.
    pub(crate) integrity: bool,
    /// Every how many calls the ranks compare their results; `None` for never.
    pub(crate) verify_every: Option<NonZeroU32>,
    /// The name of the algorithm to use, one of [`consort_plan::algo::NAMES`], instead of the one
    /// that is chosen for each call.
    pub(crate) algorithm: Option<String>,
    /// How many TCP connections a pair of ranks has, up to [`MOST_STREAMS`](Self::MOST_STREAMS);
    /// `None` if that is found by measuring.
    pub(crate) streams: Option<NonZeroU8>,
    /// The port that this host listens on for data, 0 for one that the system chooses; `None` for the
    /// store's number where that is elsewhere.
    pub(crate) port: Option<u16>,
}

impl Options {
    /// How many connections a pair of ranks may have.
    pub(crate) const MOST_STREAMS: u8 = 8;

    /// What has to be the same on every rank, by name. The port is each host's own.
    pub(crate) fn must_be_the_same(&self) -> [(&'static str, String); 7] {
        let switch = |on| if on { "on" } else { "off" }.to_owned();
        let verify = self.verify_every.map(|calls| format!("every {calls} calls"));
        let streams = self.streams.map(|count| count.to_string());
        [
            ("engine", self.engine.to_string()),
            ("transport", self.transport.to_string()),
            ("encrypt", switch(self.encrypt)),
            ("integrity", switch(self.integrity)),
            ("verify", verify.unwrap_or_else(|| "never".to_owned())),
            ("algorithm", self.algorithm.clone().unwrap_or_else(|| "auto".to_owned())),
            ("streams", streams.unwrap_or_else(|| "measured".to_owned())),
        ]
    }
}

#[cfg(test)]
mod tests;
