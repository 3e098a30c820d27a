//! An MPI that is found when the program runs: the library of a cluster that knows its interconnect.
//!
//! Since version 5 the standard says not only what MPI's functions do but also what they look like in a
//! library: `libmpi_abi`. So nothing of MPI is needed to build this, and whichever MPI a cluster has is
//! taken as it is. The [table] is the wall: behind it there are pointers, before it memory that is
//! owned by whoever lent it.
//!
//! MPI carries data here, nothing else. Ranks meet as they always do, and who has died, who is late and
//! why a group has ended is told among them as always. See `engine/mpi.rs` for how calls are carried out.
//!
//! # What MPI does when something fails
//!
//! - A call that has begun cannot be taken back. One that a rank gives up, because of a deadline or because
//!   the group has ended, may still read and write long after. So MPI never sees the program's memory: it
//!   works on memory of its own, which is [left to it](Pending) for good then. That is lost to the process,
//!   and so is the communicator.
//! - A process that dies ends the job with most launchers: MPICH's `mpiexec` kills all others at once. With
//!   `-disable-auto-cleanup` it lets them live if the one has exited, and kills them all the same if a signal has
//!   killed it. Where they live they find out as always, and can go on in a
//!   [smaller group](crate::Group::shrink), whose data no longer travels by MPI.
//! - MPI begins once in a process and ends once, when the process [does](ending). Both, and the making
//!   and freeing of a communicator, know no deadline, so that they are done on threads that can be
//!   [left behind](keeper).
//!
//! # How it begins
//!
//! All processes of a job begin it together: a process whose launcher knows no MPI is a world by itself.

mod communicator;
mod ending;
mod keeper;
mod library;
mod meeting;
mod memory;
mod numbering;
mod parting;
mod table;

pub(crate) use self::communicator::{Communicator, Making, Unmade};
pub(crate) use self::ending::{Hold, expect, spoil};
pub(crate) use self::library::{LIBRARY, Mpi};
pub(crate) use self::meeting::{Introduced, introduce};
pub(crate) use self::memory::Memory;
pub(crate) use self::numbering::Numbering;
pub(crate) use self::parting::Parting;
pub(crate) use self::table::{Arithmetic, Class, MpiError, Parts, Pending, Task};
