//! Communicators.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use consort_store::Deadline;

use super::code::Code;
use super::config::Config;
use super::error::{Error, Result};
use super::feature::Feature;
use super::gate::{Barred, Closed, Fate, Gate, Pass};
use super::group;
use super::id::{UniqueId, close};
use super::library::{Library, Told};
use super::making::{Manner, Seat, image, needed_image, settle};
use super::table::{Answer, Handle, Lease, Made};

/// A rank's end of a number of ranks that work together.
///
/// It is made by all of them together, and used by them alike. Threads may share it; those that issue calls take
/// turns.
///
/// # Waiting
///
/// NCCL puts the work of a call on a [`Stream`](super::Stream) of the device and returns. Before that it may have
/// to talk to other ranks, and that takes as long as they do. Where the version can (2.14), a communicator is made
/// so that NCCL does not wait for them, and the call does, until [`Config::timeout`]; then it is an
/// [error](Error::Deadline), and the communicator has to be [aborted](Self::abort).
///
/// # Its end
///
/// [`destroy`](Self::destroy) does what was issued and ends it, in good order: all ranks do so.
/// [`abort`](Self::abort) ends it at once, on this rank alone, also from another thread. To drop it without either
/// is to abort it, and is logged.
///
/// ```no_run
/// use consort::nccl::{Bootstrap, Comm, Library, Stream};
/// use consort::{Dtype, ReduceOp};
///
/// # fn sum(mine: consort::Source<'_>, sums: consort::Target<'_>) -> consort::nccl::Result<()> {
/// let library = Library::find()?;
/// let bootstrap = Bootstrap::new(library)?;
/// let comm = Comm::init_rank(library, 1, bootstrap.id(), 0)?;
/// // SAFETY: both are memory of the device, and left alone until the stream is done.
/// unsafe { comm.all_reduce(mine, sums, Dtype::F32, ReduceOp::Sum, Stream::DEFAULT) }?;
/// comm.destroy()
/// # }
/// ```
#[derive(Debug)]
pub struct Comm {
    inner: Arc<Inner>,
}

/// What groups that are open keep of a communicator.
#[derive(Debug)]
pub(super) struct Inner {
    gate: Arc<Gate>,
    library: Library,
    rank: u32,
    world: u32,
    device: Option<i32>,
    manner: Manner,
    /// Memory that NCCL has not forgotten when it should have: it stays until the communicator has ended.
    leases: Mutex<Vec<Lease>>,
}

impl Comm {
    /// Becomes rank `rank` of `world`, together with the others that show the same id.
    ///
    /// # Errors
    /// When the arguments cannot be, when the others do not come in time, or when NCCL fails: without a GPU that is
    /// [`Code::UNHANDLED_CUDA_ERROR`].
    pub fn init_rank(library: Library, world: u32, id: &UniqueId, rank: u32) -> Result<Self> {
        Self::init_rank_with(library, world, id, rank, &Config::new())
    }

    /// As [`init_rank`](Self::init_rank), with a configuration. Since 2.14, if it says anything.
    ///
    /// # Errors
    /// As [`init_rank`](Self::init_rank); and when the version does not have what the configuration says.
    pub fn init_rank_with(
        library: Library,
        world: u32,
        id: &UniqueId,
        rank: u32,
        config: &Config,
    ) -> Result<Self> {
        let function = "ncclCommInitRank";
        let at = Seat::new(function, library, world, rank)?;
        group::refuse(library, function)?;
        let mut image = image(library, config)?;
        let answer = library.table().init_rank(at.world, &id.raw(), at.rank, image.as_mut());
        let comm = Self::made(at, Manner::new(config, image), answer)?;
        close(id);
        Ok(comm)
    }

    /// As [`init_rank_with`](Self::init_rank_with), by several ids, so that the ranks do not all come to the same
    /// process. All ranks give them in the same order. Since 2.23.
    ///
    /// # Errors
    /// As [`init_rank_with`](Self::init_rank_with).
    pub fn init_scalable(
        library: Library,
        world: u32,
        ids: &[UniqueId],
        rank: u32,
        config: &Config,
    ) -> Result<Self> {
        let function = "ncclCommInitRankScalable";
        let at = Seat::new(function, library, world, rank)?;
        if ids.is_empty() || ids.len() > world as usize {
            let reason = format!("{} ids for {world} ranks; give 1 to {world}", ids.len());
            return Err(Error::argument(function, reason));
        }
        group::refuse(library, function)?;
        let mut image = needed_image(library, config)?;
        let raw: Vec<_> = ids.iter().map(UniqueId::raw).collect();
        let answer = library.table().init_rank_scalable(at.world, at.rank, &raw, &mut image);
        let comm = Self::made(at, Manner::new(config, Some(image)), answer)?;
        ids.iter().for_each(|id| {
            close(id);
        });
        Ok(comm)
    }

