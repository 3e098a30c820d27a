//! `consort __rank`: the few steps between a new process and the rank's program.
//!
//! The process asks the kernel to be killed when the launcher dies, reports its beginning to the
//! guard, puts its lifeline away and becomes the program. The kernel watches the *thread* that
//! started the process, so ranks are started from the launcher's main thread, which lives as long
//! as the launcher.

use std::ffi::OsString;
use std::io::{self, ErrorKind, PipeWriter, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, getppid, getrlimit, set_parent_process_death_signal, setrlimit,
};

use super::guard::{self, Guard};

/// What the launcher tells the shim.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The launcher's process number.
    launcher: i32,

    /// Where reports to the guard go.
    guard: PathBuf,

    /// How many files the program may open; the launcher itself may open more.
    #[arg(long)]
    files: Option<u64>,

    /// The rank's program and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// The command that makes a new process a rank of this launcher. The process holds `lifeline`
/// until it ends.
pub(crate) fn command(
    program: &[OsString],
    guard: &Guard,
    files: Option<u64>,
    lifeline: PipeWriter,
) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg("__rank").arg(std::process::id().to_string()).arg(guard.report_path());
    if let Some(files) = files {
        command.arg("--files").arg(files.to_string());
    }
    command.arg("--").args(program).stdin(lifeline);
    command
}

/// Becomes the program; comes back only if that fails.
pub(crate) fn main(args: Args) -> ExitCode {
    let watched = set_parent_process_death_signal(Some(Signal::KILL));
    // The launcher may have died before the kernel was asked.
    if watched.is_err() || getppid() != Pid::from_raw(args.launcher) {
        return ExitCode::from(FAILURE);
    }
    if let Err(error) = guard::report_beginning(&args.guard) {
        return refuse(FAILURE, &format!("cannot tell the launcher's guard of this rank: {error}"));
    }
    // Without a lifeline the rank can still do its work.
    let _lifeline = put_lifeline_away();
    if args.files.is_some() {
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        // It is lowered, which is always allowed.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: args.files, maximum });
    }
    let (program, arguments) = args.command.split_first().expect("clap asks for at least one");
    let error = Command::new(program).args(arguments).stdin(Stdio::null()).exec();
    let (code, why) = match error.kind() {
        ErrorKind::NotFound => {
            (127, "there is no such program, or not the interpreter it asks for".to_owned())
        }
        ErrorKind::PermissionDenied => (126, "it may not be executed; is it a program?".to_owned()),
        _ => (126, error.to_string()),
    };
    refuse(code, &format!("cannot run {}: {why}", program.display()))
}

/// Says why there is no program, in one piece.
fn refuse(code: u8, why: &str) -> ExitCode {
    let _ = io::stderr().write_all(format!("consort: {why}\n").as_bytes());
    ExitCode::from(code)
}

/// The lifeline comes as standard input. The program gets an empty one instead, and the lifeline
/// under a descriptor above its own, so that it is the first thing to be closed at its end.
fn put_lifeline_away() -> io::Result<OwnedFd> {
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX).min(HIGHEST);
    let highest = i32::try_from(most).map_err(io::Error::other)? - 1;
    let lifeline = fcntl_dupfd_cloexec(io::stdin().as_fd(), highest)?;
    fcntl_setfd(&lifeline, FdFlags::empty())?;
    Ok(lifeline)
}

const FAILURE: u8 = 1;

/// Above what most programs open; a higher one would make the kernel's table larger.
const HIGHEST: u64 = 1024;
