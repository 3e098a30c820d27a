//! What goes over a store's connection once the handshake is done. No I/O: bytes in, bytes out.
//!
//! A message is four bytes of length (little-endian) and its postcard encoding. Messages make a
//! stream, the stream is cut into sealed records ([`auth`](crate::auth)); several small messages
//! share a record, a large one takes several. Every call has a number and gets exactly one
//! answer, in any order, so many can be under way on one connection.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::auth::{Forged, Opener, Sealer};
pub use crate::mirror::{Entry, Note};
use crate::request::{Limits, Reply, Request, bounded_list};

/// What a client sends.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message<'a> {
    /// Do this.
    Call {
        /// The client's number for this call; the answer carries it.
        call: u64,
        /// Whether to wait if it cannot be done at once.
        wait: bool,
        /// Calls whose answers the client has, or does not want any more.
        #[serde(deserialize_with = "bounded_list")]
        done: Vec<u64>,
        /// What to do.
        #[serde(borrow)]
        request: Request<'a>,
    },
    /// Stop waiting with this call. It is answered with what it was missing, unless its answer
    /// is under way already.
    Cancel {
        /// The call.
        call: u64,
    },
    /// This is who I am: a client's first message on every connection.
    Hello {
        /// The client's number, which it chose at random.
        client: u64,
        /// The latest epoch that it has seen a store serve in.
        epoch: u64,
        /// Its calls that have no answer yet.
        #[serde(deserialize_with = "bounded_list")]
        open: Vec<u64>,
    },
    /// A store wants to follow this one.
    Attach {
        /// Where clients reach it.
        address: SocketAddr,
    },
    /// The following store has all entries up to this one.
    Have {
        /// The entry's number.
        index: u64,
    },
    /// The following store has taken over.
    Took,
}

/// What a server sends.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Word {
    /// An answer to a call.
    Answer(Answer),
    /// How the store stands: said to everybody who comes, and when it changes.
    House(House),
    /// What has happened, for a store that follows this one.
    Note(Note),
}

/// An answer to a call.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The call that is answered.
    pub call: u64,
    /// The answer.
    pub reply: Reply,
}

/// How a store stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct House {
    /// The epoch it serves in, or served in last.
    pub epoch: u64,
    /// Why it does not serve; empty if it does.
    pub aside: String,
    /// Where the store is that takes over if this one is lost.
    pub standby: Option<SocketAddr>,
}

/// Why a connection cannot go on: the stream itself is damaged.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// A record did not open.
    #[error(transparent)]
    Forged(#[from] Forged),
    /// A message announces more than any may have.
    #[error("a message of {length} bytes was announced, over the limit of {limit}")]
    TooLong {
        /// What was announced.
        length: usize,
        /// The limit.
        limit: usize,
    },
    /// A message makes no sense.
    #[error("a message could not be understood: {0}")]
    Nonsense(postcard::Error),
}

/// Turns messages into sealed bytes.
#[derive(Debug)]
pub struct Outbox {
    sealer: Sealer,
    plain: Vec<u8>,
    wire: Vec<u8>,
    sent: usize,
}

impl Outbox {
    /// For a connection whose handshake is done.
    pub fn new(sealer: Sealer) -> Self {
        Self { sealer, plain: Vec::new(), wire: Vec::new(), sent: 0 }
    }

    /// Adds a message, to be sealed with the next [`unsent`](Self::unsent).
    pub fn push(&mut self, message: &impl Serialize) {
        let start = self.plain.len();
        let mut plain = std::mem::take(&mut self.plain);
        plain.extend_from_slice(&[0; LENGTH]);
        self.plain = postcard::to_extend(message, plain).expect("memory can be extended");
        let length = self.plain.len() - start - LENGTH;
        let length = u32::try_from(length).expect("requests and replies are bounded");
        self.plain[start..start + LENGTH].copy_from_slice(&length.to_le_bytes());
    }

    /// Seals what was added and gives all that has still to be written to the connection.
    pub fn unsent(&mut self) -> &[u8] {
        if !self.plain.is_empty() {
            self.sealer.seal(&self.plain, &mut self.wire);
            empty(&mut self.plain);
        }
        &self.wire[self.sent..]
    }

