//! What consort's tests are made with. For tests only.
//!
//! # The subject
//!
//! A library for many processes is tested with many processes, and what it promises about
//! failures is tested with real failures. So:
//!
//! - [`ranks()`] runs a closure in several real processes and returns what each of them found.
//!   [`Ranks`] is the same with a handle on the running processes: a test can kill, stop and
//!   continue a rank at a known moment. There is always a time limit, and a test that fails shows
//!   the output of every rank.
//! - [`conformance!`] makes one test of each [`Kind`] of group out of a function: ranks that share
//!   memory, that use TCP, on several hosts, in one process, started by MPI's launcher.
//! - [`Hosts`] are network namespaces on one wire: hosts with addresses and links of their own,
//!   whose cables can be pulled. A [`Network`] says what lies between them: which addresses, how
//!   far, how lossy, which ports are open. Where the system cannot do that the test says
//!   [`skip()`].
//! - [`net`] is a network without machines: thousands of histories with delays, cuts and crashes, each
//!   from a seed, for code that decides without sockets and clocks.
//! - [`ControlGroup`] limits the memory of some of the ranks, and [`limit`] whatever else a process can lack.
//! - [`store`] is the conformance suite of `consort_store::Store`: what every store promises, one
//!   function per promise. A new store is done when it passes.
//!
//! # Where to start
//!
//! ```no_run
//! #[test]
//! fn ranks_know_who_they_are() {
//!     let found = consort_testkit::ranks(4, |ctx| ctx.rank());
//!     assert_eq!(found, [0, 1, 2, 3]);
//! }
//! # fn main() {}
//! ```
#![forbid(unsafe_code)]

mod control_group;
mod hosts;
mod names;
pub mod net;
mod ranks;
mod scratch;
mod shortage;
mod skip;
pub mod store;
mod threads;

pub use control_group::ControlGroup;
pub use hosts::{Address, Family, Host, Hosts, Network};
pub use names::names_in_shared_memory;
pub use ranks::{Case, Context, Job, Kind, Mpi, Outcome, Ranks, ranks};
pub use shortage::{limit, used_addresses};
pub use skip::{Skip, skip};
pub use threads::{await_threads, threads_called};
