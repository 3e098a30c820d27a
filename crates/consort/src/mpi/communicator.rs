//! The ranks of a group, as MPI knows them.

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SendError};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use super::ending::{self, Hold};
use super::library::Mpi;
use super::memory::Memory;
use super::numbering::Numbering;
use super::parting::{self, Parting};
use super::table::{Class, Comm, MpiError, Pending, Task};

/// What carries a group's data, or its messages. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Communicator(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    hold: Hold,
    comm: Comm,
    mark: u64,
    /// Whether something was given up in it that MPI is still at.
    spoiled: Mutex<bool>,
}

impl Communicator {
    /// Of these processes, by their ranks in MPI, who all make it, under this name and number. Waits for them. What
    /// keeps MPI from ending is made when that is.
    fn among(
        mpi: &'static Mpi,
        ranks: &[i32],
        name: &str,
        number: i32,
        hold: impl FnOnce() -> Hold,
    ) -> Result<Self, MpiError> {
        let (mark, comm) = (word_of(name), mpi.table.among(ranks, number)?);
        Ok(Self(Arc::new(Inner { hold: hold(), comm, mark, spoiled: Mutex::new(false) })))
    }

    /// Stands for the name that it has. MPI may give what was sent in one, and never received, to the next of the
    /// same processes.
    pub(crate) fn mark(&self) -> u64 {
        self.0.mark
    }

    /// This rank.
    pub(crate) fn me(&self) -> usize {
        self.0.comm.me
    }

    /// How many ranks there are.
    pub(crate) fn world(&self) -> usize {
        self.0.comm.world
    }

    /// Begins with an operation of all ranks.
    pub(crate) fn start(&self, task: Task, memory: Memory) -> Result<Pending, MpiError> {
        self.0.hold.mpi().table.start(self.0.comm, task, memory)
    }

    /// Begins to send the first bytes of memory to a rank; if `when_received`, it is done only when the rank
    /// has begun to receive them.
    pub(crate) fn send(
        &self,
        to: usize,
        class: Class,
        bytes: usize,
        memory: Memory,
        when_received: bool,
    ) -> Result<Pending, MpiError> {
        self.0.hold.mpi().table.send(self.0.comm, to, class, bytes, memory, when_received)
    }

    /// Begins to receive the next message of a rank and this class, if one has come of at most so many bytes. Takes
    /// the memory then.
    pub(crate) fn receive(
        &self,
        from: usize,
        class: Class,
        most: usize,
        memory: &mut Memory,
    ) -> Result<Option<Pending>, MpiError> {
        self.0.hold.mpi().table.receive(self.0.comm, Some(from), class, most, memory)
    }

    /// Whether the program has ended MPI, so that every use of it is refused.
    pub(crate) fn is_over(&self) -> bool {
        self.0.hold.mpi().table.is_over()
    }

    /// Keeps it, though it is used no more, until nothing is sent to this process in it any more.
    pub(crate) fn part(&self, parting: Parting) {
        parting::part(parting, self.0.hold.mpi().table.is_guest);
    }

    /// Says that something was given up in it: it is never freed.
    pub(crate) fn spoil(&self) {
        *self.0.spoiled.lock().unwrap_or_else(PoisonError::into_inner) = true;
        ending::spoil();
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let is_spoiled = *self.spoiled.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mpi = self.hold.mpi();
        // A program that has begun MPI itself may have ended it, and whoever calls it then is ended.
        if !is_spoiled && mpi.table.has_ended() == Ok(false) {
            free(mpi, self.comm);
        }
    }
}

/// Has MPI let go of a communicator, on a thread. The standard allows that MPI waits there for the others, of whom one
/// may have spoiled its own, which it never lets go of. So this waits only as long as an MPI may take that does not, and
/// leaves the thread behind otherwise: what is lost is a communicator, and that MPI [ends](ending).
fn free(mpi: &'static Mpi, comm: Comm) {
    let (hold, (done, freed)) = (mpi.hold(), mpsc::channel());
    let free = move || {
        let _ = hold.mpi().table.free(comm);
        // Whoever hears that it is done may exit, and end MPI.
        drop(hold);
        let _ = done.send(());
    };
    if thread::Builder::new().name("consort-mpi-free".to_owned()).spawn(free).is_ok() {
        let _ = freed.recv_timeout(SOON);
    }
}