    /// So many bytes of [`unsent`](Self::unsent) have been written.
    pub fn sent(&mut self, count: usize) {
        self.sent += count;
        if self.sent == self.wire.len() {
            empty(&mut self.wire);
            self.sent = 0;
        } else if self.sent >= self.wire.len() - self.sent {
            // Whoever never quite catches up must not make us keep all that it has had.
            self.wire.drain(..self.sent);
            self.sent = 0;
        }
    }

    /// How much there is to write, about.
    pub fn len(&self) -> usize {
        self.plain.len() + self.wire.len() - self.sent
    }

    /// Whether everything has been written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Turns received bytes into messages.
#[derive(Debug)]
pub struct Inbox {
    opener: Opener,
    wire: Vec<u8>,
    plain: Vec<u8>,
    taken: usize,
    limit: usize,
}

impl Inbox {
    /// For a connection whose handshake is done.
    pub fn new(opener: Opener) -> Self {
        let limit = Limits::STANDARD.message + SLACK;
        Self { opener, wire: Vec::new(), plain: Vec::new(), taken: 0, limit }
    }

    /// Takes received bytes. What is kept is no more than what came.
    ///
    /// # Errors
    /// When a record does not open: the connection is damaged.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<(), Damage> {
        if !self.wire.is_empty() {
            bytes = self.complete_record(bytes)?;
        }
        while let Some(length) = Opener::whole(bytes) {
            self.opener.open(&bytes[..length], &mut self.plain)?;
            bytes = &bytes[length..];
        }
        self.wire.extend_from_slice(bytes);
        Ok(())
    }

    /// The next whole message, if there is one: take them all before feeding more.
    ///
    /// # Errors
    /// When the message is too long or makes no sense: the connection is damaged.
    pub fn take<'a, T: Deserialize<'a>>(&'a mut self) -> Result<Option<T>, Damage> {
        let rest = &self.plain[self.taken..];
        let Some((length, rest)) = rest.split_at_checked(LENGTH) else {
            self.forget_taken();
            return Ok(None);
        };
        let length = u32::from_le_bytes(length.try_into().expect("it was split there")) as usize;
        if length > self.limit {
            return Err(Damage::TooLong { length, limit: self.limit });
        }
        if rest.len() < length {
            self.forget_taken();
            return Ok(None);
        }
        let start = self.taken + LENGTH;
        self.taken = start + length;
        let body = &self.plain[start..self.taken];
        postcard::from_bytes(body).map(Some).map_err(Damage::Nonsense)
    }

    /// Fills up the record that began earlier; gives the bytes behind it.
    fn complete_record<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], Damage> {
        let header = RECORD_HEADER.saturating_sub(self.wire.len()).min(bytes.len());
        let (start, bytes) = bytes.split_at(header);
        self.wire.extend_from_slice(start);
        let [low, high, ..] = self.wire[..] else { return Ok(bytes) };
        let whole = RECORD_HEADER + usize::from(u16::from_le_bytes([low, high]));
        let (rest, bytes) = bytes.split_at((whole - self.wire.len()).min(bytes.len()));
        self.wire.extend_from_slice(rest);
        if self.wire.len() == whole {
            self.opener.open(&self.wire, &mut self.plain)?;
            self.wire.clear();
        }
        Ok(bytes)
    }

    fn forget_taken(&mut self) {
        if self.taken == self.plain.len() {
            empty(&mut self.plain);
        } else {
            self.plain.drain(..self.taken);
        }
        self.taken = 0;
    }
}

/// Empties a buffer, and gives its memory back if it had grown for something large.
fn empty(buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.shrink_to(KEPT);
}

const LENGTH: usize = 4;
const RECORD_HEADER: usize = 2;
/// What a message may have beyond the weight of its request: numbers and lengths.
const SLACK: usize = 1 << 20;
/// What an idle connection's buffer keeps.
const KEPT: usize = 4 << 10;
