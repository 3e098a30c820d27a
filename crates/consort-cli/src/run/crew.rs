//! The ranks of this host as processes: started together, ended together.

use std::env;
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use signal_hook::consts::SIGINT;

use super::deaths::Deaths;
use super::environment;
use super::error::RunError;
use super::event::{Event, Exit, Inbox};
use super::guard::Guard;
use super::job::Job;
use super::output::Output;
use super::placement::Placement;
use super::pmi::{self, Pmi, Seat};
use super::process_group;
use super::shim;
use super::signals::asks_to_end;

/// The running ranks of this host.
///
/// Each leads a process group of its own and is not reaped before the end of all: so long its
/// number is nobody else's, and a signal to its group reaches what it started and nothing else.
#[derive(Debug)]
pub(crate) struct Crew<'job> {
    job: &'job Job,
    members: Vec<Member>,
    /// Those in whose stead others were started.
    replaced: Vec<Member>,
    began: Instant,
}

#[derive(Debug)]
struct Member {
    process: Child,
    exit: Option<Exit>,
    /// What one who replaces it would write to, if somebody may.
    streams: Option<[OwnedFd; 2]>,
}

/// What became of a crew.
#[derive(Debug)]
pub(crate) struct CrewEnd {
    /// When its ranks were started.
    pub(crate) began: Instant,
    /// When it was ended; whoever exited later did so because of that.
    pub(crate) ending_since: Instant,
    /// The end of each local rank; `None` for one that not even SIGKILL could end.
    pub(crate) exits: Vec<Option<Exit>>,
    /// The signal that asked the launcher to end, meanwhile.
    pub(crate) asked_by: Option<i32>,
}

impl<'job> Crew<'job> {
    /// Starts the ranks. To be called from the main thread (see the shim).
    ///
    /// Many take their time to start. Once a signal asks the launcher to end no more are started;
    /// the signal stays in the inbox, before the end of any rank.
    pub(crate) fn start(
        job: &'job Job,
        place: &Placement,
        pmi: Option<&Pmi>,
        output: &mut Output,
        inbox: &mut Inbox,
    ) -> Result<Self, RunError> {
        let (members, replaced) = Default::default();
        let mut crew = Self { job, members, replaced, began: Instant::now() };
        let cannot_watch = |error| RunError::System { doing: "watch the ranks", error };
        let mut deaths = Deaths::new().map_err(cannot_watch)?;
        for local_rank in 0..place.local_world {
            if inbox.has_signal(asks_to_end) {
                break;
            }
            let rank = place.rank(local_rank);
            let cannot_start = |error| RunError::Start { rank, error };
            let streams = output.open(rank).map_err(cannot_start)?;
            let start = Start { job, place, local_rank, pmi, joins: false };
            let (member, lifeline) = start.member(streams, output)?;
            deaths.add(member.group(), lifeline).map_err(cannot_watch)?;
            crew.members.push(member);
        }
        deaths.report_to(inbox.sender()).map_err(cannot_watch)?;
        let cannot_read = |error| RunError::System { doing: "read the ranks' output", error };
        output.start(inbox.sender()).map_err(cannot_read)?;
        Ok(crew)
    }

    /// Takes note of the end of a process; says which local rank that was, if it was one of ours.
    pub(crate) fn note(&mut self, exit: Exit) -> Option<u32> {
        let local_rank = self.local_rank(exit.process)?;
        self.members[local_rank as usize].exit = Some(exit);
        Some(local_rank)
    }

