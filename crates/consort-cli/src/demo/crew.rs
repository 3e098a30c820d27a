//! The processes that learn, and what they and the user have to say, in one queue.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use consort_store::{Secret, Server};

use super::args::Setting;
use super::words::{COMMAND, Meeting, Seat, Task, Word};
use crate::bench::timing::now;
use crate::run::{event, signals};

/// Something that happens while processes learn.
#[derive(Debug)]
pub(crate) enum Event {
    /// A rank says something.
    Said(usize, Word),
    /// A rank's process says nothing more.
    Ended(usize),
    /// The user, or whoever else, sends a signal.
    Signal(i32),
}

/// The queue of events.
#[derive(Debug)]
pub(crate) struct Inbox {
    sender: Sender<Event>,
    receiver: Receiver<Event>,
}

impl Inbox {
    /// An empty one, into which signals to this process go from now on.
    pub(crate) fn new() -> Result<Self, String> {
        let (sender, receiver) = mpsc::channel();
        let (caught, signals) = mpsc::channel();
        signals::watch(caught).map_err(|error| format!("cannot watch for signals: {error}"))?;
        let forward = sender.clone();
        thread::spawn(move || {
            for event in signals {
                if let event::Event::Signal(signal) = event
                    && forward.send(Event::Signal(signal)).is_err()
                {
                    return;
                }
            }
        });
        Ok(Self { sender, receiver })
    }

    /// The next event, if there is one within some time.
    pub(crate) fn next(&self, within: Duration) -> Option<Event> {
        match self.receiver.recv_timeout(within) {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => unreachable!("the inbox itself holds a sender"),
        }
    }
}

/// Processes that learn. Dropping it ends all of them.
#[derive(Debug)]
pub(crate) struct Crew {
    // Before the store in which they have met.
    members: Vec<Member>,
    _meeting: Option<Server>,
}

#[derive(Debug)]
struct Member {
    process: Child,
    complaints: Arc<Mutex<VecDeque<String>>>,
}

impl Crew {
    /// Starts ranks. To be called from the main thread: the kernel ends them with the thread that has
    /// started them.
    ///
    /// # Errors
    /// Why there are none.
    pub(crate) fn ranks(
        setting: Setting,
        task: Task,
        doomed: Option<usize>,
        inbox: &Inbox,
    ) -> Result<Self, String> {
        let secret = Secret::generate().map_err(|error| error.to_string())?;
        let server = Server::start((Ipv4Addr::LOCALHOST, 0).into(), &secret);
        let server = server.map_err(|error| format!("cannot hold a store: {error}"))?;
        let mut crew = Self { members: Vec::new(), _meeting: None };
        for rank in 0..setting.ranks {
            let meeting = Meeting {
                rank: rank as u32,
                world: setting.ranks as u32,
                address: format!("tcp://{}", server.address()),
                secret: secret.to_hex(),
            };
            let seat = Seat {
                asker: std::process::id(),
                task,
                meeting: Some(meeting),
                is_doomed: doomed == Some(rank),
            };
            crew.members.push(start(&seat, rank, setting.threads, inbox)?);
        }
        Ok(Self { _meeting: Some(server), ..crew })
    }

    /// Starts one process that learns alone. From the main thread, too.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn alone(setting: Setting, task: Task, inbox: &Inbox) -> Result<Self, String> {
        let seat = Seat { asker: std::process::id(), task, meeting: None, is_doomed: false };
        let member = start(&seat, 0, setting.threads, inbox)?;
        Ok(Self { members: vec![member], _meeting: None })
    }

    /// Kills a rank, and says when.
    ///
    /// # Errors
    /// When it cannot be killed.
    pub(crate) fn kill(&mut self, rank: usize) -> Result<u64, String> {
        let at = now();
        let killed = self.members[rank].process.kill();
        killed.map_err(|error| format!("rank {rank} cannot be killed: {error}"))?;
        Ok(at)
    }

    /// What a rank's process has written to its standard error last, indented.
    pub(crate) fn last_words(&self, rank: usize) -> String {
        let complaints = &self.members[rank].complaints;
        let lines = complaints.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().fold(String::new(), |all, line| format!("{all}\n    {line}"))
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn start(seat: &Seat, rank: usize, threads: usize, inbox: &Inbox) -> Result<Member, String> {
    let cannot = |error: io::Error| format!("a process cannot be started: {error}");
    let mut process = Command::new("/proc/self/exe")
        .arg(COMMAND)
        .env("RAYON_NUM_THREADS", threads.to_string())
        // Ctrl-C is for the one that shows something; that ends the others.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(cannot)?;
    let words = process.stdout.take().expect("it is a pipe");
    let complaining = process.stderr.take().expect("it is a pipe");
    let mut told = process.stdin.take().expect("it is a pipe");
    let complaints = Arc::default();
    let member = Member { process, complaints: Arc::clone(&complaints) };
    let mut line = serde_json::to_string(seat).map_err(|error| error.to_string())?;
    line.push('\n');
    told.write_all(line.as_bytes()).map_err(cannot)?;
    let complaining = thread::spawn(move || remember(complaining, &complaints));
    let events = inbox.sender.clone();
    thread::spawn(move || {
        for line in BufReader::new(words).lines().map_while(Result::ok) {
            let word = serde_json::from_str(&line).unwrap_or(Word::Failed(line));
            let _ = events.send(Event::Said(rank, word));
        }
        let _ = complaining.join();
        let _ = events.send(Event::Ended(rank));
    });
    Ok(member)
}

fn remember(pipe: impl Read, lines: &Mutex<VecDeque<String>>) {
    for line in BufReader::new(pipe).lines().map_while(Result::ok) {
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == LAST_WORDS {
            lines.pop_front();
        }
        lines.push_back(line);
    }
}

/// How many lines of standard error go with the news of an end.
const LAST_WORDS: usize = 8;
