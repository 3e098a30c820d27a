//! A group's way by MPI, for one call at a time.
//!
//! Each call begins with an [`agreement`]: one small operation of MPI in which every rank shows what it
//! calls. Small data travels in it; everything else follows in operations that carry out the call whole, as MPI
//! has them. All of them are of the kind that does not block, so that whoever waits can look round meanwhile as
//! everywhere: at the deadline, at the others, at what has become of the group. In a call of many operations, each too short
//! for that, it does so before one begins.
//!
//! MPI has no descriptor to sleep on, and gets on only when it is called: whoever waits calls it again and again, gives its
//! core away in between, and when that has lasted long sleeps a number of [naps](nap).
//!
//! What is combined is the same on all ranks, to the bit: see [`reductions`].
//!
//! MPI cannot take back what it has begun with. So it works on memory of the way's own, into which data is
//! copied and from which it is copied, and which is left to it when a call is given up: see [`crate::mpi`].

mod agreement;
mod footing;
mod founding;
mod mail;
mod moves;
mod nap;
mod pieces;
mod reductions;

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use consort_sys::record::Stopwatch;
use consort_sys::wait::Patience;

pub(crate) use self::footing::Footing;
pub(crate) use self::founding::found;
use self::mail::{Mailbag, mail};
use self::nap::Nap;
use super::lookout::{Lookout, Stakes, Stuck};
use super::pace::{Notes, Pace, at_once, wait_once};
use super::patient::Patient;
use super::post::Post;
use super::progress::LOOK_ROUND;
use super::queue::Queue;
use super::road::Way;
use super::sleep::{Rest, Sleep};
use super::verdict::Cause;
use crate::backend::Terms;
use crate::call::{Call, Description, Within};
use crate::error::{Error, Result};
use crate::group::Job as Membership;
use crate::mpi::{Communicator, Memory, MpiError, Pending, Task};

/// The way.
#[derive(Debug)]
pub(crate) struct ByMpi {
    communicator: Communicator,
    footing: Footing,
    lookout: Lookout,
    nap: Arc<Nap>,
    /// Messages on their way.
    bag: Mailbag,
    /// What MPI works on, between operations.
    memory: Memory,
    patience: Patience,
    /// For how long numbers were combined here.
    watch: Stopwatch,
    /// When its last call ended.
    ended: Instant,
    /// When this one began, or last looked round between operations.
    looked: Instant,
}

/// How far a call has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Not all ranks are known to have come to it.
    Meeting,
    /// All have: one that leaves now may have done its part.
    Moving,
}

impl ByMpi {
    /// For a group whose ranks know of each other by this footing: its way and its messages, which these
    /// communicators carry.
    pub(crate) fn new(
        [data, messages]: [Communicator; 2],
        footing: Footing,
        lookout: Lookout,
        patience: Patience,
    ) -> (Self, Arc<Post>) {
        let (nap, patience) = (Arc::new(Nap::default()), patience.working());
        let (ends, bag) = mail(&messages, &lookout);
        let rest = Rest::Other(nap.clone());
        let post = Post::over(lookout.clone(), ends.into_iter(), rest, patience);
        let (memory, watch) = (Memory::default(), Stopwatch::default());
        let communicator = data;
        let now = Instant::now();
        let way = Self {
            communicator,
            footing,
            lookout,
            nap,
            bag,
            memory,
            patience,
            watch,
            ended: now,
            looked: now,
        };
        (way, Arc::new(post))
    }

    fn me(&self) -> usize {
        self.communicator.me()
    }

    fn world(&self) -> usize {
        self.communicator.world()
    }

    /// Counts a call, which is to wait at this pace.
    fn begin<'p>(&mut self, call: &Call<'_>, terms: Terms, pace: Pace<'p>) -> Result<Patient<'p>> {
        self.looked = Instant::now();
        if self.looked.duration_since(self.ended) > FRESH {
            // Others may have given up a call that MPI would still carry out, for this rank alone.
            self.lookout.listen();
        }
        if self.lookout.has_ended() {
            return Err(self.lookout.ended());
        }
        let description = Description::of(call, self.world(), Within::Nothing)
            .made_for(terms.purpose, terms.sizes);
        self.footing.count(&description);
        self.lookout.diary().begin(self.footing.number(), &description, terms.site);
        Ok(Patient::new(pace, description).since(self.looked))
    }

    /// Takes notice of the end of a call.
    fn end(&mut self, description: &Description, done: &Result<()>) {
        let combined = self.watch.take();
        self.lookout.diary().end(self.footing.number(), description, done.is_ok(), combined);
        self.memory.trim(KEPT);
        self.ended = Instant::now();
    }

