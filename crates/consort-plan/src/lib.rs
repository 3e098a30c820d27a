//! What to move: collectives as programs, pure data without sockets, clocks or threads.
//!
//! # The subject
//!
//! A collective moves chunks between ranks. Which chunk goes where, in which round, and in which order
//! values are combined, is decided here, as a [`Program`] for each rank: rounds of sends, receives
//! and copies. Whoever has links to the other ranks runs it; nothing here does.
//!
//! Because a program is data, it can be *proved*: [`check`] runs all ranks together on symbols and says
//! whether every contribution is counted exactly once, whether all ranks combine in the same order (so
//! that they end with the same bits), and whether they can wait for each other forever.
//!
//! # Where to start
//!
//! An [`Algorithm`] writes programs for an operation ([`Collective`], whose page has the contracts):
//!
//! ```
//! use consort_plan::{Collective, algo, check};
//!
//! let ring = algo::by_name("ring").expect("there is a ring");
//! let program = ring.program(Collective::AllReduce, 4, 0);
//! assert_eq!(program.len(), 6);
//! assert_eq!(program.round(0)[0].to_string(), "send In[3] to 1");
//!
//! let report = check::algorithm(ring, Collective::AllReduce, 4)?;
//! assert_eq!(report.rounds, 6);
//! # Ok::<(), Box<consort_plan::check::Fault>>(())
//! ```

#![forbid(unsafe_code)]

pub mod algo;
pub mod check;
pub mod choose;
pub mod cost;
pub mod draw;
mod layout;
mod mix;
mod op;
mod program;

pub use algo::Algorithm;
pub use layout::Layout;
pub use op::{Collective, UnknownCollective, Wanted};
pub use program::{Chunks, How, Operand, Program, Space, Step};
