//! Symmetric memory of devices: a window of NCCL's on memory of every rank, with a communicator of its own.
//!
//! NCCL has signals, too, but whoever has a stream wait for one cannot take that back, all that is put into the
//! communicator afterwards waits as well, and they are the communicator's: two windows have the same. So here a
//! signal is a *note* from host to host, as is what ranks agree on before a collective call, and NCCL's signals
//! only tell what has arrived. A note says how many puts of NCCL's its sender has made so far, each of which raises
//! NCCL's own counter of the receiver by one.
//!
//! ```text
//!  put      a device that reaches the peer copies;                      the peer
//!           another has NCCL put: sent[peer] += 1  ═══════════════════▶ data, and NCCL's counter + 1
//!  signal   note { channel, puts: sent[peer] }     ─── host ──────────▶ keeper ─▶ mailbox
//!  wait                                                                 takes the note;
//!                                                                       NCCL waits for puts − taken[sender]
//! ```
//!
//! Nothing is put into a stream before what it waits for is known to be on its way: a put is done on its own side
//! before the note is written. So a wait that is given up on the host has changed nothing.
//!
//! **The end.** A rank that drops its memory says so to all. When all have, each rank's [keeper] closes the
//! window and the communicator, and gives the memory back. If one cannot say so any more, what is left is
//! aborted.

mod keeper;
mod mailbox;
mod making;
mod moves;
mod part;

use std::fmt::Display;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use consort_store::Deadline;
use consort_sys::origin::Own;

use self::keeper::{Estate, Keeper, Note};
pub(crate) use self::mailbox::{Bell, Missed};
pub(crate) use self::part::Part;
use super::{Inner, Wait, give_up, lock};
use crate::device::{Block, Device};
use crate::engine::{Lookout, Stuck, Waiting};
use crate::error::{Error, Result};
use crate::nccl::Comm;

/// A rank's part of symmetric memory, and its way to the others' parts.
#[derive(Debug)]
pub(crate) struct Side {
    engine: Arc<Own<Inner>>,
    keeper: Arc<Keeper>,
    /// There until the end.
    estate: Option<Box<Estate>>,
    number: u64,
    /// How many bytes of each rank are the program's. Behind them there is room for what is on its way.
    bytes: usize,
    /// This rank's.
    own: Block,
    /// Those of each rank, where this device reaches them.
    near: Vec<Option<Block>>,
    /// How often NCCL has put something to each rank.
    sent: Vec<Mutex<u64>>,
    /// How many puts of each rank are known to have come.
    taken: Vec<Mutex<u64>>,
    /// Who uses the room for what is on its way.
    stage: Mutex<()>,
}

impl Side {
    /// Which of the group's requests for symmetric memory it was made for.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// How many bytes each rank has.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where this rank's are.
    pub(crate) fn device(&self) -> &Device {
        &self.engine.device
    }

    /// What is known of the group's ranks.
    pub(crate) fn lookout(&self) -> &Lookout {
        &self.engine.lookout
    }

    /// Whether this device reads and writes a rank's bytes where they are.
    pub(crate) fn reaches(&self, rank: usize) -> bool {
        self.near.get(rank).is_some_and(Option::is_some)
    }

    /// Tells a rank something. All that this rank has put, and all that the device's default stream was given, is
    /// done before.
    pub(crate) fn ring(
        &self,
        call: &dyn Display,
        to: usize,
        bell: Bell,
        patience: Duration,
    ) -> Result<()> {
        let wait = wait(call, patience);
        self.settle(&wait)?;
        let puts = *lock(&self.sent[to]);
        if to == self.engine.me {
            self.keeper.mailbox().put(to, bell, puts);
            return Ok(());
        }
        let told = self.keeper.tell(to, Note::Rung { bell, puts }, wait.until.own);
        told.map_err(|error| self.lose(wait.waiting(), &error))
    }

    /// Waits for what a rank has to tell, as long as `look_round` sees a sense in that. Says how many puts there were
    /// before.
    pub(crate) fn listen(
        &self,
        from: usize,
        bell: Bell,
        look_round: impl FnMut() -> Result<(), Stuck>,
    ) -> Result<u64, Missed> {
        self.keeper.mailbox().take(from, bell, look_round)
    }

    /// Whether a rank has told what nobody has waited for yet.
    pub(crate) fn has_heard(&self, from: usize, bell: Bell) -> bool {
        self.keeper.mailbox().has(from, bell)
    }

    /// Ends the group because of what keeps its ranks from speaking to each other.
    #[cold]
    pub(crate) fn lose(&self, waiting: Waiting, error: &Error) -> Error {
        self.engine.lose(waiting, error)
    }

    /// Ends what the device does for a group that has ended.
    #[cold]
    pub(crate) fn end(&self) {
        self.engine.end();
    }

    /// Has nobody hear anything of it any more.
    pub(super) fn hush(&self) {
        self.keeper.abort();
    }

    /// What carries its data.
    pub(super) fn comm(&self) -> &Arc<Comm> {
        self.estate().comm()
    }

    fn estate(&self) -> &Estate {
        self.estate.as_ref().expect("it is there until the end")
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        let Some(estate) = self.estate.take() else { return };
        if !self.keeper.is_at_home() {
            // What a forked child has of it is its parent's.
            std::mem::forget(estate);
            return;
        }
        if self.engine.lookout.has_ended() {
            self.hush();
            give_up(&self.engine.device, [estate.comm()]);
        }
        self.keeper.leave(estate);
    }
}

/// A wait for the device, or for room on the way to another rank. To give it up ends the group, so it is not given
/// up soon.
fn wait(call: &dyn Display, patience: Duration) -> Wait<'_> {
    let until = Deadline::after(patience.max(PATIENCE)).into();
    Wait { call, number: 0, is_for_all: false, until, began: Instant::now() }
}

const PATIENCE: Duration = Duration::from_secs(10);
