//! The first process's side: ranks that run, and what came of them.

use std::marker::PhantomData;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::context::PANICKED;
use super::kind::Kind;
use super::layout::{GLANCE, Layout, Note};
use super::process::Process;
use super::report;
use super::watchdog::Watchdog;
use crate::hosts::Hosts;
use crate::scratch::Scratch;

/// Running ranks. Dropping it kills and reaps what is left and removes the job's directory.
///
/// Every method that waits ends at the job's limit: all ranks are killed then, and the method
/// panics with the output of every rank.
#[derive(Debug)]
#[must_use = "dropping a job kills its ranks"]
pub struct Job<T> {
    test: String,
    world: u32,
    kind: Kind,
    processes: Vec<Process>,
    watchdog: Watchdog,
    hosts: Option<Hosts>,
    layout: Layout,
    _scratch: Scratch,
    result: PhantomData<fn() -> T>,
}

/// How a rank ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<T> {
    /// Its closure returned this.
    Done(T),
    /// Its closure panicked with this message.
    Panicked(String),
    /// It ended itself with this code, before its closure returned.
    Exited(i32),
    /// This signal ended it.
    Signalled(i32),
}

impl<T> Job<T> {
    pub(crate) fn new(
        test: String,
        limit: Duration,
        (world, kind): (u32, Kind),
        processes: Vec<Process>,
        hosts: Option<Hosts>,
        layout: Layout,
        scratch: Scratch,
    ) -> Self {
        let watchdog = Watchdog::start(limit, processes.iter().map(Process::handle).collect());
        let _scratch = scratch;
        Self {
            test,
            world,
            kind,
            processes,
            watchdog,
            hosts,
            layout,
            _scratch,
            result: PhantomData,
        }
    }

    /// Waits until `rank` has said [`reach`](super::Context::reach) of this point.
    ///
    /// # Panics
    /// When the rank ends without coming there.
    pub fn await_point(&mut self, rank: u32, point: &str) {
        while !self.layout.has_reached(rank, point) {
            if self.process(rank).ended().is_some() && !self.layout.has_reached(rank, point) {
                self.fail(&format!("rank {rank} ended before it came to {point:?}"));
            }
            thread::sleep(GLANCE);
        }
    }

    /// Waits until a rank has ended, however that was.
    ///
    /// # Panics
    /// When the limit comes first.
    pub fn await_end(&mut self, rank: u32) {
        let _ = self.process(rank).wait();
        if self.watchdog.has_expired().is_some() {
            self.fail("all were killed");
        }
    }

    /// Tells all ranks something, once; see [`told`](super::Context::told).
    pub fn tell<M: Serialize>(&self, name: &str, message: &M) {
        self.layout.tell(name, message);
    }

    /// Kills a rank (SIGKILL) and waits until it is gone.
    ///
    /// # Panics
    /// When it had already ended in another way.
    pub fn kill(&mut self, rank: u32) {
        self.process(rank).signal(Signal::KILL);
        let status = self.process(rank).wait();
        if status.signal() != Some(Signal::KILL.as_raw()) {
            self.fail(&format!("rank {rank} was to be killed but had ended before, {status}"));
        }
    }

    /// Stops a rank (SIGSTOP) and waits until it stands still.
    ///
    /// # Panics
    /// When it does not, or has ended.
    pub fn stop(&mut self, rank: u32) {
        self.process(rank).signal(Signal::STOP);
        self.await_state(rank, "stand still", |state| state == STOPPED);
    }

    /// Lets a stopped rank continue (SIGCONT).
    ///
    /// # Panics
    /// When it was not stopped, or still is.
    pub fn cont(&mut self, rank: u32) {
        if self.process(rank).state() != Some(STOPPED) {
            self.fail(&format!("rank {rank} is to continue but was not stopped"));
        }
        self.process(rank).signal(Signal::CONT);
        self.await_state(rank, "continue", |state| state != STOPPED);
    }

    /// The process id of a rank.
    pub fn pid(&self, rank: u32) -> u32 {
        self.processes[self.index(rank)].id()
    }

    /// What a rank has written so far to standard output and standard error.
    pub fn output(&self, rank: u32) -> String {
        report::read_output(&self.layout.output(rank))
    }

    /// The directory that the ranks share; see [`Context::dir`](super::Context::dir).
    pub fn dir(&self) -> PathBuf {
        self.layout.shared()
    }

    /// The hosts that the ranks are on, if [`on_hosts`](super::Ranks::on_hosts) was asked for.
    pub fn hosts(&self) -> Option<&Hosts> {
        self.hosts.as_ref()
    }

