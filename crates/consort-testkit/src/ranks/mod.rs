//! Ranks as real processes, by running the test's own executable again.

mod context;
mod job;
mod kind;
mod layout;
mod mpi;
mod process;
mod report;
mod watchdog;

use std::any::type_name_of_val;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use context::Context;
pub use job::{Job, Outcome};
pub use kind::{Case, Kind};
pub use mpi::Mpi;

use crate::hosts::{Address, Host, Hosts, Network};
use crate::scratch::Scratch;
use crate::skip::Skip;
use context::Role;
pub(crate) use context::in_a_rank;
use layout::Layout;
use process::Process;

/// Runs `body` in `world` processes and returns what each returned, in rank order.
///
/// The same as `Ranks::new(world).start(body).expect_all()`; read [`Ranks`] for how it works.
///
/// # Panics
/// When a rank panics, ends in any other way, or does not end within a minute. The message has
/// the output of every rank.
pub fn ranks<T>(world: u32, body: impl Fn(&Context) -> T + Sync) -> Vec<T>
where
    T: Serialize + DeserializeOwned,
{
    Ranks::new(world).start(body).expect_all()
}

/// Ranks to be started: how many, for how long, where.
///
/// # How a rank comes into being
///
/// [`start`](Ranks::start) runs the current test executable once more for every rank, with the
/// arguments that select the current test only. The test function therefore begins in the rank
/// too; when it comes to the same `start`, that call recognises that it is in a rank, runs the
/// closure, hands the result to the first process and ends the rank. Three things follow:
///
/// - **What stands before `start` runs in every rank as well.** Keep it free of effects. What
///   only the first process should do (host a server, make a file) belongs after `start`, and
///   what the ranks need of it is handed over with [`Job::tell`] and [`Context::told`].
/// - **A test starts ranks once.** A second `start` in one test panics.
/// - **The closure stands in the test function itself**, because the test's name is taken from the
///   closure's. A function that gets its closure from a test passes that one to
///   [`named_after`](Ranks::named_after).
///
/// ```no_run
/// use consort_testkit::{Outcome, Ranks};
///
/// #[test]
/// fn a_killed_rank_is_told_from_one_that_ended() {
///     let mut job = Ranks::new(2).start(|ctx| {
///         ctx.reach("here");
///         let answer: u32 = ctx.told("answer");
///         answer + ctx.rank()
///     });
///     job.await_point(1, "here");
///     job.kill(1);
///     job.tell("answer", &41);
///     assert_eq!(job.wait(), [Outcome::Done(41), Outcome::Signalled(9)]);
/// }
/// # fn main() {}
/// ```
#[derive(Debug)]
#[must_use = "nothing runs before `start`"]
pub struct Ranks {
    world: u32,
    limit: Duration,
    environment: Vec<(OsString, OsString)>,
    test: Option<String>,
    hosts: Option<Hosts>,
    in_blocks: bool,
    kind: Kind,
    mpi: Option<Mpi>,
}

impl Ranks {
    /// `world` ranks on this host, with a limit of a minute.
    pub fn new(world: u32) -> Self {
        Self {
            world,
            limit: LIMIT,
            environment: Vec::new(),
            test: None,
            hosts: None,
            in_blocks: false,
            kind: Kind::Shm,
            mpi: None,
        }
    }

    /// After this time all ranks are killed and the test fails.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Sets a variable in the environment of every rank.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Takes the test's name from this closure, which stands in the test function, instead of the
    /// one that is started.
    pub fn named_after<F>(mut self, closure: &F) -> Self {
        self.test = Some(test_of(type_name_of_val(closure)));
        self
    }

    /// Puts rank `i` on host `i % count` of newly made hosts, which the [`Job`] then owns: a number
    /// of them, or those of a [`Network`].
    ///
    /// # Errors
    /// Where network namespaces or such a network are not to be had; see [`Hosts::new`].
    pub fn on_hosts(mut self, network: impl Into<Network>) -> Result<Self, Skip> {
        if !in_a_rank() {
            self.hosts = Some(Hosts::new(network)?);
        }
        Ok(self)
    }

    /// Fills one host after the other with ranks, as launchers do, instead of dealing them out.
    pub fn in_blocks(mut self) -> Self {
        self.in_blocks = true;
        self
    }

    /// Has MPI's launcher start the ranks; see [`Kind::Mpi`].
    ///
    /// # Errors
    /// Where it is not to be had.
    pub fn by_mpi(mut self) -> Result<Self, Skip> {
        self.kind = Kind::Mpi;
        if !in_a_rank() {
            self.mpi = Some(Mpi::find()?);
        }
        Ok(self)
    }

