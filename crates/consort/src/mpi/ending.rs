//! How MPI ends: with the process, if all is well.
//!
//! Launchers of MPI take it for a failure when a process ends that has begun MPI and not ended it, and kill
//! the others. To end it is an operation of all processes, in which each waits for the last. So it is done as late
//! as possible, when the process exits, and only by one that has left all its groups in good order: one that
//! exits while the others wait for it must not wait for them. Such a one tells those who wait for it to end MPI that it
//! will not come, and then nobody ends it.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use consort_sys::origin::Origin;

use super::library::Mpi;
use super::memory::Memory;
use super::table::{self, Pending, Task};

/// Keeps MPI from ending: it has users.
#[derive(Debug)]
pub(crate) struct Hold {
    mpi: &'static Mpi,
}

impl Hold {
    pub(super) fn new(mpi: &'static Mpi) -> Self {
        users().count += 1;
        Self { mpi }
    }

    pub(crate) fn mpi(&self) -> &'static Mpi {
        self.mpi
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        users().count -= 1;
    }
}

/// Says that something was given up, so that processes may no longer be able to end MPI together.
pub(crate) fn spoil() {
    users().are_spoiled = true;
}

/// Has MPI end when this process does.
pub(super) fn end_with_process(mpi: &'static Mpi) {
    if BEGUN.set((Origin::here(), mpi)).is_ok() {
        table::at_exit(end);
    }
}

/// Those who use MPI.
#[derive(Debug, Default)]
struct Users {
    count: usize,
    are_spoiled: bool,
}

fn users() -> MutexGuard<'static, Users> {
    USERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends MPI, if nobody uses it and all processes come to do so.
extern "C" fn end() {
    let Some((origin, mpi)) = BEGUN.get() else { return };
    // A forked child exits, too.
    if !origin.is_here() {
        return;
    }
    if mpi.table.has_ended() != Ok(false) {
        return;
    }
    let in_order = users().count == 0 && !users().are_spoiled;
    if !in_order {
        decline(mpi);
    } else if all_come(mpi) {
        let _ = mpi.table.end();
    }
}

/// Tells all others not to wait for this process.
fn decline(mpi: &'static Mpi) {
    let tell = |rank| mpi.table.send(mpi.world, rank, 0, Memory::default(), false).ok();
    let mut told: Vec<Pending> = others(mpi).filter_map(tell).collect();
    let began = Instant::now();
    while !told.is_empty() && began.elapsed() < FAREWELL {
        told.retain_mut(|word| word.is_done() == Ok(false));
        thread::sleep(NAP);
    }
}

/// Whether another process has said that it does not come.
fn has_declined(mpi: &'static Mpi) -> bool {
    let word = |rank| mpi.table.receive(mpi.world, rank, 0, &mut Memory::default());
    others(mpi).any(|rank| !matches!(word(rank), Ok(None)))
}

fn others(mpi: &'static Mpi) -> impl Iterator<Item = usize> {
    (0..mpi.world.world).filter(|&rank| rank != mpi.world.me)
}

/// Waits for all processes to be about to end.
fn all_come(mpi: &'static Mpi) -> bool {
    let Ok(mut barrier) = mpi.table.start(mpi.world, Task::Barrier, Memory::default()) else {
        return false;
    };
    let began = Instant::now();
    loop {
        match barrier.is_done() {
            Ok(true) => return true,
            Ok(false) if began.elapsed() < LONGEST && !has_declined(mpi) => thread::sleep(NAP),
            _ => return false,
        }
    }
}

static USERS: Mutex<Users> = Mutex::new(Users { count: 0, are_spoiled: false });
static BEGUN: OnceLock<(Origin, &'static Mpi)> = OnceLock::new();
/// One process may have something left to do that the others know nothing of.
const LONGEST: Duration = Duration::from_secs(3600);
/// How long a word that it does not come may take to be out.
const FAREWELL: Duration = Duration::from_millis(200);
const NAP: Duration = Duration::from_millis(1);