    /// Starts a rank again that has failed, as one who joins the others. It writes to where the first
    /// one wrote.
    pub(crate) fn replace(
        &mut self,
        place: &Placement,
        local_rank: u32,
        output: &Output,
        inbox: &Inbox,
    ) -> Result<(), RunError> {
        let rank = place.rank(local_rank);
        let nothing = || io::Error::other("there is nothing it could write to");
        let gone = &mut self.members[local_rank as usize];
        let streams = gone.streams.take().ok_or_else(nothing);
        let streams = streams.map_err(|error| RunError::Start { rank, error })?;
        // It is not in the world of an MPI, and none that it joins needs one.
        let start = Start { job: self.job, place, local_rank, pmi: None, joins: true };
        let (member, lifeline) = start.member(streams, output)?;
        let cannot_watch = |error| RunError::System { doing: "watch the ranks", error };
        let mut deaths = Deaths::new().map_err(cannot_watch)?;
        deaths.add(member.group(), lifeline).map_err(cannot_watch)?;
        deaths.report_to(inbox.sender()).map_err(cannot_watch)?;
        self.replaced.push(std::mem::replace(gone, member));
        Ok(())
    }

    /// Ends a rank that runs, and what it started.
    pub(crate) fn kill(&self, local_rank: u32) {
        if let Some(member) = self.members.get(local_rank as usize)
            && member.exit.is_none()
        {
            process_group::signal(member.group(), Signal::KILL);
        }
    }

    /// Which local rank a process is, if it is one of ours.
    pub(crate) fn local_rank(&self, process: Pid) -> Option<u32> {
        let place = self.members.iter().position(|member| member.group() == process)?;
        u32::try_from(place).ok()
    }

    /// How many ranks run.
    pub(crate) fn alive(&self) -> u32 {
        self.members.iter().filter(|member| member.exit.is_none()).count() as u32
    }

    /// Whether a rank has ended well.
    pub(crate) fn any_succeeded(&self) -> bool {
        let is_well = |member: &Member| member.exit.is_some_and(|exit| exit.status.is_success());
        self.members.iter().any(is_well)
    }

    /// Whether every rank has exited by itself.
    pub(crate) fn all_exited(&self) -> bool {
        self.members.iter().all(|member| member.exit.is_some())
    }

    /// When its ranks were started.
    pub(crate) fn began(&self) -> Instant {
        self.began
    }

    /// Sends a signal to all ranks and what they started.
    pub(crate) fn signal_all(&self, signal: i32) {
        match Signal::from_named_raw(signal) {
            Some(signal) => self.send(signal),
            None => tracing::warn!(signal, "a signal without a name is not passed on"),
        }
    }

    /// Ends all ranks and what they started: first `signal`, then SIGKILL once `grace` is over.
    /// An interrupt meanwhile cuts the grace short; other events stay in the inbox.
    pub(crate) fn end(mut self, signal: i32, grace: Duration, inbox: &mut Inbox) -> CrewEnd {
        let ending_since = Instant::now();
        self.signal_all(signal);
        // One that was stopped has to run in order to end.
        self.send(Signal::CONT);
        let mut until = ending_since + grace;
        let mut killed = false;
        let mut asked_by = None;
        let mut others = Vec::new();
        loop {
            match self.wait_until_gone(until, inbox, &mut others) {
                Waited::Gone => break,
                Waited::TooLong if killed => break,
                Waited::TooLong => {
                    self.send(Signal::KILL);
                    killed = true;
                    until = Instant::now() + KILL_PATIENCE;
                }
                Waited::Signalled(signal) if asks_to_end(signal) => {
                    asked_by = Some(signal);
                    if signal == SIGINT && !killed {
                        until = Instant::now();
                    }
                }
                Waited::Signalled(signal) => self.signal_all(signal),
            }
        }
        inbox.put_back(others);
        CrewEnd { began: self.began, ending_since, exits: self.reap(), asked_by }
    }

    /// Waits until nothing of the crew runs any more, or for another reason to act.
    fn wait_until_gone(
        &mut self,
        until: Instant,
        inbox: &mut Inbox,
        others: &mut Vec<Event>,
    ) -> Waited {
        let groups: Vec<Pid> = self.all().map(Member::group).collect();
        loop {
            let mut wake = until;
            if self.all_exited() {
                if !process_group::any_alive(&groups) {
                    return Waited::Gone;
                }
                // Nobody tells us about the end of processes that the ranks left behind.
                wake = until.min(Instant::now() + LOOK_AGAIN);
            }
            match inbox.next_until(wake) {
                Some(Event::Exited(exit)) => {
                    self.note(exit);
                }
                Some(Event::Signal(signal)) => return Waited::Signalled(signal),
                Some(other) => others.push(other),
                None if Instant::now() >= until => return Waited::TooLong,
                None => {}
            }
        }
    }

