//! The guard: a small process that outlives the launcher just long enough to clean up.
//!
//! A launcher that is killed by SIGKILL cannot end its ranks. The kernel ends the ranks themselves
//! (see the shim), but not what they started. So the launcher starts a guard, in a session of its
//! own, that reads lines from a pipe: `+N` when process group N begins, `-N` when it has ended.
//! End of file means that the launcher is gone; every group still on the list is killed.
//!
//! Each rank reports its own beginning, before its program runs: there is no moment in which a
//! program runs and the guard does not know of it.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use super::process_group;

/// The launcher's end. Dropping it lets the guard go.
#[derive(Debug)]
pub(crate) struct Guard {
    process: Child,
    pipe: Option<ChildStdin>,
}

impl Guard {
    /// Starts the guard and waits until it is on its post.
    pub(crate) fn start() -> io::Result<Self> {
        let mut process = Command::new("/proc/self/exe")
            .arg("__guard")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let pipe = process.stdin.take();
        let mut stdout = process.stdout.take().expect("the guard's stdout is a pipe");
        let guard = Self { process, pipe };
        stdout.read_exact(&mut [0; READY.len()])?;
        Ok(guard)
    }

    /// Where a rank reports its beginning.
    pub(crate) fn report_path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.pipe().as_raw_fd()).into()
    }

    /// A group has ended. To be said before its leader is reaped: its number is free afterwards.
    pub(crate) fn forget(&self, group: Pid) {
        if let Err(error) = report(self.pipe(), '-', group) {
            tracing::warn!(%error, "the guard is gone; if this launcher is killed now, what the \
                                    ranks started may stay behind");
        }
    }

    fn pipe(&self) -> &ChildStdin {
        self.pipe.as_ref().expect("the pipe is closed by drop alone")
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.pipe = None;
        let patience = Instant::now() + Duration::from_secs(2);
        while matches!(self.process.try_wait(), Ok(None)) {
            if Instant::now() > patience {
                let _ = self.process.kill();
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Tells the guard behind `path` that this process and its group have begun.
///
/// # Errors
/// When the launcher is about to be gone, and the guard may have looked for the last time. If it
/// is the guard that is gone, nobody can be told, which is no reason to give up the job.
pub(crate) fn report_beginning(path: &Path) -> io::Result<()> {
    // A pipe whose reader is gone would keep us waiting for another one.
    let at_once = OFlags::NONBLOCK.bits().cast_signed();
    let pipe = File::options().write(true).custom_flags(at_once).open(path);
    let told = pipe.and_then(|pipe| report(pipe, '+', rustix::process::getpgrp()));
    let guard_is_gone = |error: &io::Error| {
        let errno = error.raw_os_error().map(Errno::from_raw_os_error);
        matches!(errno, Some(Errno::NXIO | Errno::PIPE))
    };
    told.or_else(|error| if guard_is_gone(&error) { Ok(()) } else { Err(error) })
}

/// One line in one write, so that lines of several processes do not mix.
fn report(mut pipe: impl Write, sign: char, group: Pid) -> io::Result<()> {
    pipe.write_all(format!("{sign}{}\n", group.as_raw_pid()).as_bytes())
}

/// `consort __guard`: the guard itself.
pub(crate) fn main() -> ExitCode {
    // In a session of its own no key and no hang-up of the launcher's terminal reaches it.
    let on_post = rustix::process::setsid().map_err(io::Error::from);
    let told =
        on_post.and_then(|_| io::stdout().write_all(READY).and_then(|()| io::stdout().flush()));
    if told.is_err() {
        return ExitCode::FAILURE;
    }
    for group in left_behind(io::stdin().lock()) {
        process_group::signal(group, Signal::KILL);
    }
    ExitCode::SUCCESS
}

/// Reads reports until they end; who has begun and not ended is left behind.
fn left_behind(reports: impl BufRead) -> HashSet<Pid> {
    let mut groups = HashSet::new();
    for line in reports.lines().map_while(Result::ok) {
        let group = line.get(1..).and_then(|number| Pid::from_raw(number.parse().ok()?));
        match (line.as_bytes().first(), group) {
            (Some(b'+'), Some(group)) => groups.insert(group),
            (Some(b'-'), Some(group)) => groups.remove(&group),
            _ => continue,
        };
    }
    groups
}

const READY: &[u8] = b"ready\n";

#[cfg(test)]
mod tests {
    use super::*;

    fn left(reports: &str) -> Vec<i32> {
        let mut left: Vec<_> =
            left_behind(reports.as_bytes()).into_iter().map(Pid::as_raw_pid).collect();
        left.sort_unstable();
        left
    }

    #[test]
    fn groups_that_did_not_end_are_left_behind() {
        assert_eq!(left("+10\n+11\n-10\n+12\n"), [11, 12]);
        assert!(left("").is_empty());
    }

    #[test]
    fn a_report_cut_short_or_out_of_order_harms_no_other_process() {
        assert_eq!(left("-10\n+11\n+\n+x\n*12\n\n+0\n+é1\n"), [11]);
    }
}
