//! What a rank did last, kept where it can be read after its end.
//!
//! A rank writes down each call when it begins and when it ends, in memory that is a file: the kernel
//! keeps it when the process is killed, and another process can read it at any time. A file holds one
//! rank's [`Recording`]: who it is, and for each of its groups a [`Journal`], a ring of the last
//! [`CALLS`] calls.
//!
//! ```text
//! ┌──────┬───────┬─────────────────────────────┬─────────────────────────────┬───
//! │ head │ sites │ group: head, ring of calls  │ group: head, ring of calls  │ …
//! └──────┴───────┴─────────────────────────────┴─────────────────────────────┴───
//! ```
//!
//! # How a call is written
//!
//! Only one thread carries out a group's calls at a time, so an entry has one writer. It takes the
//! call's number away, writes the rest, and writes the number. What changes later, whom
//! the call waits for and when it has ended, is one word each. A reader copies everything twice, and
//! believes what was the same both times. `record/models.rs` tries that with every interleaving.
//!
//! Writing takes no lock and no system call. The time is the processor's own counter where it has one
//! that runs evenly; now and then it is noted together with the clocks that people read.
//!
//! Where in the program a call is made is noted only by those who ask for it ([`About::sites`]): sites
//! are written down once, and calls have their numbers.
//!
//! # What a reader may believe
//!
//! Nothing. The file may be anybody's. Every number in it is looked at before it is used as a size or
//! an index, and texts are cut off at their bounds.
//!
//! ```
//! use consort_sys::record::{About, Recording, Snapshot};
//!
//! let about = About { rank: 0, world: 1, epoch: 0, job: "first", sites: false };
//! let recording = Recording::private(&about)?;
//! let journal = recording.journal("world", 0, &[0])?.expect("there is room");
//! journal.begin(1, [7, 8], None);
//! journal.end(1, 64, true, 0);
//! let snapshot = Snapshot::of(&recording);
//! let call = &snapshot.groups[0].calls[0];
//! assert_eq!((call.number, call.call), (1, [7, 8]));
//! assert!(call.end.is_some_and(|end| end.is_good && end.at >= call.began));
//! # Ok::<(), std::io::Error>(())
//! ```

mod entry;
mod layout;
mod map;
#[cfg(test)]
mod models;
mod read;
mod site;
mod stopwatch;
#[cfg(test)]
mod tests;
mod ticks;
mod times;
mod write;

pub use self::layout::{CALLS, GROUPS, SITES};
pub use self::read::{CallEnd, CallRecord, GroupRecord, Snapshot, Unreadable};
pub use self::stopwatch::Stopwatch;
pub use self::write::{About, Journal, Recording, path_by_descriptor};
