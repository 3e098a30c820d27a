//! The thread that takes what other ranks tell, and gives the memory back when all have dropped it.

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use consort_store::{Deadline, ErrorKind};

use super::super::ending::Apart;
use super::super::watch::happens_within;
use super::super::{ENDED, LINGER, lock};
use super::mailbox::{Bell, Mailbox};
use super::part::Part;
use crate::device::{Event, Stream};
use crate::error::{Error, Result};
use crate::group::Group;
use crate::nccl::{Comm, Registration, Window};

/// Keeps a rank's symmetric memory for as long as other ranks may use it.
#[derive(Debug)]
pub(super) struct Keeper {
    /// Where the same ranks tell each other things.
    control: Group,
    mailbox: Mailbox,
    stage: Mutex<Stage>,
}

#[derive(Debug)]
enum Stage {
    /// This rank uses it.
    InUse,
    /// This rank has dropped it.
    Dropped(Box<Estate>),
    /// The thread has ended.
    Over,
}

/// What was made for it.
#[derive(Debug)]
pub(super) struct Estate {
    pub(super) comm: Arc<Comm>,
    /// There when the memory is known to all ranks.
    pub(super) window: Option<Window>,
    /// That the group's own communicator knows the memory, too.
    pub(super) known: Option<Registration>,
    pub(super) stream: Stream,
    /// What the group's calls are done on, when there can be some on this memory.
    pub(super) calls: Option<Arc<Stream>>,
    pub(super) part: Part,
}

/// What a rank tells another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Note {
    /// This, after so many puts of NCCL's to that rank.
    Rung { bell: Bell, puts: u64 },
    /// That it has dropped the memory.
    Dropped,
}

