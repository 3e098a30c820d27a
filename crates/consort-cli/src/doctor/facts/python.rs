//! Python and PyTorch, for those who use them.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// What `python3` on the path is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Python {
    /// There is none, or it does not start.
    Absent,
    /// It did not answer in time.
    Silent { limit: Duration },
    /// It told its version, and PyTorch's if it has it.
    Found { version: String, torch: Option<String> },
}

impl Python {
    pub(super) fn gather() -> Self {
        Self::ask("python3", LIMIT)
    }

    fn ask(program: &str, limit: Duration) -> Self {
        let child = Command::new(program)
            .args(["-c", QUESTION])
            // A file in the current folder must not be taken for one of Python's own.
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        let Ok(mut child) = child else {
            return Self::Absent;
        };
        let end = Instant::now() + limit;
        while let Ok(None) = child.try_wait() {
            if Instant::now() >= end {
                end_all(&mut child);
                return Self::Silent { limit };
            }
            std::thread::sleep(PAUSE);
        }
        let mut said = String::new();
        let read = child.stdout.take().map(|out| out.take(MOST).read_to_string(&mut said));
        match read {
            Some(Ok(_)) => Self::parse(&said),
            _ => Self::Absent,
        }
    }

    /// `3.11.2 2.8.0`, or one word without PyTorch.
    fn parse(said: &str) -> Self {
        let mut words = said.split_whitespace().map(str::to_owned);
        match words.next() {
            Some(version) => Self::Found { version, torch: words.next() },
            None => Self::Absent,
        }
    }
}

/// Ends the program and what it may have started: `python3` is sometimes a script that looks for one.
fn end_all(child: &mut Child) {
    // They may have ended in this moment; then there is nothing to kill.
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    let _ = child.wait();
}

/// Asks the package list: importing PyTorch would take seconds.
const QUESTION: &str = "
import sys, importlib.metadata
try:
    torch = importlib.metadata.version('torch')
except Exception:
    torch = ''
print(sys.version.split()[0], torch)
";
const LIMIT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(10);
const MOST: u64 = 4096;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn an_answer_is_one_or_two_words() {
        let found = |version: &str, torch: Option<&str>| Python::Found {
            version: version.into(),
            torch: torch.map(Into::into),
        };
        assert_eq!(Python::parse("3.11.2 2.8.0+cpu\n"), found("3.11.2", Some("2.8.0+cpu")));
        assert_eq!(Python::parse("3.11.2 \n"), found("3.11.2", None));
        assert_eq!(Python::parse(""), Python::Absent);
    }

    #[test]
    fn a_program_that_is_not_there_is_absent() {
        assert_eq!(Python::ask("/nowhere/python3", LIMIT), Python::Absent);
    }

    #[test]
    fn one_that_does_not_answer_is_ended_with_all_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let (program, note) = (folder.path().join("python3"), folder.path().join("started"));
        let script = format!("#!/bin/sh\nsleep 600 &\necho $! > {}\nwait\n", note.display());
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();

        let limit = Duration::from_secs(2);
        assert_eq!(Python::ask(program.to_str().unwrap(), limit), Python::Silent { limit });
        let started = fs::read_to_string(&note).unwrap();
        let status = format!("/proc/{}/stat", started.trim());
        let runs = || fs::read_to_string(&status).is_ok_and(|stat| !stat.contains(") Z "));
        let end = Instant::now() + Duration::from_secs(20);
        while runs() {
            assert!(Instant::now() < end, "process {started} was left behind");
            std::thread::sleep(PAUSE);
        }
    }
}
