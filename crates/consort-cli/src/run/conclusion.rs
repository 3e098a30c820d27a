//! What the launcher says between rounds and at the end, and the exit code it ends with.

use std::process::ExitCode;

use consort_store::{Cause, Ending, Round};

use super::event::Inbox;
use super::job::Job;
use super::notice::{last_words, notice, report};
use super::report::Failure;
use super::status::exit_code_of_signal;

/// How the job ended for this launcher.
#[derive(Debug)]
pub(crate) enum End {
    /// As it did for all; and the failure of a rank of this host, if one failed.
    Over(Ending, Option<Box<Failure>>),
    /// A signal asked this launcher to end.
    Interrupted(i32),
}

impl End {
    /// Whether all ranks have ended well.
    pub(crate) fn is_good(&self) -> bool {
        matches!(self, Self::Over(Ending::Finished, _))
    }

    /// Says what the user has to know, and gives the launcher's exit code.
    pub(crate) fn conclude(self, inbox: &mut Inbox) -> ExitCode {
        match self {
            Self::Interrupted(signal) => interrupted(signal),
            Self::Over(Ending::Finished, _) => ExitCode::SUCCESS,
            Self::Over(Ending::Failed(account), own) => {
                failed(&account, own.map(|own| *own), inbox)
            }
            Self::Over(Ending::TooFew(cause), _) => {
                last_words(format_args!("{cause}, and too few hosts are left to go on"), inbox);
                ExitCode::FAILURE
            }
            Self::Over(Ending::Closed { node, reason }, _) => {
                let holder = format_args!("{node}, which holds the meeting");
                last_words(format_args!("{holder}, has ended the job: {reason}"), inbox);
                ExitCode::FAILURE
            }
        }
    }
}

/// The exit code after a signal.
pub(crate) fn interrupted(signal: i32) -> ExitCode {
    ExitCode::from(exit_code_of_signal(signal))
}

/// Says why the ranks start again.
pub(crate) fn say_next_round(cause: &Cause, own: Option<&Failure>, round: &Round, job: &Job) {
    let here = round.nodes[round.place].to_string();
    match (cause, own) {
        // Another host's rank may have gone first, and this one's because of it.
        (Cause::Failed { node }, Some(Failure { rank, status, .. })) if *node == here => {
            let (count, most) = (round.restarts + 1, job.settings.max_restarts);
            let again = format_args!("starting again ({count} of {most})");
            notice(format_args!("rank {rank} failed: {status}; {again}"));
        }
        _ => notice(format_args!("{cause}; starting again")),
    }
}

/// Reports the failure that all hosts know of. This host's own account says more if it is of the
/// same failure: what became of its other ranks. Another one came later, and is only mentioned.
fn failed(account: &[u8], own: Option<Failure>, inbox: &mut Inbox) -> ExitCode {
    let first = match (serde_json::from_slice::<Failure>(account).ok(), own) {
        (Some(told), Some(own)) if told.rank != own.rank => {
            report(&told, inbox);
            let Failure { rank, status, .. } = own;
            last_words(format_args!("rank {rank} of this host failed after it: {status}"), inbox);
            return ExitCode::from(told.status.exit_code());
        }
        (told, own) => own.or(told),
    };
    match first {
        Some(failure) => {
            report(&failure, inbox);
            ExitCode::from(failure.status.exit_code())
        }
        None => {
            let why = "a rank failed on another host, whose account cannot be read here";
            last_words(why, inbox);
            ExitCode::FAILURE
        }
    }
}
