//! The rank's side: who it is, and how it runs its closure.

use std::any::Any;
use std::path::PathBuf;
use std::process::{Command, exit};
use std::{env, panic, thread};

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::kind::Kind;
use super::layout::{Layout, Note};
use crate::hosts::Address;

/// What a rank knows about itself and its job.
#[derive(Debug)]
pub struct Context {
    rank: u32,
    world: u32,
    kind: Kind,
    addresses: Vec<Address>,
    layout: Layout,
}

impl Context {
    /// This rank's number, from zero.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// How many ranks there are.
    pub fn world(&self) -> u32 {
        self.world
    }

    /// What kind of group the ranks are to form.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// A directory that all ranks of the job share, empty at first. It is removed with the job.
    pub fn dir(&self) -> PathBuf {
        self.layout.shared()
    }

    /// The address of the host that `rank` is on, if the ranks are on hosts.
    pub fn address_of(&self, rank: u32) -> Option<Address> {
        self.addresses.get(rank as usize).copied()
    }

    /// Says that this rank has come to a point; see [`Job::await_point`](super::Job::await_point).
    pub fn reach(&self, point: &str) {
        self.layout.reach(self.rank, point);
    }

    /// What the first process [told](super::Job::tell) under this name. Waits for it; the job's
    /// limit ends the wait.
    pub fn told<T: DeserializeOwned>(&self, name: &str) -> T {
        self.layout.await_told(name)
    }

    /// Whether there is something to be [told](Context::told) under this name.
    pub fn has_been_told(&self, name: &str) -> bool {
        self.layout.is_told(name)
    }
}

/// Which rank of which job this process is.
#[derive(Debug)]
pub(crate) struct Role {
    pub(crate) rank: u32,
    pub(crate) dir: PathBuf,
}

impl Role {
    /// The role of this process, unless it is the first.
    pub(crate) fn from_environment() -> Option<Self> {
        let rank = match env::var(RANK).ok()?.as_str() {
            BY_MPI => env::var(MPI_RANK).ok()?.parse().ok()?,
            rank => rank.parse().ok()?,
        };
        let dir = env::var_os(DIR)?.into();
        Some(Self { rank, dir })
    }

    pub(crate) fn write_environment(&self, command: &mut Command, call: &str) {
        command.env(RANK, self.rank.to_string()).env(DIR, &self.dir);
        command.env(CALL, call).env(PARENT, std::process::id().to_string());
    }

    /// Has ranks learn from MPI's launcher which they are.
    pub(crate) fn leave_rank_to_mpi(command: &mut Command) {
        command.env(RANK, BY_MPI);
    }

    /// Runs the closure as this rank, or as all ranks in threads, and ends the process.
    pub(crate) fn run<T: Serialize>(
        self,
        call: &str,
        kind: Kind,
        body: impl Fn(&Context) -> T + Sync,
    ) -> ! {
        die_with_the_first_process(kind);
        let meant = env::var(CALL).unwrap_or_default();
        assert_eq!(
            call, meant,
            "a rank came to another `start` than the one that made it; a test starts ranks once"
        );
        let layout = Layout::new(&self.dir);
        let (world, addresses) = layout.world();
        let be = |rank: u32| {
            let (addresses, layout) = (addresses.clone(), layout.clone());
            Context { rank, world, kind, addresses, layout }.run(&body)
        };
        let all_is_well = match kind {
            Kind::InProcess => in_threads(world, be),
            _ => be(self.rank),
        };
        exit(if all_is_well { 0 } else { PANICKED });
    }
}

impl Context {
    /// Runs the closure as this rank and says whether it returned.
    fn run<T: Serialize>(&self, body: impl FnOnce(&Self) -> T) -> bool {
        self.layout.leave(self.rank, Note::Begun, &());
        match panic::catch_unwind(panic::AssertUnwindSafe(|| body(self))) {
            Ok(result) => {
                self.layout.leave(self.rank, Note::Result, &result);
                true
            }
            Err(payload) => {
                self.layout.leave(self.rank, Note::Panic, &words_of(&*payload));
                false
            }
        }
    }
}

/// Runs all ranks and says whether all is well with them.
fn in_threads(world: u32, be: impl Fn(u32) -> bool + Sync) -> bool {
    thread::scope(|scope| {
        let start = |rank: u32| {
            let thread = thread::Builder::new().name(format!("rank {rank}"));
            let be = &be;
            thread.spawn_scoped(scope, move || be(rank)).expect("a thread can be had")
        };
        let ranks: Vec<_> = (0..world).map(start).collect();
        ranks.into_iter().all(|rank| rank.join().expect("panics are caught"))
    })
}

/// Whether this process is a rank.
pub(crate) fn in_a_rank() -> bool {
    Role::from_environment().is_some()
}

/// The signal comes only if the first process ends after this call, so look once more whether it
/// is still the parent. A rank that MPI's launcher has started dies with that one, which dies with the first.
fn die_with_the_first_process(kind: Kind) {
    set_parent_process_death_signal(Some(Signal::KILL)).expect("SIGKILL is a signal");
    if kind == Kind::Mpi {
        return;
    }
    let parent = getppid().map(|pid| Pid::as_raw(Some(pid)).to_string());
    if parent != env::var(PARENT).ok() {
        exit(ORPHANED);
    }
}

fn words_of(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic without words".to_owned()
    }
}

/// The exit code of a rank whose closure panicked; the same as Rust's own.
pub(crate) const PANICKED: i32 = 101;
const ORPHANED: i32 = 102;

const RANK: &str = "TESTKIT_RANK";
/// In place of a rank, if MPI's launcher gives it.
const BY_MPI: &str = "mpi";
const MPI_RANK: &str = "PMI_RANK";
const DIR: &str = "TESTKIT_DIR";
const CALL: &str = "TESTKIT_CALL";
const PARENT: &str = "TESTKIT_PARENT";
