//! `consort trace`: what the ranks of a job do, or did last.
//!
//! The files of all ranks are read (`job`), their clocks are laid over each other (`clocks`), and their
//! calls side by side (`circle`). What follows from that is decided by functions that see nothing but
//! records: who is missing or differs (`findings`), who waited for whom (`waits`). Then it is shown
//! (`text`, `json`, `perfetto`).

mod circle;
mod clocks;
mod find;
mod findings;
#[cfg(test)]
pub(crate) mod fixture;
mod job;
mod json;
mod perfetto;
mod text;
mod waits;
mod words;

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

pub(crate) use self::circle::circles;
pub(crate) use self::find::find;
pub(crate) use self::job::JobTrace;
pub(crate) use self::text::doing;
pub(crate) use self::waits::waits;

/// Show what the ranks of a job do, or did last: also of a job that has failed.
///
/// Says of every rank in which call it is, since when and for whom it waits; who is behind; which is
/// the first call in which ranks differ; and how long the others waited for each rank. Ranks are on
/// this host; files of others can be put into one folder with them.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The job's name or how it begins, a folder of records, or one of them. Without it, the jobs
    /// that can be looked at are listed.
    #[arg(value_name = "JOB|FOLDER|FILE")]
    job: Option<String>,

    /// Write all recorded calls to a file that ui.perfetto.dev and chrome://tracing show.
    #[arg(long, value_name = "OUT.json", requires = "job")]
    perfetto: Option<PathBuf>,

    /// Print one JSON object.
    #[arg(long, requires = "job")]
    json: bool,
}

/// Exit code 1 when there is nothing to be seen.
pub(crate) fn main(args: &Args) -> ExitCode {
    let shown = match &args.job {
        None => Ok(text::list(&crate::records::list(&crate::records::base()))),
        Some(job) => {
            find(job).and_then(|path| JobTrace::read(&path)).and_then(|job| show(&job, args))
        }
    };
    let written = shown.and_then(|text| {
        let mut stdout = io::stdout().lock();
        match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            // Whoever closed the pipe has seen enough.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(format!("cannot write: {error}"))
            }
            _ => Ok(()),
        }
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("consort: {why}");
            ExitCode::FAILURE
        }
    }
}

fn show(job: &JobTrace, args: &Args) -> Result<String, String> {
    for complaint in &job.unreadable {
        eprintln!("consort: {complaint}");
    }
    if let Some(path) = &args.perfetto {
        let events = perfetto::write(job);
        fs::write(path, events.to_string())
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(match (args.json, &args.perfetto) {
        (true, _) => format!("{}\n", json::write(job)),
        (false, Some(path)) => {
            format!("wrote {}; open it at ui.perfetto.dev\n", path.display())
        }
        (false, None) => text::write(job),
    })
}

const EXAMPLES: &str = "\
Examples:
  What can be looked at:
      consort trace
  A job that stands still, or has failed:
      consort trace 5f2c
  Its last calls on a time line:
      consort trace 5f2c --perfetto calls.json

Records are kept in memory (/dev/shm), or in the folder that CONSORT_TRACE_DIR names for `consort run`.
Those of a job that went well are removed; of those that failed, the last four stay.";