    /// A communicator for each of some devices of this process, which are its ranks in this order. They are
    /// [blocking](Config::blocking), for NCCL takes no configuration here. Calls of several of them on one thread
    /// belong in a [group](super::group()).
    ///
    /// # Errors
    /// When there are none, or one twice, or NCCL fails.
    pub fn init_all(library: Library, devices: &[i32]) -> Result<Vec<Self>> {
        let function = "ncclCommInitAll";
        group::refuse(library, function)?;
        let count = u32::try_from(devices.len()).unwrap_or(u32::MAX);
        if count == 0 || i32::try_from(count).is_err() {
            return Err(Error::argument(function, format!("{count} devices; give at least one")));
        }
        for (at, device) in devices.iter().enumerate() {
            if devices[..at].contains(device) {
                return Err(Error::argument(function, format!("device {device} is there twice")));
            }
        }
        let answer = library.table().init_all(devices).map_err(|absent| library.missing(absent))?;
        let (code, handles) = answer;
        if code != Code::SUCCESS {
            let error = library.failure(function, code, None, None);
            handles.into_iter().flatten().for_each(|handle| {
                let _ = handle.abort();
            });
            return Err(error);
        }
        let config = Config::new();
        let comms = (0..count).zip(handles).map(|(rank, handle)| {
            let at = Seat::new(function, library, count, rank)?;
            let handle = handle.ok_or_else(|| at.nothing())?;
            Ok(Self { inner: Arc::new(Inner::new(at, handle, Manner::new(&config, None))) })
        });
        comms.collect()
    }

    /// The library that it is of.
    pub fn library(&self) -> Library {
        self.inner.library
    }

    /// Which of the ranks this is.
    pub fn rank(&self) -> u32 {
        self.inner.rank
    }

    /// How many ranks there are.
    pub fn world(&self) -> u32 {
        self.inner.world
    }

    /// The number of its device, if NCCL tells.
    pub fn device(&self) -> Option<i32> {
        self.inner.device
    }

    /// What it is doing: [`Code::SUCCESS`] if nothing is in progress and nothing has failed. May be asked at any
    /// time, from any thread.
    ///
    /// # Errors
    /// When it has ended, or NCCL does not tell.
    pub fn async_error(&self) -> Result<Code> {
        let function = "ncclCommGetAsyncError";
        let pass = self.inner.gate.watch().map_err(|fate| self.inner.ended(function, fate))?;
        let answer = pass.async_error();
        self.inner.succeed(function, answer, &pass).map(|(_, state)| state)
    }

    /// Waits until nothing is in progress.
    ///
    /// # Errors
    /// What has failed; or [`Error::Deadline`].
    pub fn wait(&self, until: Deadline) -> Result<()> {
        let function = "ncclCommGetAsyncError";
        let limit = until.remaining().unwrap_or(Duration::MAX);
        let pass = self.inner.gate.watch().map_err(|fate| self.inner.ended(function, fate))?;
        self.inner.settle(function, &pass, limit)
    }

    /// Waits until what was issued is done, and lets nothing more be. All ranks do so. Since 2.14.
    ///
    /// # Errors
    /// When the others do not in time, or NCCL fails.
    pub fn finalize(&self) -> Result<()> {
        let function = "ncclCommFinalize";
        group::refuse(self.inner.library, function)?;
        self.inner.must_be_alive(function)?;
        self.perform(function, Handle::finalize)?;
        self.inner.gate.mark(Fate::Finalized);
        Ok(())
    }

    /// Does what was issued, and ends. All ranks do so.
    ///
    /// # Errors
    /// When the others do not in time, or NCCL fails. It has ended then all the same: it was aborted.
    pub fn destroy(self) -> Result<()> {
        let function = "ncclCommDestroy";
        let inner = &self.inner;
        group::refuse(inner.library, function)?;
        // A blocking one finalizes itself when it is destroyed, and so can several of one thread, one after the
        // other.
        if !inner.is_blocking() && inner.gate.fate() == Fate::Alive {
            self.finalize()?;
        }
        match inner.gate.close(Fate::Destroyed, inner.limit(), Duration::MAX) {
            Closed::Before => Err(inner.ended(function, inner.gate.fate())),
            Closed::Held(waited) => Err(inner.busy(function, waited)),
            Closed::Last(last) => {
                inner.library.succeed(function, last.destroy(), Some(inner.place())).map(drop)
            }
        }
    }

    /// Ends at once, whatever is in progress, on this rank alone. Other threads that wait in a call of it get an
    /// error, also where NCCL itself waits. Their calls are over when this returns. What was put on streams comes to its
    /// end soon: they are still to be waited for before its memory is used for anything else, or given back. A group
    /// that another thread has open with it is waited for, until [`Config::timeout`]. An abort of what has ended
    /// does nothing.
    ///
    /// # Errors
    /// When NCCL fails, within a group of this thread, or when another thread does not end its group.
    pub fn abort(&self) -> Result<()> {
        let function = "ncclCommAbort";
        group::refuse(self.inner.library, function)?;
        self.inner.abort()
    }

