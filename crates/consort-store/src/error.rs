//! What can go wrong, told from the caller's seat.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::rounds::JoinError;

/// The result of every store call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a store call failed.
///
/// [`kind`](Error::kind) sorts the variants into the few cases that code acts on.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store looked at the request and said no. Nothing was changed, and the store goes on.
    #[error(transparent)]
    Refused(#[from] Refusal),

    /// The deadline came first.
    #[error("{verb} gave up after {waited:.3?}: {missing}")]
    Timeout {
        /// What was waiting.
        verb: &'static str,
        /// How long it waited.
        waited: Duration,
        /// What had not come.
        missing: Missing,
    },

    /// The connection to the store is gone; so is this handle.
    #[error(
        "lost the store at {peer}: {reason}; the process that hosts it has ended or cannot be \
         reached, and what it held is gone"
    )]
    Lost {
        /// Where the store was.
        peer: String,
        /// What the connection said last.
        reason: String,
    },

    /// No connection could be made.
    #[error("cannot reach the store at {address} after {waited:.3?}: {reason}")]
    Unreachable {
        /// The address as it was given.
        address: String,
        /// How long it was tried.
        waited: Duration,
        /// The last attempt's failure.
        reason: String,
    },

    /// The two sides do not belong to one job, or do not speak one protocol.
    #[error("the store at {peer} and this process cannot work together: {reason}")]
    Handshake {
        /// The other side.
        peer: String,
        /// What did not match.
        reason: HandshakeError,
    },

    /// The server could not listen.
    #[error("cannot listen on {address}: {source}; is the port in use, the address this host's?")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        source: Arc<io::Error>,
    },

    /// The job's secret could not be had.
    #[error("the job's secret in {path}: {reason}")]
    Secret {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },

    /// The file of a [`FileStore`](crate::FileStore) could not be used.
    #[error("store file {path}: {reason}")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        reason: String,
    },

    /// Two processes came as one rank.
    #[error(
        "another process has come to {occasion:?} as rank {rank}: two processes were started with \
         the same rank, or this store still holds an earlier job"
    )]
    RankTaken {
        /// The rank.
        rank: u32,
        /// Where they met.
        occasion: String,
    },

    /// This process was forked from the one whose handle this is.
    #[error(
        "this process was forked from {owner} (process {process}), whose store this is: only that \
         one may use it; open a store after the fork"
    )]
    Forked {
        /// Whose it is.
        owner: String,
        /// Its process.
        process: u32,
    },

    /// This node cannot take part in the job.
    #[error("cannot join the job: {0}")]
    Join(#[from] JoinError),

    /// A scatter with the wrong number of pieces.
    #[error("a scatter among {world} ranks takes {world} pieces, not {given}")]
    Pieces {
        /// How many were given.
        given: usize,
        /// How many ranks there are.
        world: u32,
    },

    /// An address could not be understood.
    #[error("{text:?} is not a meeting address: {reason}")]
    Address {
        /// What was given.
        text: String,
        /// What is wrong with it.
        reason: String,
    },

    /// The system said no to something that has nothing to do with a peer.
    #[error("{doing}: {source}")]
    System {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        source: Arc<io::Error>,
    },
}

impl fmt::Debug for Error {
    /// As it is shown: `main` prints the `Debug` form of the error it returns.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// The case this error belongs to.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Refused(_)
            | Self::Handshake { .. }
            | Self::Secret { .. }
            | Self::File { .. }
            | Self::RankTaken { .. }
            | Self::Forked { .. }
            | Self::Pieces { .. }
            | Self::Join(_)
            | Self::Address { .. }
            | Self::Listen { .. } => ErrorKind::Mistake,
            Self::Timeout { .. } => ErrorKind::Deadline,
            Self::Lost { .. } | Self::Unreachable { .. } => ErrorKind::PeerGone,
            Self::System { .. } => ErrorKind::System,
        }
    }
}

/// The cases that code acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The call or the configuration is wrong; trying again will not help.
    Mistake,
    /// Those who work together do not do the same, though each by itself makes sense.
    Mismatch,
    /// Somebody this call depends on is gone.
    PeerGone,
    /// The deadline came first.
    Deadline,
    /// Somebody has ended it on purpose, or by a panic.
    Aborted,
    /// The operating system refused a resource.
    System,
}