    fn process(&mut self, rank: u32) -> &mut Process {
        let index = self.index(rank);
        &mut self.processes[index]
    }

    /// Which process a rank is in: its own, or the only one.
    fn index(&self, rank: u32) -> usize {
        if self.processes.len() == 1 { 0 } else { rank as usize }
    }

    fn await_state(&mut self, rank: u32, what: &str, is_right: impl Fn(char) -> bool) {
        let started = Instant::now();
        loop {
            if let Some(status) = self.process(rank).ended() {
                // Who goes on may be done before anybody looks.
                if is_right(ENDED) {
                    return;
                }
                self.fail(&format!("rank {rank} was to {what} but has ended, {status}"));
            }
            if self.process(rank).state().is_some_and(&is_right) {
                return;
            }
            if started.elapsed() > SIGNAL_LIMIT {
                self.fail(&format!("rank {rank} did not {what} within {SIGNAL_LIMIT:?}"));
            }
            thread::sleep(GLANCE);
        }
    }

    /// Ends all ranks and panics with their output.
    fn fail(&mut self, what: &str) -> ! {
        let expired = self.watchdog.has_expired();
        for process in &self.processes {
            process.signal(Signal::KILL);
        }
        let statuses: Vec<ExitStatus> = self.processes.iter_mut().map(Process::wait).collect();
        let what = match expired {
            Some(limit) => format!("the ranks did not end within {limit:?}; {what}"),
            None => what.to_owned(),
        };
        let report = report::of_all_ranks(&self.layout, &statuses);
        self.processes.clear();
        panic!("{}: {what}\n{report}", self.test);
    }
}

impl<T: DeserializeOwned> Job<T> {
    /// Waits until all ranks have ended and says how, in rank order.
    ///
    /// # Panics
    /// When the limit comes first.
    pub fn wait(&mut self) -> Vec<Outcome<T>> {
        let statuses: Vec<ExitStatus> = self.processes.iter_mut().map(Process::wait).collect();
        if self.watchdog.has_expired().is_some() {
            self.fail("all were killed");
        }
        (0..self.world).map(|rank| self.outcome(rank, statuses[self.index(rank)])).collect()
    }

    /// Waits until all ranks have ended and returns what their closures returned, in rank order.
    ///
    /// # Panics
    /// When one ended in any other way, or the limit comes first.
    pub fn expect_all(mut self) -> Vec<T> {
        let mut results = Vec::new();
        for (rank, outcome) in self.wait().into_iter().enumerate() {
            match outcome {
                Outcome::Done(result) => results.push(result),
                Outcome::Panicked(words) => self.fail(&format!("rank {rank} panicked: {words}")),
                Outcome::Exited(code) => {
                    self.fail(&format!("rank {rank} exited with code {code} and no result"))
                }
                Outcome::Signalled(signal) => {
                    self.fail(&format!("rank {rank} was ended by signal {signal}"))
                }
            }
        }
        results
    }

    fn outcome(&mut self, rank: u32, status: ExitStatus) -> Outcome<T> {
        if let Some(signal) = status.signal() {
            return Outcome::Signalled(signal);
        }
        let code = status.code().unwrap_or_default();
        let result = self.layout.find(rank, Note::Result);
        let panic = self.layout.find(rank, Note::Panic);
        let is_by_another = self.kind == Kind::Mpi;
        match (code, result, panic) {
            // Of the threads of a process another may have panicked.
            (0 | PANICKED, Some(result), _) => Outcome::Done(result),
            (PANICKED, _, Some(words)) => Outcome::Panicked(words),
            // The code is the launcher's, and may be of any rank.
            (_, Some(result), _) if is_by_another => Outcome::Done(result),
            (_, _, Some(words)) if is_by_another => Outcome::Panicked(words),
            _ if self.layout.find::<()>(rank, Note::Begun).is_some() => Outcome::Exited(code),
            _ => self.fail(&format!(
                "rank {rank} never came to its `start`; is the closure in the test function itself?"
            )),
        }
    }
}

impl<T> Drop for Job<T> {
    fn drop(&mut self) {
        if thread::panicking() && !self.processes.is_empty() {
            for process in &self.processes {
                process.signal(Signal::KILL);
            }
            let statuses: Vec<_> = self.processes.iter_mut().map(Process::wait).collect();
            eprintln!("{}", report::of_all_ranks(&self.layout, &statuses));
        }
    }
}

/// How long a stop or a continue may take to be seen.
/// What the kernel calls processes that stand still, and those that have ended.
const STOPPED: char = 'T';
const ENDED: char = 'Z';
const SIGNAL_LIMIT: Duration = Duration::from_secs(10);
