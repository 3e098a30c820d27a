//! The ranks of one run, as the harness has them: what they say, who is gone. Dropping it ends them all.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::answer::Answer;
use crate::clock;
use crate::library::Library;
use crate::order::Order;
use crate::scenario::{Scenario, WORLD};
use crate::stage::Stage;

/// All ranks, who have met.
#[derive(Debug)]
pub(crate) struct Crew {
    members: Vec<Member>,
    heard: Receiver<(usize, Event)>,
    _started: Started,
    pub(crate) version: String,
}

/// What is known of a rank: it is the connection's number until it has said which it is.
#[derive(Debug)]
struct Member {
    stream: UnixStream,
    rank: Option<u32>,
    process: Option<Pid>,
    is_gone: bool,
}

/// Something that has happened.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Said(Answer),
    /// Its process has ended, for the kernel has closed its socket.
    Gone {
        at: u64,
    },
}

/// Processes that the harness has started, each in a process group of its own.
#[derive(Debug)]
struct Started(Vec<Child>);

impl Crew {
    /// Starts ranks and waits until all have met.
    pub(crate) fn assemble(
        library: Library,
        scenario: &Scenario,
        stage: &Stage,
    ) -> Result<Self, Box<dyn Error>> {
        let _started = Started(library.start(stage, scenario)?);
        let (teller, heard) = mpsc::channel();
        let mut crew = Self { members: Vec::new(), heard, _started, version: String::new() };
        crew.meet(stage, &teller)
            .map_err(|error| format!("{library}: {error}; they said:\n{}", stage.printed()))?;
        Ok(crew)
    }

    fn meet(&mut self, stage: &Stage, teller: &Sender<(usize, Event)>) -> Result<(), String> {
        let until = Instant::now() + START_LIMIT;
        while self.members.iter().filter(|member| member.rank.is_some()).count() < WORLD as usize {
            if let Ok((stream, _)) = stage.listener().accept() {
                self.take(stream, teller).map_err(|error| error.to_string())?;
            }
            if let Ok((number, event)) = self.heard.recv_timeout(GLANCE) {
                self.note(number, &event)?;
            }
            if Instant::now() > until {
                return Err(format!("the ranks have not met in {START_LIMIT:?}"));
            }
        }
        Ok(())
    }

    fn take(&mut self, stream: UnixStream, teller: &Sender<(usize, Event)>) -> std::io::Result<()> {
        stream.set_nonblocking(false)?;
        let (number, reader, teller) = (self.members.len(), stream.try_clone()?, teller.clone());
        self.members.push(Member { stream, rank: None, process: None, is_gone: false });
        thread::spawn(move || listen(reader, number, &teller));
        Ok(())
    }

    /// Tells a rank something. One that is gone need not hear it: that it is gone is known elsewhere.
    pub(crate) fn tell(&self, rank: u32, order: &Order) {
        let member = self.members.iter().find(|member| member.rank == Some(rank));
        let _ = member.map(|member| (&member.stream).write_all(format!("{order}\n").as_bytes()));
    }

    /// Sends a rank a signal.
    pub(crate) fn signal(&self, rank: u32, signal: Signal) -> Result<(), Box<dyn Error>> {
        let member = self.members.iter().find(|member| member.rank == Some(rank));
        let unknown = || format!("rank {rank} has not said which process it is");
        let process = member.and_then(|member| member.process).ok_or_else(unknown)?;
        Ok(kill_process(process, signal)?)
    }

    /// The next thing that happens, and to which rank, if it does before then.
    pub(crate) fn next(&mut self, until: Instant) -> Result<Option<(u32, Event)>, String> {
        let left = until.saturating_duration_since(Instant::now());
        let Ok((number, event)) = self.heard.recv_timeout(left) else { return Ok(None) };
        self.note(number, &event)?;
        Ok(self.members[number].rank.map(|rank| (rank, event)))
    }

    fn note(&mut self, number: usize, event: &Event) -> Result<(), String> {
        let member = &mut self.members[number];
        match event {
            Event::Said(Answer::Here { rank, process, version }) => {
                member.rank = Some(*rank);
                member.process = Pid::from_raw(*process);
                self.version.clone_from(version);
            }
            Event::Gone { .. } if member.rank.is_none() => {
                return Err("a rank has ended before it met the others".to_owned());
            }
            Event::Gone { .. } => member.is_gone = true,
            Event::Said(_) => {}
        }
        Ok(())
    }
}

impl Drop for Crew {
    /// Those that a launcher has started are not in the harness's process groups. Whose socket is open
    /// is alive, so that its number is nobody else's.
    fn drop(&mut self) {
        while let Ok((number, event)) = self.heard.try_recv() {
            let _ = self.note(number, &event);
        }
        for member in self.members.iter().filter(|member| !member.is_gone) {
            let _ = member.process.map(|process| kill_process(process, Signal::KILL));
        }
    }
}

impl Drop for Started {
    /// A launcher cleans up behind itself if it is asked to end.
    fn drop(&mut self) {
        self.0.iter().for_each(|child| signal_all_of(child, Signal::TERM));
        let until = Instant::now() + GRACE;
        for child in &mut self.0 {
            while matches!(child.try_wait(), Ok(None)) && Instant::now() < until {
                thread::sleep(GLANCE);
            }
            if matches!(child.try_wait(), Ok(None)) {
                signal_all_of(child, Signal::KILL);
                let _ = child.wait();
            }
        }
    }
}

fn signal_all_of(child: &Child, signal: Signal) {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    // It may have ended, and is not yet waited for: nobody else has its number.
    let _ = group.map(|group| kill_process_group(group, signal));
}

/// Passes on what a rank says, until it is gone.
fn listen(stream: UnixStream, number: usize, teller: &Sender<(usize, Event)>) {
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { break };
        match line.parse() {
            Ok(answer) => drop(teller.send((number, Event::Said(answer)))),
            Err(strange) => eprintln!("bench/failure: {strange}"),
        }
    }
    let _ = teller.send((number, Event::Gone { at: clock::nanoseconds() }));
}

/// To load PyTorch takes its time on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(90);
const GLANCE: Duration = Duration::from_millis(5);
/// How long a launcher may take to clean up.
const GRACE: Duration = Duration::from_secs(3);
