//! A process that answers lines with lines, until it is not needed any more.
//!
//! Some launchers put what they start into groups and sessions of their own, so neither a group nor
//! the tree of parents finds all that belongs to a process. A variable in its environment does: it
//! is handed down to everything that is started, and nothing else has it.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use serde::de::DeserializeOwned;

use super::measurer::{Answer, Refusal};

/// A running process with everything it started. Dropping it ends all of it.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    questions: Option<ChildStdin>,
    answers: Receiver<String>,
    complaints: Arc<Mutex<VecDeque<String>>>,
    complaining: JoinHandle<()>,
    mark: String,
}

impl Process {
    /// Starts it. The kernel may watch the calling thread on its behalf, so that has to live as long.
    pub(crate) fn start(name: &str, mut command: Command) -> Result<Self, Refusal> {
        let mark = fresh_mark();
        command.env(MARK, &mark);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let cannot = |error: io::Error| Refusal::Gone(format!("{name}: cannot start: {error}"));
        let mut child = command.spawn().map_err(cannot)?;
        let (sender, answers) = channel();
        let complaints = Arc::default();
        listen(child.stdout.take().expect("it is a pipe"), sender);
        let complaining =
            remember(child.stderr.take().expect("it is a pipe"), Arc::clone(&complaints));
        let questions = child.stdin.take();
        let name = name.to_owned();
        Ok(Self { name, child, questions, answers, complaints, complaining, mark })
    }

    /// Sends a line.
    pub(crate) fn tell(&mut self, line: &str) -> Result<(), Refusal> {
        let pipe = self.questions.as_mut().expect("it is closed by drop alone");
        let sent = pipe.write_all(format!("{line}\n").as_bytes()).and_then(|()| pipe.flush());
        sent.map_err(|_| self.gone())
    }

    /// The next line that is an answer, which has to come within `patience`.
    pub(crate) fn hear<T: DeserializeOwned>(&mut self, patience: Duration) -> Result<T, Refusal> {
        let until = Instant::now() + patience;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.answers.recv_timeout(left) {
                Ok(line) if line.starts_with('{') => return self.read(&line),
                // Libraries greet and warn on the same stream.
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => {
                    let seconds = patience.as_secs();
                    return Err(self.say(&format!("no answer within {seconds} s")));
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.gone()),
            }
        }
    }

    fn read<T: DeserializeOwned>(&self, line: &str) -> Result<T, Refusal> {
        let answer = serde_json::from_str::<Answer<T>>(line);
        let shown: String = line.chars().take(SHOWN).collect();
        answer.map_err(|_| self.say(&format!("does not answer what it was asked: {shown}")))?.into()
    }

    /// It has closed its end: why is in its exit status and its last words.
    fn gone(&mut self) -> Refusal {
        let until = Instant::now() + GRACE;
        let status = wait(&mut self.child, GRACE);
        while !self.complaining.is_finished() && Instant::now() < until {
            thread::sleep(LOOK_AGAIN);
        }
        match status {
            Some(status) => self.say(&format!("ended with {status}")),
            None => self.say("does not listen any more"),
        }
    }

    fn say(&self, what: &str) -> Refusal {
        let complaints = self.complaints.lock().expect("nobody panics while holding it");
        let words = complaints.iter().fold(String::new(), |all, line| format!("{all}\n    {line}"));
        Refusal::Gone(format!("{}: {what}{words}", self.name))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.questions = None;
        if wait(&mut self.child, GRACE).is_none() {
            // A launcher that is asked to end takes its ranks with it.
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
            wait(&mut self.child, GRACE);
        }
        end_all_marked(&self.mark);
        let _ = self.child.wait();
    }
}

fn wait(child: &mut Child, patience: Duration) -> Option<ExitStatus> {
    let until = Instant::now() + patience;
    loop {
        match child.try_wait() {
            Ok(None) if Instant::now() < until => thread::sleep(LOOK_AGAIN),
            ended => return ended.ok().flatten(),
        }
    }
}

fn listen(pipe: impl Read + Send + 'static, to: Sender<String>) {
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if to.send(line).is_err() {
                return;
            }
        }
    });
}

fn remember(
    pipe: impl Read + Send + 'static,
    lines: Arc<Mutex<VecDeque<String>>>,
) -> JoinHandle<()> {
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            let mut lines = lines.lock().expect("nobody panics while holding it");
            if lines.len() == LAST_WORDS {
                lines.pop_front();
            }
            lines.push_back(line);
        }
    })
}

/// Kills whatever is left of a process, until nothing is.
fn end_all_marked(mark: &str) {
    let until = Instant::now() + Duration::from_secs(5);
    while Instant::now() < until {
        let left = kill_marked(&format!("{MARK}={mark}"));
        if left == 0 {
            return;
        }
        thread::sleep(LOOK_AGAIN);
    }
    tracing::warn!(mark, "a process of the benchmark does not end, not even by SIGKILL");
}

/// How many processes had the variable, and have been killed.
fn kill_marked(variable: &str) -> usize {
    let Ok(processes) = fs::read_dir("/proc") else { return 0 };
    let numbers = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.filter_map(Pid::from_raw).filter(|&process| kill_if_marked(process, variable)).count()
}

/// Holds on to the process before it looks: the number may become another's in between.
fn kill_if_marked(process: Pid, variable: &str) -> bool {
    let Ok(handle) = pidfd_open(process, PidfdFlags::empty()) else { return false };
    let path = format!("/proc/{}/environ", process.as_raw_pid());
    let variables = fs::read(path).unwrap_or_default();
    variables.split(|&byte| byte == 0).any(|each| each == variable.as_bytes())
        && pidfd_send_signal(handle, Signal::KILL).is_ok()
}

fn fresh_mark() -> String {
    static COUNT: Mutex<u32> = Mutex::new(0);
    let mut count = COUNT.lock().expect("counting does not panic");
    *count += 1;
    format!("{}-{count}", std::process::id())
}

const MARK: &str = "BENCHED_BY_CONSORT";

/// How long a process may take to end after it was told to. One that is killed instead may leave
/// files of its own in `/dev/shm`.
const GRACE: Duration = Duration::from_secs(4);

const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// How many lines of standard error go with the news of an end.
const LAST_WORDS: usize = 8;

/// How much of a wrong answer is shown.
const SHOWN: usize = 200;

#[cfg(test)]
mod tests;
