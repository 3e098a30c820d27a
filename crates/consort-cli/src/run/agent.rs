//! A job on this host alone: attempts, one after the other, until one goes well or none is left.

use std::io;
use std::net::Ipv4Addr;
use std::process::ExitCode;

use super::attempt::{AttemptOutcome, run_attempt};
use super::error::RunError;
use super::event::Inbox;
use super::job::Job;
use super::notice::{notice, report};
use super::placement::Placement;
use super::port::ReservedPort;
use super::report::Failure;
use super::signals;
use super::status::exit_code_of_signal;

/// Runs the job. Ranks live and die with the calling thread, which has to be the main one.
pub(crate) fn run(job: &Job) -> Result<ExitCode, RunError> {
    if let Some(meeting) = &job.settings.meeting {
        return Err(RunError::Meeting { url: meeting.url.clone() });
    }
    let mut inbox = Inbox::new();
    signals::watch(inbox.sender())
        .map_err(|error| RunError::System { doing: "watch for signals", error })?;
    let name = new_job_name()?;
    let most = job.settings.max_restarts;
    let mut restarts = 0;
    loop {
        let port = ReservedPort::on(Ipv4Addr::LOCALHOST.into())
            .map_err(|error| RunError::System { doing: "find a free port", error })?;
        let place = Placement::one_host(&name, restarts, job.settings.local_world, port.port());
        let failure = match run_attempt(job, &place, &mut inbox)? {
            AttemptOutcome::AllDone => return Ok(ExitCode::SUCCESS),
            AttemptOutcome::Interrupted(signal) => {
                return Ok(ExitCode::from(exit_code_of_signal(signal)));
            }
            AttemptOutcome::Failed(failure) => failure,
        };
        if restarts == most || inbox.take_signal().is_some_and(signals::asks_to_end) {
            report(&failure);
            return Ok(ExitCode::from(failure.status.exit_code()));
        }
        restarts += 1;
        say_restart(&failure, restarts, most);
    }
}

fn say_restart(failure: &Failure, restarts: u32, most: u32) {
    let Failure { rank, status, .. } = failure;
    notice(format_args!("rank {rank} failed: {status}; starting again ({restarts} of {most})"));
}

/// A name that no other job has: it names log directories and keeps store keys apart.
fn new_job_name() -> Result<String, RunError> {
    let number = getrandom::u64().map_err(|error| RunError::System {
        doing: "name the job",
        error: io::Error::other(error),
    })?;
    Ok(format!("{number:016x}"))
}
