//! How a process ended, in words.

use std::fmt;

use rustix::process::WaitIdStatus;
use serde::{Deserialize, Serialize};

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Status {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal.
    Killed(i32),
    /// By us, after it had called `MPI_Abort` with this code.
    Aborted(i32),
    /// With exit code 0, but out of an MPI that the other ranks are still in.
    LeftMpi,
    /// By us: it was in `MPI_Init`, which waits for this rank, and that one had ended.
    Forlorn(u32),
}

impl Status {
    /// Whether all was well.
    pub(crate) fn is_success(self) -> bool {
        self == Self::Exited(0)
    }

    /// The exit code that stands for it, as shells count.
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Self::Exited(code) => u8::try_from(code).unwrap_or(1),
            Self::Killed(signal) => exit_code_of_signal(signal),
            // It is a failure, whatever the code.
            Self::Aborted(code) => u8::try_from(code).ok().filter(|code| *code > 0).unwrap_or(1),
            Self::LeftMpi | Self::Forlorn(_) => 1,
        }
    }
}

impl From<WaitIdStatus> for Status {
    fn from(status: WaitIdStatus) -> Self {
        match status.terminating_signal() {
            Some(signal) => Self::Killed(signal),
            None => Self::Exited(status.exit_status().unwrap_or(1)),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Exited(code) => {
                write!(f, "exit code {code}")?;
                match code_in_words(code) {
                    Some(words) => write!(f, " ({words})"),
                    None => Ok(()),
                }
            }
            Self::Killed(signal) => {
                write!(f, "killed by {}", signal_name(signal))?;
                match signal_in_words(signal) {
                    Some(words) => write!(f, " ({words})"),
                    None => Ok(()),
                }
            }
            Self::Aborted(code) => write!(f, "it called MPI_Abort with code {code}"),
            Self::LeftMpi => f.write_str("it left MPI without MPI_Finalize, with exit code 0"),
            Self::Forlorn(rank) => {
                write!(f, "it was in MPI_Init, and rank {rank} had ended before it came there")
            }
        }
    }
}

/// The exit code of a process that a signal ended.
pub(crate) fn exit_code_of_signal(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(1)
}

/// `SIGTERM` for 15.
pub(crate) fn signal_name(signal: i32) -> String {
    match signal_hook::low_level::signal_name(signal) {
        Some(name) => name.to_owned(),
        None => format!("signal {signal}"),
    }
}

fn code_in_words(code: i32) -> Option<String> {
    match code {
        126 => Some("the program could not be run".to_owned()),
        127 => Some("the program, or a library that it needs, was not found".to_owned()),
        129..=192 => {
            let name = signal_hook::low_level::signal_name(code - 128)?;
            Some(format!("what a shell reports when its command was killed by {name}"))
        }
        _ => None,
    }
}

fn signal_in_words(signal: i32) -> Option<&'static str> {
    use signal_hook::consts::*;
    Some(match signal {
        SIGABRT => "the program gave up, as after a failed assertion",
        SIGBUS => "bus error; often a full /dev/shm or a file that became shorter",
        SIGFPE => "arithmetic error, as a division by zero",
        SIGILL => "illegal instruction; was it built for another processor?",
        SIGINT => "interrupted",
        SIGKILL => "killed from outside; often by the kernel when memory runs out",
        SIGPIPE => "wrote to a pipe that nobody reads",
        SIGSEGV => "segmentation fault",
        SIGSYS => "a system call that is not permitted here",
        SIGTERM => "asked to end from outside",
        SIGXCPU => "used up its processor time limit",
        SIGXFSZ => "wrote beyond its file size limit",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_read_as_words() {
        assert_eq!(Status::Exited(7).to_string(), "exit code 7");
        assert_eq!(
            Status::Exited(127).to_string(),
            "exit code 127 (the program, or a library that it needs, was not found)"
        );
        assert_eq!(Status::Killed(11).to_string(), "killed by SIGSEGV (segmentation fault)");
        assert!(Status::Exited(139).to_string().ends_with("killed by SIGSEGV)"));
        assert_eq!(Status::Killed(40).to_string(), "killed by signal 40");
    }

    #[test]
    fn exit_codes_are_the_ranks_own() {
        assert_eq!(Status::Exited(7).exit_code(), 7);
        assert_eq!(Status::Killed(9).exit_code(), 137);
        assert!(Status::Exited(0).is_success());
        assert!(!Status::Killed(15).is_success());
        for (code, expected) in [(42, 42), (0, 1), (-1, 1), (256, 1)] {
            assert_eq!(Status::Aborted(code).exit_code(), expected);
        }
        assert_eq!(Status::LeftMpi.exit_code(), 1);
    }
}
