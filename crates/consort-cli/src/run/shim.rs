//! `consort __rank`: the few steps between a new process and the rank's program.
//!
//! The process asks the kernel to be killed when the launcher dies, reports its beginning to the
//! guard, and becomes the program. The kernel watches the *thread* that started the process, so
//! ranks are started from the launcher's main thread, which lives as long as the launcher.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

use super::guard;

/// What the launcher tells the shim.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The launcher's process number.
    launcher: i32,

    /// The rank's program and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// The command that makes a new process a rank of this launcher.
pub(crate) fn command(program: &[OsString]) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg("__rank").arg(std::process::id().to_string()).arg("--").args(program);
    command
}

/// Becomes the program; comes back only if that fails.
pub(crate) fn main(args: Args) -> ExitCode {
    let launcher = Pid::from_raw(args.launcher);
    let watched = set_parent_process_death_signal(Some(Signal::KILL));
    // The launcher may have died before the kernel was asked.
    if watched.is_err() || getppid() != launcher {
        return ExitCode::FAILURE;
    }
    // Without a guard the rank is still bound to the launcher.
    let _ = report_beginning();
    let (program, arguments) = args.command.split_first().expect("clap asks for at least one");
    let error = Command::new(program).args(arguments).stdin(Stdio::null()).exec();
    let (code, why) = match error.kind() {
        ErrorKind::NotFound => {
            (127, "there is no such program, or not the interpreter it asks for".to_owned())
        }
        ErrorKind::PermissionDenied => (126, "it may not be executed; is it a program?".to_owned()),
        _ => (126, error.to_string()),
    };
    let line = format!("consort: cannot run {}: {why}\n", program.display());
    let _ = io::stderr().write_all(line.as_bytes());
    ExitCode::from(code)
}

/// The launcher lends the guard's pipe as standard input; the program gets an empty one.
fn report_beginning() -> io::Result<()> {
    guard::report_beginning(File::from(io::stdin().as_fd().try_clone_to_owned()?))
}
