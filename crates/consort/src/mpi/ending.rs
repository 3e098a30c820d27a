//! How MPI ends: with the process, if all is well.
//!
//! Launchers of MPI take it for a failure when a process ends that has begun MPI and not ended it, and kill
//! the others. To end it is an operation of all processes, in which each waits for the last. So it is done as late
//! as possible, when the process exits, and only by one that has left all its groups in good order: one that
//! exits while the others wait for it, or because it has failed, must not wait for them. Such a one tells those who wait
//! for it to end MPI that it will not come, and then nobody ends it.
//!
//! `consort run` is told by whoever has done its work, and cannot end MPI for the sake of another, that it leaves
//! nevertheless: so who fails a job is who has failed.
//!
//! One that ends without exiting, killed or by `_exit`, tells nobody. On this host the others see that it is gone. Of
//! one on another host they know nothing at that time: for it they wait as long as ranks of the job wait for each other.

use std::ffi::{c_int, c_void};
use std::os::fd::RawFd;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use consort_sys::life::{Life, Sign};
use consort_sys::origin::Origin;

use super::keeper;
use super::library::Mpi;
use super::memory::Memory;
use super::parting;
use super::table::{self, Class, Pending, Task};
use crate::notice;

/// Keeps MPI from ending: it has users.
#[derive(Debug)]
pub(crate) struct Hold {
    mpi: &'static Mpi,
    /// The group whose data it is for, if it is for that.
    group: Option<String>,
}

impl Hold {
    pub(super) fn new(mpi: &'static Mpi) -> Self {
        users().count += 1;
        Self { mpi, group: None }
    }

    /// For the data of a group.
    pub(super) fn of_group(mpi: &'static Mpi, group: &str) -> Self {
        users().groups.push(group.to_owned());
        let mut hold = Self::new(mpi);
        hold.group = Some(group.to_owned());
        hold
    }

    pub(crate) fn mpi(&self) -> &'static Mpi {
        self.mpi
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut users = users();
        users.count -= 1;
        if let Some(group) = &self.group
            && let Some(at) = users.groups.iter().position(|it| it == group)
        {
            users.groups.remove(at);
        }
    }
}

/// Says for how long ranks of the job wait for each other, and which processes of this host are among them.
pub(crate) fn expect(patience: Duration, processes: Vec<u32>) {
    let mut users = users();
    (users.patience, users.processes) = (patience, processes);
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
    /// The groups among them.
    groups: Vec<String>,
    are_spoiled: bool,
    /// How long the last of them would wait for another.
    patience: Duration,
    /// The processes of this host.
    processes: Vec<u32>,
}

fn users() -> MutexGuard<'static, Users> {
    USERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends MPI, if nobody uses it and all processes come to do so.
extern "C" fn end(code: c_int, _: *mut c_void) {
    let Some((origin, mpi)) = BEGUN.get() else { return };
    // A forked child exits, too.
    if !origin.is_here() {
        return;
    }
    if mpi.table.has_ended() != Ok(false) {
        return;
    }
    keeper::rest();
    let (has_failed, is_spoiled) = {
        let users = users();
        // Those of groups that were left are held, too.
        (code != 0 || users.count > parting::count(), users.are_spoiled)
    };
    if has_failed {
        if code == 0 {
            warn_of_launcher(mpi);
        }
        return decline(mpi);
    }
    if is_spoiled {
        decline(mpi);
    } else if end_together(mpi) {
        return;
    }
    leave_launcher();
}

/// Whether it has come to be.
fn end_together(mpi: &'static Mpi) -> bool {
    let mut vigil = Vigil::begin();
    if !all_come(mpi, &mut vigil) {
        return false;
    }
    parting::finish(|| vigil.is_in_vain());
    keeper::end(|| vigil.is_in_vain())
}

/// Tells `consort run` that this process has done its work, if that has started it.
fn leave_launcher() {
    let here = |name| std::env::var(name).ok().and_then(|it| it.parse::<RawFd>().ok());
    // Another launcher may be between, whose process may not speak as ours.
    if let Some(launcher) = here(LAUNCHER).filter(|_| here(LAUNCHER) == here("PMI_FD")) {
        // One that is gone has no use for it.
        let _ = table::take_leave(launcher);
    }
}