    /// Carries out a call that was counted, at the patient's pace.
    async fn carry_out(&mut self, call: &Call<'_>, patient: &mut Patient<'_>) -> Result<()> {
        if self.agree(call, patient).await? {
            return Ok(());
        }
        match *call {
            Call::Barrier => Ok(()),
            Call::AllReduce { dtype, op, input, output } => {
                self.all_reduce((dtype, op), input, output, patient).await
            }
            Call::Reduce { dtype, op, root, input, output } => {
                self.reduce((dtype, op), root.index(), (input, output), patient).await
            }
            Call::ReduceScatter { dtype, op, inputs, output } => {
                self.reduce_scatter((dtype, op), inputs, output, patient).await
            }
            Call::Broadcast { root, buffer, .. } => {
                self.broadcast(root.index(), buffer, patient).await
            }
            Call::AllGather { input, outputs, .. } => {
                self.all_gather(input, outputs, patient).await
            }
            Call::Gather { root, uneven, input, outputs, .. } => {
                self.gather(root.index(), uneven, (input, outputs), patient).await
            }
            Call::Scatter { root, uneven, inputs, output, .. } => {
                self.scatter(root.index(), uneven, (inputs, output), patient).await
            }
            Call::AllToAll { uneven, inputs, outputs, .. } => {
                self.all_to_all(uneven, inputs, outputs, patient).await
            }
        }
    }

    /// Has MPI carry out an operation on this way's memory, and waits for its end.
    async fn have(&mut self, task: Task, stage: Stage, patient: &mut Patient<'_>) -> Result<()> {
        if stage == Stage::Moving {
            self.look_in_passing(patient)?;
        }
        let memory = std::mem::take(&mut self.memory);
        let mut pending = match self.communicator.start(task, memory) {
            Ok(pending) => pending,
            Err(error) => return Err(self.fail(&error, patient)),
        };
        let waited = match patient.pace {
            Pace::Here(..) => self.wait(&mut pending, stage, patient),
            Pace::Elsewhere(notes) => {
                self.wait_elsewhere(&mut pending, stage, notes, patient).await
            }
        };
        if waited.is_err() {
            // MPI is still at it, or may be.
            self.communicator.spoil();
        }
        waited?;
        self.memory = pending.into_memory();
        Ok(())
    }

    /// Waits on the spot until an operation is done, or there is no use in that.
    fn wait(
        &mut self,
        pending: &mut Pending,
        stage: Stage,
        patient: &mut Patient<'_>,
    ) -> Result<()> {
        let mut patience = self.patience;
        let found = RefCell::new((pending, Ok(false)));
        let look = || {
            let (pending, found) = &mut *found.borrow_mut();
            if let Ok(false) = found {
                *found = pending.is_done();
            }
            !matches!(found, Ok(false))
        };
        let mut look_again = look;
        let waited = patience.wait(
            look,
            |limit| self.nap.doze(&mut look_again, limit),
            || self.look_round(stage, patient),
        );
        self.patience = patience;
        let (pending, found) = found.into_inner();
        match (waited, found) {
            (Err(stuck), Ok(false)) => self.give_up(stuck, pending, stage, patient),
            (_, Err(error)) => Err(self.fail(&error, patient)),
            _ => Ok(()),
        }
    }

    /// The same by returning to whoever polls the call.
    async fn wait_elsewhere(
        &mut self,
        pending: &mut Pending,
        stage: Stage,
        notes: &Notes,
        patient: &mut Patient<'_>,
    ) -> Result<()> {
        loop {
            match pending.is_done() {
                Ok(true) => break,
                Ok(false) => {}
                Err(error) => return Err(self.fail(&error, patient)),
            }
            if notes.is_to_look_round()
                && let Err(stuck) = self.look_round(stage, patient)
            {
                return self.give_up(stuck, pending, stage, patient);
            }
            wait_once().await;
        }
        notes.has_moved();
        Ok(())
    }

    /// Looks round from time to time in a call of many operations, none of which takes so long that who waits for it
    /// would. It is done before one begins: MPI could not take that back.
    fn look_in_passing(&mut self, patient: &mut Patient<'_>) -> Result<()> {
        let is_here = matches!(patient.pace, Pace::Here(..));
        if !is_here || self.looked.elapsed() < LOOK_ROUND {
            return Ok(());
        }
        self.looked = Instant::now();
        match self.look_round(Stage::Moving, patient) {
            Err(stuck @ (Stuck::Late | Stuck::Ended)) => {
                // Others have begun with it, or will.
                self.communicator.spoil();
                Err(self.in_vain(stuck, Stage::Moving, patient))
            }
            // One that is gone may have done its part before, which is seen by waiting for it.
            _ => Ok(()),
        }
    }

    fn others(&self) -> impl Iterator<Item = usize> {
        let me = self.me();
        (0..self.world()).filter(move |&rank| rank != me)
    }

    /// Whether it makes sense to wait any longer.
    fn look_round(&self, stage: Stage, patient: &mut Patient<'_>) -> Result<(), Stuck> {
        self.lookout.listen();
        let awaited = self.awaited(stage);
        if let Some(&rank) = awaited.first() {
            self.lookout.note_wait(self.footing.number(), rank);
        }
        self.footing.tell(patient);
        for &rank in &awaited {
            self.lookout.judge(&[rank], || false)?;
        }
        // Whoever has come may yet have something to do here.
        let is_gone = |&rank: &usize| self.lookout.is_gone(rank);
        if let Some(rank) = self.others().find(is_gone) {
            self.lookout.judge(&[rank], || false)?;
        }
        self.lookout.judge(&[], || patient.is_late())?;
        patient.warn(&self.lookout, self.footing.number(), &awaited);
        Ok(())
    }