/// Communicators that are being made, on a thread: MPI knows no deadline for that, so whoever wants them waits here,
/// where it can look round. What is not waited for to the end is left to MPI, and to that thread.
#[derive(Debug)]
pub(crate) struct Making {
    made: Receiver<Made>,
    /// By which MPI tells them apart, once the members agree.
    numbers: Arc<OnceLock<[i32; 2]>>,
    is_over: bool,
}

/// What has become of them.
pub(crate) type Made = Result<[Communicator; 2], Unmade>;

/// Why a group has no communicators.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unmade {
    /// The store did not serve.
    #[error("the job's store gives it no numbers to tell the group from others by: {0}")]
    Unnumbered(consort_store::Error),
    /// MPI has made none.
    #[error("MPI has failed: {0}")]
    ByMpi(#[from] MpiError),
}

impl Making {
    /// Begins with one for each of these names, for a group's data and for its messages, of these processes, by their ranks
    /// in MPI, who all do this.
    ///
    /// # Errors
    /// When the system has no more threads.
    pub(crate) fn begin(
        mpi: &'static Mpi,
        group: &str,
        ranks: Vec<i32>,
        names: [String; 2],
        numbering: Numbering,
    ) -> io::Result<Self> {
        let group = group.to_owned();
        Self::begin_with(numbering, move |numbers| {
            let ([data, messages], [first, second]) = (&names, numbers);
            let hold = || Hold::of_group(mpi, &group);
            let data = Communicator::among(mpi, &ranks, data, first, hold)?;
            Ok([data, Communicator::among(mpi, &ranks, messages, second, || mpi.hold())?])
        })
    }

    /// The same, by a function that is given the numbers.
    pub(crate) fn begin_with(
        numbering: Numbering,
        make: impl FnOnce([i32; 2]) -> Result<[Communicator; 2], MpiError> + Send + 'static,
    ) -> io::Result<Self> {
        let ((done, made), numbers) = (mpsc::channel(), Arc::<OnceLock<_>>::default());
        let agreed = numbers.clone();
        let work = move || {
            let numbers = numbering.agree().map_err(Unmade::Unnumbered);
            let all = numbers.and_then(|it| Ok(make(*agreed.get_or_init(|| it))?));
            numbering.forget();
            if let Err(SendError(Ok(unwanted))) = done.send(all) {
                // The others may have them for good, or not at all.
                unwanted.iter().for_each(Communicator::spoil);
            }
        };
        thread::Builder::new().name("consort-mpi-group".to_owned()).spawn(work)?;
        Ok(Self { made, numbers, is_over: false })
    }

    /// Whether the members agree on numbers, as far as this one has heard. Until they do, all wait for the first.
    pub(crate) fn is_numbered(&self) -> bool {
        self.numbers.get().is_some()
    }

    /// Waits for so long. `None` if they are not made then.
    pub(crate) fn wait(&mut self, limit: Duration) -> Option<Made> {
        let made = match self.made.recv_timeout(limit) {
            Ok(made) => made,
            Err(RecvTimeoutError::Timeout) => return None,
            Err(RecvTimeoutError::Disconnected) => {
                let error = MpiError::new("making a communicator", "its thread has ended");
                return Some(Err(error.into()));
            }
        };
        self.is_over = true;
        Some(made)
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        if !self.is_over {
            ending::spoil();
        }
    }
}

fn word_of(name: &str) -> u64 {
    let hash = blake3::hash(name.as_bytes());
    u64::from_le_bytes(*hash.as_bytes().first_chunk().expect("a hash has 32 bytes"))
}

/// How long MPI may take to let go of something if it waits for nobody.
const SOON: Duration = Duration::from_secs(2);
