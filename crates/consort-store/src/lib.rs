//! Where the processes of a job meet.
//!
//! # The subject
//!
//! The processes of a job start without knowing each other. They need one small shared place in
//! which to write "rank 3 is here, at this address", to wait for the others' entries, and to
//! agree. That place is a *store*: a table of keys and bytes. Bulk data never goes through it.
//!
//! A store promises the same wherever it lives: a read waits for its key to appear until a
//! [`Deadline`], whichever verb brings the key into being; a wrong request is refused with a
//! [`Refusal`] and harms nothing else; a call that gives up names what was [`Missing`].
//!
//! | store | lives in | for |
//! |---|---|---|
//! | [`MemStore`] | this process | threads, tests |
//! | [`FileStore`] | a file | processes that share a file system |
//! | [`TcpStore`] | a [`Server`]'s process | processes anywhere, who prove that they know the job's [`Secret`] |
//! | [`PrefixStore`] | part of another store | giving each job, round and group its own names |
//!
//! # Where to start
//!
//! [`Store`] is the one trait; its page has an example. [`Server::start`] and
//! [`TcpStore::connect`] are the two ends of a store over TCP; [`Server::follow`] starts a standby
//! that takes over when the server is lost.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests may look at the clock"))]

mod address;
#[doc(hidden)]
pub mod auth;
mod deadline;
mod error;
mod exchange;
mod file;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(test)]
mod history;
mod keeper;
mod machine;
mod mem;
mod member;
mod mirror;
mod prefix;
#[doc(hidden)]
pub mod proto;
mod receipts;
mod rendezvous;
mod request;
mod rounds;
mod secret;
mod store;
mod table;
mod tcp;

pub use address::{Address, Place};
pub use auth::PROTOCOL_VERSION;
pub use deadline::Deadline;
pub use error::{EntryType, Error, ErrorKind, HandshakeError, Missing, Refusal, Result};
pub use exchange::Exchange;
pub use file::FileStore;
pub use mem::MemStore;
pub use member::{Node, NodeId, Pulse};
pub use prefix::PrefixStore;
pub use rendezvous::{News, Rendezvous, Round};
pub use request::{Limits, Pair, Reply, Request, Swap};
pub use rounds::{Cause, Decision, Ending, JoinError, Phase, RoundOptions, Rounds};
pub use secret::Secret;
pub use store::{DEFAULT_PATIENCE, Store};
pub use tcp::{Dial, Role, Server, TcpStore};
