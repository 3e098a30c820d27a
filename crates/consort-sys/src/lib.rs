//! The machine room: what this process may use of the machine it runs on.
//!
//! # The subject
//!
//! A machine is seldom a process's own. A container may use two of its sixty-four processors, a
//! batch system pins ranks to some of them, a quota takes the processor away in the middle of a
//! period, a limit ends the process that asks for too much memory. How to wait, how many ranks to
//! start and which address to listen on all follow from what is *allowed*, not from what is there.
//!
//! | room | answers |
//! |---|---|
//! | [`topo`] | which processors, caches and memory nodes; how many cores that comes to |
//! | [`memory`] | how much memory, shared memory and huge pages |
//! | [`limits`] | how many files, processes and locked bytes |
//! | [`net`] | which interfaces, and which of them leads to a peer |
//! | [`socket`] | how bytes get from memory to a socket and back |
//! | [`hop`] | how far apart two cores are |
//! | [`host`] | which machine this is: who can share memory with whom |
//! | [`clock`] | whether its clocks can be relied on |
//! | [`arena`] | memory that the ranks of a host share |
//! | [`pass`] | how they hand it to each other |
//! | [`hatch`] | how they hand each other connections later on |
//! | [`board`] | how they keep in step |
//! | [`ring`] | how they send messages to each other |
//! | [`window`] | how they reach each other's buffers |
//! | [`reach`] | whether they can read each other's private memory, and how |
//! | [`wait`] | how they wait for each other |
//! | [`turn`] | how the threads of a rank take turns |
//! | [`life`] | whether another process is alive |
//! | [`origin`] | whether this is a forked child of the process that began something |
//! | [`dtype`] | what the bytes of a buffer mean, and how they can be combined |
//! | [`reduce`] | one buffer made of many, at the speed of memory |
//! | [`view`] | bytes that another process may write while they are looked at |
//! | [`lend`] | borrowed buffers that other threads may use for a while |
//! | [`record`] | what a rank did last, also when it is gone |
//! | [`alert`] | how a thread sleeps until any of many things happens |
//! | [`dl`] | libraries that are there or not: other engines |
//! | [`ability`] | whether the system calls that consort is built on are permitted |
//!
//! Nothing here fails because a file is missing: what cannot be known is `None` or empty, and
//! whoever asks decides what that means.
//!
//! # Where to start
//!
//! ```
//! use consort_sys::topo::Topology;
//!
//! let machine = Topology::here();
//! println!("{} ranks can have a core each", machine.effective_cores());
//! assert!(machine.effective_cores() >= 1);
//! ```
//!
//! Every reader comes in two parts: a parser over text, and a thin function that reads the files
//! under a root directory. The root is `/` except in tests.
// This crate is where atomics and memory of other processes are handled for all others.
#![allow(clippy::disallowed_types)]

pub mod ability;
pub mod alert;
pub mod arena;
pub mod board;
mod cgroup;
pub mod clock;
pub mod dl;
pub mod dtype;
pub mod hatch;
pub mod hop;
pub mod host;
pub mod lend;
pub mod life;
pub mod limits;
mod lock;
pub mod memory;
pub mod net;
pub mod origin;
pub mod parting;
pub mod pass;
pub mod reach;
pub mod record;
pub mod reduce;
pub mod ring;
mod root;
pub mod socket;
mod stream;
pub mod topo;
pub mod turn;
pub mod view;
pub mod wait;
pub mod window;
mod word;
