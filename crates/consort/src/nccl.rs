//! NVIDIA's collective communication library, as it is: for programs that have a device, know what a stream is, and
//! want NCCL's own calls.
//!
//! # The subject
//!
//! NCCL moves data between the devices of one host or many. A [`Comm`] is one rank's end of a *communicator*. To make
//! one, one process makes a [`UniqueId`], brings it to all others, and all of them call [`Comm::init_rank`]. Then
//! all of them make the same calls, each of which puts work on a [`Stream`] of the device.
//!
//! NCCL is not needed to build this: [`Library::find`] looks for it when the program runs, and says what it tried
//! if there is none. One program works with every version from 2.3 on. What the one that was found can do,
//! [`Library::has`] tells; to ask for more is an [error](Error::NeedsVersion) that names the version it takes.
//!
//! Consort's own `libconsort_nccl.so` has the same functions on host memory, and can be loaded in its place where
//! there is no device. [`Library::identity`] tells them apart. (NCCL has no function that tells the suffix of a version,
//! which PyTorch knows from the header that it was compiled with.)
//!
//! # What is safe
//!
//! - **Communicators** are alive while they are used: threads take turns, groups keep theirs, and one that ends while
//!   another thread waits in it lets that out first. From a [blocking](Config::blocking) one only NCCL lets a thread
//!   out, by `ncclCommAbort` on another: there an abort rests on NCCL's doing that for threads that are inside, and on
//!   each that is about to be inside being there after 100 ms.
//! - **Memory** is another matter. Work goes on after the call that began it, so the calls that [move
//!   data](Comm#moving-data) are `unsafe`: the caller sees to it that the memory is there, and nobody else's, until
//!   then. So is making memory known to NCCL that is not [its own](Memory).
//! - **Streams** are handles that others made; `unsafe` [`Stream::from_raw`] takes their word for it.
//!
//! Everything else is safe, with every version, and with a library that lacks a function or answers what no version
//! has answered before.

mod cache;
mod change;
mod check;
mod code;
mod collectives;
mod comm;
mod config;
mod error;
mod feature;
mod find;
mod gate;
mod group;
mod id;
mod library;
mod making;
mod memory;
mod op;
pub(crate) mod operand;
mod parameter;
mod stream;
mod table;
mod version;
mod watch;
mod window;

pub use cache::{cached, forget};
pub use change::{MemoryStat, Shrink};
pub use code::Code;
pub use comm::Comm;
pub use config::{Config, CtaPolicy};
pub(crate) use error::{CORRECT, INSTALL};
pub use error::{Error, Failure, Result};
pub use feature::Feature;
pub use group::{group, simulate};
pub use id::{Bootstrap, UniqueId};
pub use library::Library;
pub use memory::{Memory, Registration};
pub use op::{Op, PreMulSum};
pub use stream::Stream;
pub use version::{BUILT_AGAINST, Version};
pub(crate) use watch::watched;
pub use window::{Signals, Window, WindowOptions};

#[cfg(test)]
mod tests;