/// Says which groups this process has not left, if it would look as if all were well. `consort run` says that itself.
fn warn_of_launcher(mpi: &'static Mpi) {
    let groups = users().groups.join(", ");
    if groups.is_empty() || std::env::var_os(LAUNCHER).is_some() {
        return;
    }
    notice::warn(&format!(
        "rank {} exits and has not left group {groups}: MPI's launcher may end the others, and may call that a success",
        mpi.world.me
    ));
}

/// Tells all others not to wait for this process.
fn decline(mpi: &'static Mpi) {
    let tell =
        |rank| mpi.table.send(mpi.world, rank, Class::Farewell, 0, Memory::default(), false).ok();
    let mut told: Vec<Pending> = others(mpi).filter_map(tell).collect();
    let began = Instant::now();
    while !told.is_empty() && began.elapsed() < FAREWELL {
        told.retain_mut(|word| word.is_done() == Ok(false));
        thread::sleep(NAP);
    }
}

/// Whether another process has said that it does not come.
fn has_declined(mpi: &'static Mpi) -> bool {
    let word = mpi.table.receive(mpi.world, None, Class::Farewell, 0, &mut Memory::default());
    !matches!(word, Ok(None))
}

fn others(mpi: &'static Mpi) -> impl Iterator<Item = usize> {
    (0..mpi.world.world).filter(|&rank| rank != mpi.world.me)
}

/// Waits for all processes to be about to end.
fn all_come(mpi: &'static Mpi, vigil: &mut Vigil) -> bool {
    let Ok(mut barrier) = mpi.table.start(mpi.world, Task::Barrier, Memory::default()) else {
        return false;
    };
    loop {
        match barrier.is_done() {
            Ok(true) => return true,
            Ok(false) if !has_declined(mpi) && !vigil.is_in_vain() => thread::sleep(NAP),
            _ => return false,
        }
    }
}

/// A wait for the others at the end.
#[derive(Debug)]
struct Vigil {
    began: Instant,
    patience: Duration,
    processes: Vec<(u32, Life)>,
    looked: Instant,
    /// Since when one of them is known to have ended. Perhaps it has ended MPI, and this process is about to.
    alone: Option<Instant>,
}

impl Vigil {
    fn begin() -> Self {
        let (patience, processes) = {
            let mut users = users();
            (users.patience, std::mem::take(&mut users.processes))
        };
        let processes = processes.into_iter().map(|it| (it, Life::of(it))).collect();
        let now = Instant::now();
        Self { began: now, patience, processes, looked: now, alone: None }
    }

    /// Whether to wait no longer, which it says to whoever reads this process's output.
    fn is_in_vain(&mut self) -> bool {
        if self.looked.elapsed() < LOOK {
            return false;
        }
        self.looked = Instant::now();
        let ended = self.processes.iter().find(|(_, life)| life.sign() == Sign::Ended);
        let why = match ended {
            Some((process, _))
                if self.alone.get_or_insert_with(Instant::now).elapsed() >= FAREWELL_OF_OTHERS =>
            {
                format!("process {process} of this host has ended without it")
            }
            _ if self.began.elapsed() >= self.patience => {
                format!("not all processes have come to it in {:.0?}", self.began.elapsed())
            }
            _ => return false,
        };
        notice::warn(&format!(
            "MPI is not ended: {why}; launchers of MPI may take this for a failure"
        ));
        true
    }
}

static USERS: Mutex<Users> = Mutex::new(Users {
    count: 0,
    groups: Vec::new(),
    are_spoiled: false,
    patience: Duration::from_secs(600),
    processes: Vec::new(),
});
static BEGUN: OnceLock<(Origin, &'static Mpi)> = OnceLock::new();
/// How often to look whether the others are there.
const LOOK: Duration = Duration::from_millis(100);
/// How long MPI may take to be done here when it is done elsewhere.
const FAREWELL_OF_OTHERS: Duration = Duration::from_secs(5);
/// How long a word that it does not come may take to be out.
const FAREWELL: Duration = Duration::from_millis(200);
const NAP: Duration = Duration::from_millis(1);
/// Where `consort run` says by which descriptor MPI speaks to it.
const LAUNCHER: &str = "PMI_CONSORT";