impl Keeper {
    /// Starts it. What this gives besides ends when it does.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(super) fn start(control: Group) -> std::io::Result<(Arc<Self>, Receiver<()>)> {
        let (mailbox, stage) = (Mailbox::default(), Mutex::new(Stage::InUse));
        let keeper = Arc::new(Self { control, mailbox, stage });
        let (seen, (tell, told)) = (keeper.clone(), channel());
        let name = "consort-symmetric".to_owned();
        thread::Builder::new().name(name).spawn(move || seen.keep(tell))?;
        Ok((keeper, told))
    }

    pub(super) fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    /// Tells another rank something.
    ///
    /// # Errors
    /// When it cannot hear any more, or not in time.
    pub(super) fn tell(&self, to: usize, note: Note, until: Deadline) -> Result<()> {
        let control = self.control.within(until.remaining().unwrap_or(Duration::MAX));
        control.send(&note.pack(), to as u32, TAG)
    }

    /// Whether this is the process that it was made in.
    pub(super) fn is_at_home(&self) -> bool {
        self.control.backend().is_ok()
    }

    /// Has nobody hear anything any more.
    pub(super) fn abort(&self) {
        self.control.abort(ENDED);
    }

    /// Takes over what this rank has dropped.
    pub(super) fn leave(&self, estate: Box<Estate>) {
        {
            let mut stage = lock(&self.stage);
            if matches!(*stage, Stage::Over) {
                drop(stage);
                return estate.abandon();
            }
            *stage = Stage::Dropped(estate);
        }
        let until = Deadline::after(LINGER);
        for rank in 0..self.control.world() {
            // If one cannot hear it, the thread knows, and has no more to wait for.
            let _ = self.tell(rank, Note::Dropped, until);
        }
    }

    /// Until all ranks have dropped it, or nobody can tell any more.
    fn keep(&self, tell: Sender<()>) {
        let mut gone = BTreeSet::new();
        let kept = loop {
            match self.next(&mut gone) {
                Ok(()) if gone.len() == self.control.world() => break Ok(()),
                Ok(()) => {}
                Err(error) => break Err(error),
            }
        };
        let is_in_order = kept.is_ok();
        let over = || Error::Argument("all ranks have dropped this symmetric memory".to_owned());
        self.mailbox.close(kept.err().unwrap_or_else(over));
        let stage = std::mem::replace(&mut *lock(&self.stage), Stage::Over);
        match stage {
            Stage::Dropped(estate) if is_in_order => estate.give_back(),
            Stage::Dropped(estate) => estate.give_up(),
            Stage::InUse | Stage::Over => {}
        }
        drop(tell);
    }

    /// Takes the next note, if there is one soon.
    fn next(&self, gone: &mut BTreeSet<u32>) -> Result<()> {
        let mut words = [0_u64; 2];
        let from = match self.control.within(AT_A_TIME).recv_any(&mut words, TAG) {
            Ok(from) => from,
            Err(error) if error.kind() == ErrorKind::Deadline && self.control.error().is_none() => {
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        match Note::unpack(words) {
            Some(Note::Rung { bell, puts }) => self.mailbox.put(from.index(), bell, puts),
            Some(Note::Dropped) => {
                gone.insert(from.get());
                self.mailbox.drop_sender(from.index());
            }
            None => {
                let what = format!("rank {from} has told what no version tells");
                self.control.abort(&what);
                return Err(Error::Argument(what));
            }
        }
        Ok(())
    }
}

impl Estate {
    pub(super) fn comm(&self) -> &Arc<Comm> {
        &self.comm
    }

    /// The memory, as all ranks know it.
    pub(super) fn window(&self) -> &Window {
        self.window.as_ref().expect("all ranks know it")
    }

    /// Gives back what can be, without the others, and does not wait long: NCCL need not come back from that.
    #[cold]
    pub(super) fn abandon(self: Box<Self>) {
        let device = self.part.device().clone();
        match Apart::begin(&device, self, |estate| estate.give_up()) {
            Ok(ending) => ending.wait(Instant::now() + LINGER),
            Err(estate) => estate.give_up(),
        }
    }

    /// Gives all of it back, as all ranks do at this moment.
    fn give_back(self) {
        let Self { comm, window, known, stream, calls: _, part } = self;
        part.device().end_inside(|| {
            // NCCL has to have forgotten the memory before that is given back.
            drop((known, window));
            if let Some(Err(error)) = Arc::into_inner(comm).map(Comm::destroy) {
                tracing::debug!(
                    "the communicator of symmetric memory could not be ended in good order: {error}"
                );
            }
        });
        drop(stream);
        free(part, &[]);
    }

    /// Gives back what can be, without the others.
    fn give_up(self) {
        let Self { comm, window, known, stream, calls, part } = self;
        // A window of a communicator that lives would be closed only together with the others'.
        let ended = part.device().end_inside(|| {
            let ended = comm.abort();
            drop((known, window, comm));
            ended
        });
        let aborted: Vec<_> = [Some(&stream), calls.as_deref()].into_iter().flatten().collect();
        match ended {
            Ok(()) => free(part, &aborted),
            Err(error) => keep(part, &format!("NCCL may still use it: {error}")),
        }
    }
}

/// Gives memory back, when the device has done all that its default stream was given, and these: what the program has it
/// copy from there and to there is not waited for, nor the end of what was aborted. The driver waits for that by itself
/// when its own memory is given back, and NCCL does not.
fn free(part: Part, streams: &[&Stream]) {
    let until = Instant::now() + LINGER;
    let events = streams.iter().map(|stream| stream.record());
    let events = events.chain([Event::of_default(part.device())]);
    let is_done =
        |event: &Event| happens_within(event, until.saturating_duration_since(Instant::now()));
    match events.collect::<Result<Vec<_>, _>>() {
        Ok(events) if events.iter().all(is_done) => drop(part),
        Ok(_) => keep(part, "the device may still use it"),
        Err(error) => keep(part, &error.to_string()),
    }
}

/// Leaves memory as it is, for good.
fn keep(part: Part, why: &str) {
    tracing::warn!("{:?} is not given back: {why}", part.memory());
    std::mem::forget(part);
}

impl Note {
    fn pack(self) -> [u64; 2] {
        match self {
            Self::Rung { bell: Bell::Signal(channel), puts } => [SIGNAL | u64::from(channel), puts],
            Self::Rung { bell: Bell::Barrier(channel), puts } => {
                [BARRIER | u64::from(channel), puts]
            }
            Self::Dropped => [DROPPED, 0],
        }
    }

    /// `None` if it is no note.
    fn unpack([word, puts]: [u64; 2]) -> Option<Self> {
        let (kind, channel) = (word & !u64::from(u32::MAX), word as u32);
        match kind {
            SIGNAL => Some(Self::Rung { bell: Bell::Signal(channel), puts }),
            BARRIER => Some(Self::Rung { bell: Bell::Barrier(channel), puts }),
            DROPPED => Some(Self::Dropped),
            _ => None,
        }
    }
}

const SIGNAL: u64 = 1 << 32;
const BARRIER: u64 = 2 << 32;
const DROPPED: u64 = 3 << 32;
const TAG: u32 = 1;
/// How long the thread waits before it waits anew: shorter than it takes a rank to warn of others.
const AT_A_TIME: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_read_back_and_nothing_else_is_one() {
        for bell in [Bell::Signal(0), Bell::Signal(u32::MAX), Bell::Barrier(5)] {
            let note = Note::Rung { bell, puts: u64::MAX };
            assert_eq!(Note::unpack(note.pack()), Some(note));
        }
        assert_eq!(Note::unpack(Note::Dropped.pack()), Some(Note::Dropped));
        assert_eq!((Note::unpack([0, 1]), Note::unpack([9 << 32, 0])), (None, None));
    }
}