/// Why a store refused a request. It travels over the wire and reads the same in every store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// A key must have at least one character.
    #[error("a key must not be empty")]
    EmptyKey,
    /// The key is too long.
    #[error("a key of {length} bytes is over the limit of {limit}: {start:?}…")]
    KeyTooLong {
        /// Its length in bytes.
        length: usize,
        /// The limit.
        limit: usize,
        /// How it begins.
        start: String,
    },
    /// The value is too long, or would become so.
    #[error("the value of {key:?} would have {length} bytes, over the limit of {limit}")]
    ValueTooLarge {
        /// The key.
        key: String,
        /// The value's length in bytes.
        length: usize,
        /// The limit.
        limit: usize,
    },
    /// One request names too many keys.
    #[error("one request with {count} keys is over the limit of {limit}: ask for fewer at a time")]
    TooManyKeys {
        /// How many it names.
        count: usize,
        /// The limit.
        limit: usize,
    },
    /// One request, or the reply to it, would be too large.
    #[error(
        "one request or reply of {length} bytes is over the limit of {limit}: ask for less at a time"
    )]
    MessageTooLarge {
        /// How large it would be.
        length: usize,
        /// The limit.
        limit: usize,
    },
    /// The store holds as much as it may.
    #[error("the store is full: {held} bytes held, limit {limit}; delete keys that are done with")]
    Full {
        /// Bytes held.
        held: usize,
        /// The limit.
        limit: usize,
    },
    /// The key holds another type of thing.
    #[error("{key:?} holds a {found}, not a {wanted}")]
    WrongType {
        /// The key.
        key: String,
        /// What the request needs.
        wanted: EntryType,
        /// What is there.
        found: EntryType,
    },
    /// `add` on a value that is not a whole decimal number.
    #[error("cannot add to {key:?}: its value {value:?} is not a whole number")]
    NotANumber {
        /// The key.
        key: String,
        /// How its value begins.
        value: String,
    },
    /// `add` beyond 64 bits.
    #[error("cannot add {delta} to {key:?}: {value} + {delta} does not fit in 64 bits")]
    Overflow {
        /// The key.
        key: String,
        /// Its value.
        value: i64,
        /// What was to be added.
        delta: i64,
    },
    /// Two callers disagree about how many meet at a barrier.
    #[error("barrier {key:?} is for {expected} ranks, this caller says {given}")]
    BarrierWorld {
        /// The key.
        key: String,
        /// What the first caller said.
        expected: u32,
        /// What this caller says.
        given: u32,
    },
    /// A rank that cannot come to the barrier: out of range, or already there.
    #[error("rank {rank} cannot enter barrier {key:?} of {world} ranks: {reason}")]
    BarrierRank {
        /// The key.
        key: String,
        /// The rank.
        rank: u32,
        /// How many meet.
        world: u32,
        /// Why not.
        reason: String,
    },
    /// A barrier cannot be deleted under the ranks that wait at it.
    #[error("barrier {key:?} cannot be deleted: {waiting} ranks wait at it")]
    BarrierInUse {
        /// The key.
        key: String,
        /// How many wait.
        waiting: usize,
    },
    /// One client has too many requests waiting.
    #[error("{waiting} requests of this client are waiting already, limit {limit}")]
    TooManyWaiting {
        /// How many wait.
        waiting: usize,
        /// The limit.
        limit: usize,
    },
    /// The bytes were a whole message, but not one this store knows.
    #[error("the store does not know this request: {reason}")]
    Unknown {
        /// What could not be understood.
        reason: String,
    },
}

/// What a key can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum EntryType {
    /// Bytes.
    Value,
    /// A first-in, first-out queue of bytes.
    Queue,
    /// A barrier.
    Barrier,
}

impl fmt::Display for EntryType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Value => "value",
            Self::Queue => "queue",
            Self::Barrier => "barrier",
        })
    }
}

/// What a call was still waiting for when its deadline came.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// The first few names: keys, or ranks of a barrier.
    pub names: Vec<String>,
    /// How many there are in all.
    pub count: usize,
}

impl Missing {
    /// At most this many are named.
    pub const NAMED: usize = 16;

    /// Keeps the first few of `names` and counts the rest.
    pub fn collect<T: fmt::Display>(names: impl Iterator<Item = T>) -> Self {
        let mut missing = Self::default();
        for name in names {
            if missing.count < Self::NAMED {
                missing.names.push(name.to_string());
            }
            missing.count += 1;
        }
        missing
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.count == 0 {
            return f.write_str("the store did not answer");
        }
        write!(f, "missing {}", self.names.join(", "))?;
        match self.count - self.names.len() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// Why a handshake failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The other side does not speak this protocol at all.
    #[error("it does not speak consort's protocol")]
    NotConsort,
    /// The other side speaks another version.
    #[error("it speaks protocol version {theirs}, this side version {ours}")]
    Version {
        /// Our version.
        ours: u32,
        /// Theirs.
        theirs: u32,
    },
    /// The other side did not prove that it knows the job's secret.
    #[error("the secrets differ: both sides need the same secret file of one job")]
    Secret,
    /// The other side took too long.
    #[error("it did not finish the handshake within {limit:?}")]
    Slow {
        /// The limit.
        limit: Duration,
    },
    /// The server has as many connections as it may.
    #[error("the server has no room for another connection")]
    Full,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_main_prints_of_an_error_is_what_it_says() {
        let error = Error::from(Refusal::EmptyKey);
        assert_eq!(format!("{error:?}"), "a key must not be empty");
    }
}
