//! The thread that MPI lives on.
//!
//! MPI's beginning and its end are operations of all processes, for which each waits without a deadline; and the standard
//! wants both to be one thread's. So they are those of a thread of its own, for which others wait as long as they
//! like. If MPI does not come back to it, it is left there.
//!
//! In between the thread has MPI get on, now and then: what was sent by a rank that has left its group, or that computes,
//! would be on its way until that rank calls MPI again. And it [looks after](parting) the communicators of groups that were
//! left.

use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use consort_store::Deadline;
use consort_sys::origin::Origin;

use super::ending;
use super::library::Mpi;
use super::parting;
use crate::error::{Error, Result};

/// The MPI of this process, which is begun unless that was done before. Who waits for that looks round now and then.
///
/// # Errors
/// When there is none, or it cannot be used: that is not tried again. When it has not begun at the deadline, and when
/// `look_round` has one. When it is that of the process which this one was forked from.
pub(super) fn open(
    until: Deadline,
    look_round: &mut dyn FnMut() -> Result<()>,
) -> Result<&'static Mpi> {
    let since = Instant::now();
    // The lock may be held, for ever, by a thread that a forked child does not have.
    if !HOME.get_or_init(Origin::here).is_here() {
        return Err(Error::Mpi(FORKED.to_owned()));
    }
    let mut stage = lock();
    if matches!(*stage, Stage::Unknown) {
        let thread = thread::Builder::new().name("consort-mpi".to_owned()).stack_size(STACK);
        thread.spawn(keep).map_err(|error| Error::Thread(error.into()))?;
        *stage = Stage::Beginning;
    }
    loop {
        match &*stage {
            Stage::Begun(mpi) => return Ok(mpi),
            Stage::Failed(why) => return Err(Error::Mpi(why.clone())),
            Stage::Tiring | Stage::Resting | Stage::Ending | Stage::Ended => {
                return Err(Error::Mpi("it has ended in this process, and begins once".to_owned()));
            }
            Stage::Unknown | Stage::Beginning => {}
        }
        if until.has_passed() {
            return Err(Error::Mpi(late(since.elapsed())));
        }
        drop(stage);
        look_round()?;
        let limit = until.instant().map_or(LOOK, |at| at.saturating_duration_since(Instant::now()));
        stage = wait(lock(), limit.min(LOOK), |stage| matches!(stage, Stage::Beginning));
    }
}

/// Has the thread call MPI no more: what a process has of it is taken apart when it exits.
pub(super) fn rest() {
    let mut stage = lock();
    if matches!(*stage, Stage::Begun(_)) {
        *stage = Stage::Tiring;
        CHANGED.notify_all();
        drop(wait(stage, PATIENCE, |stage| matches!(stage, Stage::Tiring)));
    }
}

/// Has the thread, which [rests](rest), end MPI, and waits for that; but not when `gives_up` says so. Whether
/// it has ended.
pub(super) fn end(mut gives_up: impl FnMut() -> bool) -> bool {
    let mut stage = lock();
    if !matches!(*stage, Stage::Resting) {
        return false;
    }
    *stage = Stage::Ending;
    CHANGED.notify_all();
    while !matches!(*stage, Stage::Ended) {
        drop(stage);
        if gives_up() {
            return false;
        }
        stage = wait(lock(), LOOK, |stage| matches!(stage, Stage::Ending));
    }
    true
}

/// What the thread does.
fn keep() {
    let begun = Mpi::begin().map(|mpi| &*Box::leak(Box::new(mpi)));
    let mpi = match begun {
        Ok(mpi) => mpi,
        Err(why) => return set(Stage::Failed(why)),
    };
    if mpi.table.is_guest {
        // Whoever has begun it ends it, perhaps at this moment.
        return set(Stage::Begun(mpi));
    }
    ending::end_with_process(mpi);
    set(Stage::Begun(mpi));
    while matches!(*wait(lock(), NAP, |stage| matches!(stage, Stage::Begun(_))), Stage::Begun(_)) {
        // If it fails, those find out who need it.
        let _ = mpi.table.poke(mpi.world);
        parting::look_after(false);
    }
    set(Stage::Resting);
    let resting = CHANGED.wait_while(lock(), |stage| matches!(stage, Stage::Resting));
    drop(resting);
    let _ = mpi.table.end();
    set(Stage::Ended);
}

/// What has become of MPI in this process.
#[derive(Debug)]
enum Stage {
    Unknown,
    Beginning,
    Begun(&'static Mpi),
    Failed(String),
    /// It is to be called no more.
    Tiring,
    Resting,
    Ending,
    Ended,
}

fn set(stage: Stage) {
    *lock() = stage;
    CHANGED.notify_all();
}

fn lock() -> MutexGuard<'static, Stage> {
    STAGE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait(
    guard: MutexGuard<'static, Stage>,
    limit: Duration,
    is_the_same: impl FnMut(&mut Stage) -> bool,
) -> MutexGuard<'static, Stage> {
    let woken = CHANGED.wait_timeout_while(guard, limit, is_the_same);
    woken.unwrap_or_else(PoisonError::into_inner).0
}

fn late(waited: Duration) -> String {
    format!(
        "MPI_Init_thread has not come back after {waited:.1?}: it waits for every process that the launcher has \
         started, so one of them has ended, or does not begin MPI; or MPI cannot connect their hosts. Look what \
         has become of the others, and try a program of MPI alone"
    )
}

/// The process that all this is of.
static HOME: OnceLock<Origin> = OnceLock::new();
static STAGE: Mutex<Stage> = Mutex::new(Stage::Unknown);
static CHANGED: Condvar = Condvar::new();
const FORKED: &str = "this process was forked from one that uses MPI, and is none of MPI's own: start every rank by \
                      MPI's launcher, or choose CONSORT_BACKEND=host in a child";
/// How often whoever waits looks round.
const LOOK: Duration = Duration::from_millis(100);
/// How long the thread may take to be done with a call that does not wait.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often MPI is called, if nobody else does: seldom enough to cost nothing.
const NAP: Duration = Duration::from_millis(10);
/// As much as the first thread of a process usually has, on which MPI expects to begin.
const STACK: usize = 8 << 20;