    /// Whether it has ended, or is about to.
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.inner.gate.fate(), Fate::Aborted | Fate::Destroyed | Fate::Forked)
    }

    /// Waits so long for its end, which another thread has begun. Says whether NCCL has let go of all that it was given.
    pub(crate) fn await_end(&self, limit: Duration) -> bool {
        self.inner.gate.await_end(limit)
    }

    pub(super) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    /// Makes a call that can be part of a group, and outside of one waits until it is no more in progress.
    pub(super) fn perform<T: Told>(
        &self,
        function: &'static str,
        call: impl FnOnce(&Handle) -> Answer<T>,
    ) -> Result<T> {
        let inner = &self.inner;
        group::admit(inner, function)?;
        let (answer, pass) = inner.call(function, inner.enter(function)?, call)?;
        let answer = inner.succeed(function, answer, &pass);
        // NCCL may know it as part of the group, though the call failed.
        let pass = group::keep(inner, pass);
        let answer = answer?;
        if answer.code() == Code::IN_PROGRESS
            && let Some(pass) = pass
        {
            inner.settle(function, &pass, inner.limit())?;
        }
        Ok(answer)
    }

    /// Takes over a communicator that was made, or is being made, from no other.
    pub(super) fn made(at: Seat, manner: Manner, answer: Answer<Made>) -> Result<Self> {
        let library = at.library;
        let (code, slot) = answer.map_err(|absent| library.missing(absent))?;
        let handle = slot.take();
        if !matches!(code, Code::SUCCESS | Code::IN_PROGRESS) {
            let error = library.failure(at.function, code, handle.as_ref().ok(), Some(at.place()));
            if let Ok(handle) = handle {
                let _ = handle.abort();
            }
            return Err(error);
        }
        let handle = handle.map_err(|_| at.nothing())?;
        Self::ready(at, manner, handle)
    }

    /// A communicator, when it is ready.
    pub(super) fn ready(mut at: Seat, manner: Manner, mut handle: Handle) -> Result<Self> {
        let library = at.library;
        if let Err(error) = settle(&at, &handle, None, manner.limit) {
            let _ = handle.abort();
            return Err(error);
        }
        handle.settled();
        if let Err(error) = at.check(&handle) {
            let _ = handle.abort();
            return Err(error);
        }
        tracing::debug!("rank {} of {} has a communicator of {library:?}", at.rank, at.world);
        Ok(Self { inner: Arc::new(Inner::new(at, handle, manner)) })
    }
}

impl Drop for Comm {
    fn drop(&mut self) {
        if !group::doom(&self.inner) {
            self.inner.end();
        }
    }
}

impl Inner {
    fn new(at: Seat, handle: Handle, manner: Manner) -> Self {
        let (rank, world) = at.place();
        let device = match handle.device() {
            Ok((Code::SUCCESS, device)) => Some(device),
            _ => None,
        };
        let (library, gate) = (at.library, Gate::new(handle));
        Self { gate, library, rank, world, device, manner, leases: Mutex::default() }
    }

    pub(super) fn library(&self) -> Library {
        self.library
    }

    pub(super) fn is_blocking(&self) -> bool {
        self.manner.is_blocking
    }

    pub(super) fn limit(&self) -> Duration {
        self.manner.limit
    }

    pub(super) fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// Its rank, and of how many.
    pub(super) fn place(&self) -> (u32, u32) {
        (self.rank, self.world)
    }

    pub(super) fn enter(&self, function: &'static str) -> Result<Pass> {
        self.gate.enter(self.limit()).map_err(|barred| match barred {
            Barred::Ended(fate) => self.ended(function, fate),
            Barred::Busy(waited) => self.busy(function, waited),
            Barred::Crossed => Error::argument(function, self.crossed()),
        })
    }

    /// Makes a call with a pass, and gives it back.
    ///
    /// # Errors
    /// When the communicator was aborted before or meanwhile.
    pub(super) fn call<T>(
        &self,
        function: &'static str,
        pass: Pass,
        call: impl FnOnce(&Handle) -> T,
    ) -> Result<(T, Pass)> {
        // In a group it returns soon, and NCCL has the communicator until the end.
        if group::is_open(self.library) {
            return Ok((call(&pass), pass));
        }
        let called = pass.call(call).and_then(|(answer, pass)| Ok((answer, pass?)));
        called.map_err(|fate| self.ended(function, fate))
    }

