//! Carries out calls over shared memory.
//!
//! A collective is a number of *turns*. In each turn a rank publishes some data in its own buffer,
//! posts that on the [board](consort_sys::board), and uses what others have published. What the
//! turns of an operation are is told in [`ops`]; [`Drive`](drive::Drive) takes them one after the other and never
//! blocks, so that a caller's own thread and the progress thread run the same code.

mod audit;
mod company;
mod deadlines;
mod diary;
mod drive;
mod fate;
mod ground;
mod lane;
mod lookout;
mod mixed;
mod mpi;
mod ops;
mod pace;
mod patient;
mod post;
mod progress;
mod queue;
mod road;
mod roster;
mod sleep;
mod verdict;
mod wired;

pub(crate) use self::audit::Audited;
pub(crate) use self::deadlines::Deadlines;
pub(crate) use self::lane::{Lane, Neighbour, Place};
pub(crate) use self::lookout::{Lookout, Stakes, Stuck};
pub(crate) use self::mixed::Mixed;
pub(crate) use self::mpi::{ByMpi, Footing, found};
pub(crate) use self::pace::at_once;
pub(crate) use self::patient::Since;
pub(crate) use self::post::{Courier, Exchange, Post};
pub(crate) use self::queue::{Queue, waits_for_itself};
pub(crate) use self::road::Road;
pub(crate) use self::roster::Roster;
pub(crate) use self::sleep::Rest;
pub(crate) use self::verdict::{Cause, Sighting, Waiting};
pub(crate) use self::wired::{Route, Wired};