    /// Starts the ranks. In a rank, runs `body` and ends the process instead of returning.
    ///
    /// A rank dies with the *thread* that started it, so this belongs on the test's own.
    ///
    /// # Panics
    /// When a process cannot be started, or this test has started ranks before.
    pub fn start<T>(self, body: impl Fn(&Context) -> T + Sync) -> Job<T>
    where
        T: Serialize + DeserializeOwned,
    {
        let call = type_name_of_val(&body);
        if let Some(role) = Role::from_environment() {
            role.run(call, self.kind, body);
        }
        let test = self.test.clone().unwrap_or_else(|| test_of(call));
        refuse_second_start(&test);

        let scratch = Scratch::new();
        let layout = Layout::new(scratch.path());
        layout.prepare(self.world, &self.addresses());
        let mut processes = Vec::new();
        for rank in 0..self.processes() {
            let mut command = self.command(rank, &test);
            Role { rank, dir: layout.dir().to_owned() }.write_environment(&mut command, call);
            if self.mpi.is_some() {
                Role::leave_rank_to_mpi(&mut command);
            }
            let output = OpenOptions::new()
                .create(true)
                .append(true)
                .open(layout.output(rank))
                .expect("the scratch directory can be written");
            let second = output.try_clone().expect("a descriptor can be had");
            command.stdin(Stdio::null()).stdout(output).stderr(second);
            processes.push(Process::start(&mut command));
        }
        let of = (self.world, self.kind);
        Job::new(test, self.limit, of, processes, self.hosts, layout, scratch)
    }

    /// Threads of one process need only one, and so do ranks that somebody else starts.
    fn processes(&self) -> u32 {
        if matches!(self.kind, Kind::InProcess | Kind::Mpi) { 1 } else { self.world }
    }

    fn command(&self, rank: u32, test: &str) -> Command {
        let executable = std::env::current_exe().expect("a running program has a path");
        let mut command = match (&self.mpi, &self.hosts) {
            (Some(mpi), None) => mpi.command(self.world, [executable]),
            (Some(mpi), Some(hosts)) => {
                let door = self.door(hosts);
                let words = ["sh", "-c", &door, "sh"].map(OsStr::new);
                mpi.command(self.world, words.into_iter().chain([executable.as_os_str()]))
            }
            (None, Some(hosts)) => self.host_of(rank, hosts).command(executable),
            (None, None) => Command::new(executable),
        };
        command.args([test, "--exact", "--include-ignored", "--nocapture", "--test-threads=1"]);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// A shell's words by which a rank that MPI's launcher starts goes to its host, and becomes its program there.
    fn door(&self, hosts: &Hosts) -> String {
        let hosts = (0..self.world).map(|rank| self.host_of(rank, hosts).name());
        let cases: String =
            hosts.zip(0..).map(|(host, rank)| format!("{rank}) host={host};; ")).collect();
        format!("case $PMI_RANK in {cases}esac; exec ip netns exec \"$host\" \"$@\"")
    }

    /// Where each rank can be reached; nothing if they are on no hosts.
    fn addresses(&self) -> Vec<Address> {
        let Some(hosts) = &self.hosts else { return Vec::new() };
        (0..self.world).map(|rank| self.host_of(rank, hosts).addresses()).collect()
    }

    fn host_of<'a>(&self, rank: u32, hosts: &'a Hosts) -> &'a Host {
        let (rank, world, count) = (rank as usize, self.world as usize, hosts.count());
        hosts.host(if self.in_blocks { rank * count / world } else { rank % count })
    }
}

/// The path by which the test harness knows the function that a closure stands in:
/// `krate::module::function::{{closure}}` without the crate and the closure.
fn test_of(closure: &str) -> String {
    let function = closure.split("::{{closure}}").next().unwrap_or(closure);
    match function.split_once("::") {
        Some((_, path)) => path.to_owned(),
        None => function.to_owned(),
    }
}

/// A rank runs the test from its beginning and would mistake the first `start` for its own.
fn refuse_second_start(test: &str) {
    let first = STARTED.lock().unwrap_or_else(PoisonError::into_inner).insert(test.to_owned());
    assert!(first, "{test} has started ranks before; a test can do so once: make it two tests");
}

static STARTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

const LIMIT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_named_as_its_harness_names_it() {
        assert_eq!(test_of("ranks::a_test::{{closure}}"), "a_test");
        assert_eq!(test_of("krate::module::tests::a_test::{{closure}}"), "module::tests::a_test");
        assert_eq!(test_of("krate::a_test::{{closure}}::{{closure}}"), "a_test");
        let here = || ();
        assert_eq!(
            test_of(type_name_of_val(&here)),
            "ranks::tests::a_test_is_named_as_its_harness_names_it"
        );
    }
}