    /// For whom is waited, as far as that is known: MPI does not say.
    fn awaited(&self, stage: Stage) -> Vec<usize> {
        let is_awaited = |&rank: &usize| {
            rank != self.me()
                && match stage {
                    Stage::Meeting => !self.footing.has_begun(rank, || self.lookout.has_left(rank)),
                    Stage::Moving => !self.lookout.has_left(rank),
                }
        };
        (0..self.world()).filter(is_awaited).collect()
    }

    /// Ends the group, unless what is waited for is there after all: somebody may have done its part with its
    /// last breath, and MPI needs to be asked a few times to find that out.
    #[cold]
    fn give_up(
        &self,
        stuck: Stuck,
        pending: &mut Pending,
        stage: Stage,
        patient: &Patient<'_>,
    ) -> Result<()> {
        let grace = match stuck {
            Stuck::Dead { .. } | Stuck::Left { .. } => LAST_BREATH,
            _ => Duration::ZERO,
        };
        let began = Instant::now();
        for look in 0.. {
            match pending.is_done() {
                Ok(true) => return Ok(()),
                Ok(false) if look < LOOKS || began.elapsed() < grace => {}
                Ok(false) => break,
                Err(error) => return Err(self.fail(&error, patient)),
            }
            if look >= LOOKS {
                thread::sleep(Duration::from_millis(1));
            }
        }
        Err(self.in_vain(stuck, stage, patient))
    }

    /// Ends the group because waiting is in vain.
    #[cold]
    fn in_vain(&self, stuck: Stuck, stage: Stage, patient: &Patient<'_>) -> Error {
        let missing = self.awaited(stage);
        let missing = match stuck {
            Stuck::Late => self.footing.behind(missing),
            _ => missing,
        };
        // What all have done is still on its way.
        let missing = if missing.is_empty() { self.others().collect() } else { missing };
        let missing = missing.into_iter().collect();
        let waiting = patient.waiting(self.footing.number());
        self.lookout.give_up(stuck, waiting, missing, Stakes::Group)
    }

    /// Ends the group because MPI has failed: most likely a rank has died, which takes a moment to be known.
    #[cold]
    fn fail(&self, error: &MpiError, patient: &Patient<'_>) -> Error {
        self.communicator.spoil();
        let began = Instant::now();
        while !self.lookout.has_ended() && began.elapsed() < LAST_BREATH {
            let is_gone = |&rank: &usize| self.lookout.is_gone(rank);
            if let Some(rank) = self.others().find(is_gone) {
                let waiting = patient.waiting(self.footing.number());
                return self.lookout.decide(Cause::Dead { rank: rank as u32, waiting });
            }
            self.lookout.listen();
            thread::sleep(Duration::from_millis(1));
        }
        self.lookout.decide(Cause::Unable { reason: format!("MPI has failed: {error}") })
    }
}

impl Way for ByMpi {
    fn run(&mut self, call: &Call<'_>, terms: Terms, line: Option<&Queue>) -> Result<u64> {
        let mut patient = self.begin(call, terms, Pace::Here(terms.timeout, line))?;
        let done = at_once(self.carry_out(call, &mut patient));
        self.end(&patient.description, &done);
        done.map(|()| self.footing.number())
    }

    fn run_elsewhere<'a>(
        &'a mut self,
        call: &'a Call<'_>,
        terms: Terms,
        notes: &'a Notes,
    ) -> Pin<Box<dyn Future<Output = Result<()>> + 'a>> {
        Box::pin(async move {
            let mut patient = self.begin(call, terms, Pace::Elsewhere(notes))?;
            let done = self.carry_out(call, &mut patient).await;
            self.end(&patient.description, &done);
            done
        })
    }

    fn place(&self) -> Arc<dyn Sleep> {
        self.nap.clone()
    }

    fn lookout(&self) -> &Lookout {
        &self.lookout
    }

    fn finish(&mut self) {
        self.footing.bid_farewell();
        self.bag.empty();
    }

    fn leave(self: Box<Self>, membership: &Membership) {
        if self.lookout.has_ended() {
            self.communicator.spoil();
        }
        self.bag.leave();
        self.footing.leave(membership);
    }
}

/// How many bytes of each memory are kept between calls: what is asked of the system anew has to be cleared by it.
const KEPT: usize = 8 << 20;
/// For how long nobody can have given up a call after the one before it.
const FRESH: Duration = Duration::from_millis(1);
/// How often MPI is asked at least, by one who gives up.
const LOOKS: usize = 50;
/// How long what a rank has done last may take to be known.
const LAST_BREATH: Duration = Duration::from_millis(200);