    /// Makes a call that is over when it returns, also in a group.
    pub(super) fn at_once<T: Told>(
        &self,
        function: &'static str,
        call: impl FnOnce(&Handle) -> Answer<T>,
    ) -> Result<T> {
        let (answer, pass) = self.call(function, self.enter(function)?, call)?;
        self.succeed(function, answer, &pass)
    }

    /// Refuses what only a communicator can do that nothing has happened to.
    pub(super) fn must_be_alive(&self, function: &'static str) -> Result<()> {
        match self.gate.fate() {
            Fate::Alive => Ok(()),
            fate => Err(self.ended(function, fate)),
        }
    }

    pub(super) fn ended(&self, function: &'static str, fate: Fate) -> Error {
        Error::Ended { function, rank: self.rank, fate: fate.word() }
    }

    fn busy(&self, function: &'static str, waited: Duration) -> Error {
        Error::Busy { function, rank: self.rank, world: self.world, waited }
    }

    fn crossed(&self) -> String {
        format!(
            "rank {} of {}: another thread has this communicator in a group, and waits for one that this thread has in \
             its own: they would wait for each other for ever; use communicators in the same order in all groups",
            self.rank, self.world
        )
    }

    pub(super) fn succeed<T: Told>(
        &self,
        function: &'static str,
        answer: Answer<T>,
        handle: &Handle,
    ) -> Result<T> {
        let answer = answer.map_err(|absent| self.library.missing(absent))?;
        match answer.code() {
            Code::SUCCESS | Code::IN_PROGRESS => Ok(answer),
            code => Err(self.library.failure(function, code, Some(handle), Some(self.place()))),
        }
    }

    /// Waits until nothing is in progress.
    pub(super) fn settle(
        &self,
        function: &'static str,
        pass: &Pass,
        limit: Duration,
    ) -> Result<()> {
        let at = Seat {
            function,
            library: self.library,
            world: self.world as i32,
            rank: self.rank as i32,
        };
        settle(&at, pass, Some(&self.gate), limit)
    }

    /// Keeps memory that NCCL may still use.
    pub(super) fn keep_until_its_end(&self, lease: Lease) {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner).push(lease);
    }

    /// Has threads that are in a call get out of it, where NCCL has something for that. Says whether it has.
    pub(super) fn disturb(&self) -> bool {
        let can = self.gate.is_held() && self.library.has(Feature::Revoke);
        let is_told = |pass: Pass| matches!(pass.revoke(), Ok(Code::SUCCESS | Code::IN_PROGRESS));
        can && self.gate.watch().is_ok_and(is_told)
    }

    fn abort(&self) -> Result<()> {
        let (function, began) = ("ncclCommAbort", Instant::now());
        let grace = match self.disturb() {
            // Whoever is in a call comes out of it by itself, soon.
            _ if !self.is_blocking() => Duration::MAX,
            true => AFTER_REVOKING,
            false => BEFORE_CUTTING,
        };
        match self.gate.close(Fate::Aborted, self.limit(), grace) {
            // In a forked child there is nothing to end.
            Closed::Before if self.gate.fate() == Fate::Forked => Ok(()),
            Closed::Before => match self.gate.await_end(self.limit()) {
                true => Ok(()),
                // Whoever has closed it has not got it, or not in time.
                false => Err(self.busy(function, began.elapsed())),
            },
            Closed::Held(waited) => Err(self.busy(function, waited)),
            Closed::Last(last) => {
                let (answer, are_out) = last.abort();
                self.library.succeed(function, answer, Some(self.place()))?;
                are_out.map_err(|waited| self.busy(function, waited))
            }
        }
    }

    /// Ends what was dropped.
    pub(super) fn end(&self) {
        let ended = match self.gate.fate() {
            Fate::Aborted | Fate::Destroyed | Fate::Forked => return,
            Fate::Finalized => {
                let function = "ncclCommDestroy";
                match self.gate.close(Fate::Destroyed, self.limit(), Duration::MAX) {
                    Closed::Before => Ok(()),
                    Closed::Held(waited) => Err(self.busy(function, waited)),
                    Closed::Last(last) => {
                        self.library.succeed(function, last.destroy(), Some(self.place())).map(drop)
                    }
                }
            }
            Fate::Alive | Fate::Revoked => {
                let (rank, world) = self.place();
                tracing::warn!(
                    "the communicator of rank {rank} of {world} was dropped without finalize or destroy, and is \
                     aborted"
                );
                self.abort()
            }
        };
        if let Err(error) = ended {
            tracing::warn!("{error}");
        }
    }
}

/// How long an abort waits for who is in a call that blocks before it ends the communicator under them: they may just be
/// about to enter NCCL, or to leave it.
const BEFORE_CUTTING: Duration = Duration::from_millis(100);
/// The same where NCCL was told to let them out.
const AFTER_REVOKING: Duration = Duration::from_secs(5);
