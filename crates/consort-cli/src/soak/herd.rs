//! The ranks, as processes.

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use consort::Transport;
use consort_store::{Dial, PrefixStore, Secret, Server, Store, TcpStore};

use super::rank::{self, Seat, Word};

/// The ranks, and the store in which they meet.
pub(super) struct Herd {
    server: Server,
    secret: Secret,
    transport: Transport,
    alive: Vec<Member>,
    says: Sender<Said>,
    said: Receiver<Said>,
    killed: u32,
    came: u32,
    right: u64,
    smaller: u64,
    larger: u64,
    /// When somebody had a result last.
    last: Instant,
}

/// Something that a rank has said, which is known by the number of its process.
type Said = (u32, Word);

struct Member {
    process: Child,
    /// Whether it has met the others.
    has_met: bool,
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl fmt::Display for Herd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { killed, came, right, smaller, larger, .. } = self;
        let alive = self.alive.len();
        write!(
            f,
            "{alive} ranks are alive, {killed} were killed, {came} came; {right} results were right, \
             groups became smaller {smaller} times and larger {larger} times, as their ranks count"
        )
    }
}

impl Herd {
    /// The first ranks.
    pub(super) fn start(ranks: u32, transport: Transport) -> Result<Self, String> {
        let secret = Secret::generate().map_err(|error| error.to_string())?;
        let server = Server::start((Ipv4Addr::LOCALHOST, 0).into(), &secret);
        let server = server.map_err(|error| format!("cannot hold a store: {error}"))?;
        let (says, said) = mpsc::channel();
        let mut herd = Self {
            server,
            secret,
            transport,
            alive: Vec::new(),
            says,
            said,
            killed: 0,
            came: 0,
            right: 0,
            smaller: 0,
            larger: 0,
            last: Instant::now(),
        };
        (0..ranks).try_for_each(|rank| herd.spawn(Some((rank, ranks))))?;
        Ok(herd)
    }

    /// Another one comes.
    pub(super) fn add(&mut self) -> Result<(), String> {
        self.came += 1;
        self.spawn(None)
    }

    /// How many are alive.
    pub(super) fn alive(&self) -> u32 {
        self.alive.len() as u32
    }

    /// One of those who are alive is killed: this one, or the next whom another survives that has met
    /// the others. Those who wait to join need somebody who takes them in.
    pub(super) fn kill(&mut self, which: u32) -> Result<(), String> {
        let count = self.alive.len();
        let is_survived = |at: &usize| {
            let mut others = (0..count).filter(|other| other != at);
            others.any(|other| self.alive[other].has_met)
        };
        let from_there_on = (0..count).map(|step| (which as usize + step) % count);
        let Some(at) = from_there_on.into_iter().find(is_survived) else { return Ok(()) };
        let mut victim = self.alive.remove(at);
        victim.process.kill().map_err(|error| format!("a rank cannot be killed: {error}"))?;
        self.killed += 1;
        Ok(())
    }

    /// Hears what the ranks say for a while.
    pub(super) fn watch(&mut self, pause: Duration) -> Result<(), String> {
        let until = Instant::now() + pause;
        loop {
            let rest = until.saturating_duration_since(Instant::now());
            match self.said.recv_timeout(rest) {
                Ok((process, word)) => self.hear(process, word)?,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        if self.last.elapsed() > LONGEST {
            return Err(format!("nobody has had a result for {:.0?}; {self}", self.last.elapsed()));
        }
        Ok(())
    }

    /// Tells them that it is enough, and waits until all have ended who have met.
    pub(super) fn end(mut self) -> Result<String, String> {
        let dial = Dial::new(self.server.address().to_string(), &self.secret);
        let store = TcpStore::dial(dial, consort::Deadline::after(LONGEST));
        let store = store.map_err(|error| format!("the store is gone: {error}"))?;
        let stopped = PrefixStore::new(rank::PROGRAM, store).set(rank::STOP, b"");
        stopped.map_err(|error| format!("the store is gone: {error}"))?;
        let until = Instant::now() + LONGEST;
        let summary = self.to_string();
        while self.alive.iter().any(|member| member.has_met) {
            self.watch(Duration::from_millis(50))?;
            if Instant::now() > until {
                return Err(format!("not all have ended after {LONGEST:.0?}; {self}"));
            }
        }
        Ok(summary)
    }

    fn hear(&mut self, process: u32, word: Word) -> Result<(), String> {
        let place = self.alive.iter().position(|member| member.process.id() == process);
        match word {
            Word::Met => {
                if let Some(place) = place {
                    self.alive[place].has_met = true;
                }
            }
            Word::Right(results) => {
                self.right += results;
                self.last = Instant::now();
            }
            Word::Smaller => self.smaller += 1,
            Word::Larger => self.larger += 1,
            Word::Done => {
                if let Some(place) = place {
                    self.alive.remove(place);
                }
            }
            // One that was killed could not help it.
            Word::Failed(reason) if place.is_some() => {
                return Err(format!("process {process}: {reason}; {self}"));
            }
            Word::Failed(_) => {}
        }
        Ok(())
    }

    fn spawn(&mut self, rank: Option<(u32, u32)>) -> Result<(), String> {
        let cannot = |error: std::io::Error| format!("a rank cannot be started: {error}");
        let this = std::env::current_exe().map_err(cannot)?;
        let mut process = Command::new(this)
            .arg(rank::COMMAND)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(cannot)?;
        let seat = Seat {
            place: format!("tcp://{}", self.server.address()),
            secret: self.secret.to_hex(),
            transport: self.transport.to_string(),
            rank,
        };
        let mut line = serde_json::to_string(&seat).map_err(|error| error.to_string())?;
        line.push('\n');
        // It ends when its standard input does.
        let stdin = process.stdin.as_mut();
        stdin.expect("it is a pipe").write_all(line.as_bytes()).map_err(cannot)?;
        let (number, words) = (process.id(), self.says.clone());
        let lines = BufReader::new(process.stdout.take().expect("it is a pipe")).lines();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let word = serde_json::from_str(&line).unwrap_or(Word::Failed(line));
                if words.send((number, word)).is_err() {
                    return;
                }
            }
            let _ = words.send((number, Word::Failed("it has ended by itself".to_owned())));
        });
        self.alive.push(Member { process, has_met: false });
        Ok(())
    }
}

/// After so long without a result it has failed.
const LONGEST: Duration = Duration::from_secs(60);