    fn send(&self, signal: Signal) {
        self.all().for_each(|member| process_group::signal(member.group(), signal));
    }

    /// Also those that were replaced: what they started may still run.
    fn all(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().chain(&self.replaced)
    }

    fn reap(&mut self) -> Vec<Option<Exit>> {
        let guard = &self.job.guard;
        for member in std::mem::take(&mut self.replaced) {
            member.reap(guard);
        }
        let members = std::mem::take(&mut self.members);
        members.into_iter().map(|member| member.reap(guard)).collect()
    }
}

impl Drop for Crew<'_> {
    /// After an error half way: nothing stays behind.
    fn drop(&mut self) {
        self.send(Signal::KILL);
        for member in self.members.iter_mut().chain(&mut self.replaced) {
            self.job.guard.forget(member.group());
            let _ = member.process.wait();
        }
    }
}

impl Member {
    fn group(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    fn reap(mut self, guard: &Guard) -> Option<Exit> {
        if self.exit.is_some() {
            guard.forget(self.group());
            // It has exited, so this neither waits nor fails.
            let _ = self.process.wait();
        } else {
            let process = self.process.id();
            tracing::error!(
                process,
                "a rank does not end, not even by SIGKILL; it is probably stuck in the kernel"
            );
        }
        self.exit
    }
}

/// Why a wait for the crew's end was over.
enum Waited {
    Gone,
    TooLong,
    Signalled(i32),
}

/// The start of a rank.
struct Start<'a> {
    job: &'a Job,
    place: &'a Placement,
    local_rank: u32,
    /// What serves the MPI that it uses, if it does.
    pmi: Option<&'a Pmi>,
    /// Whether it joins others that run.
    joins: bool,
}

impl Start<'_> {
    /// The rank, writing to these streams, and its lifeline.
    fn member(
        &self,
        streams: [OwnedFd; 2],
        output: &Output,
    ) -> Result<(Member, PipeReader), RunError> {
        let rank = self.place.rank(self.local_rank);
        let cannot_start = |error| RunError::Start { rank, error };
        let keep = || Ok([streams[0].try_clone()?, streams[1].try_clone()?]);
        let may_be_replaced = self.job.settings.replace;
        let kept = may_be_replaced.then(keep).transpose().map_err(cannot_start)?;
        let (lifeline, held) = io::pipe().map_err(cannot_start)?;
        let process = self.process(streams, held, output).map_err(cannot_start)?;
        Ok((Member { process, exit: None, streams: kept }, lifeline))
    }

    fn process(
        &self,
        streams: [OwnedFd; 2],
        lifeline: PipeWriter,
        output: &Output,
    ) -> io::Result<Child> {
        let Self { job, place, local_rank, pmi, joins } = *self;
        let error_file = output.error_file(place.rank(local_rank));
        let around = job.surroundings(error_file.as_deref());
        let is_set = |name: &str| env::var_os(name).is_some();
        let mut command = shim::command(&job.settings.command, &job.guard, job.files, lifeline);
        for name in environment::OUTER {
            command.env_remove(name);
        }
        if joins {
            command.env(environment::JOIN, "on");
        }
        // Held until the process has it.
        let seat = pmi.map(|pmi| pmi.seat(local_rank)).transpose()?;
        if job.is_for_mpi {
            for name in pmi::OUTER {
                command.env_remove(name);
            }
            command.envs(seat.iter().flat_map(Seat::variables));
        }
        let [stdout, stderr] = streams.map(Stdio::from);
        command
            .envs(environment::variables(place, local_rank, &around, is_set))
            .process_group(0)
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
    }
}

/// How long the kernel may take to end what was killed.
const KILL_PATIENCE: Duration = Duration::from_secs(5);

const LOOK_AGAIN: Duration = Duration::from_millis(20);
