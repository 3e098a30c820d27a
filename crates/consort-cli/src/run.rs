//! `consort run`: starts the ranks of any program, watches them and reports the first failure.
//!
//! ```text
//! launcher ── agent: rounds ──── attempt: one start of this host's ranks
//!    │          ├── venue           ├── crew: processes, each in its own group
//!    │                              ├── deaths: who ended, in which order
//!    │                              ├── pmi: what an MPI wants of its launcher
//!    │                              ├── output: lines to the terminal, or files
//!    │                              └── report: the first failure
//!    ├── __guard   kills what is left if the launcher is killed
//!    └── __rank    becomes the program of a rank, dies with the launcher
//! ```
//!
//! The main thread decides; everything that happens reaches it through one queue, the inbox.

mod agent;
mod args;
mod attempt;
mod conclusion;
mod crew;
pub(crate) mod data_plane;
mod deaths;
mod environment;
mod error;
pub(crate) mod event;
mod gathering;
pub(crate) mod guard;
pub(crate) mod inherited;
mod job;
mod metrics;
mod notice;
mod output;
mod placement;
mod pmi;
mod port;
mod process_group;
mod records;
mod report;
mod secret;
mod settings;
pub(crate) mod shim;
pub(crate) mod signals;
mod standby;
pub(crate) mod status;
mod venue;

use std::process::ExitCode;

use consort_sys::topo::Topology;

pub(crate) use args::{Args, meeting_place};
use job::Job;
use notice::notice;
use settings::Settings;

/// Runs a job and gives its exit code.
pub(crate) fn main(args: Args) -> ExitCode {
    let cores = u32::try_from(Topology::here().effective_cores()).unwrap_or(u32::MAX);
    let checked = Settings::from_args(args, cores)
        .and_then(|settings| inherited::check(&settings).map(|()| settings));
    let settings = match checked {
        Ok(settings) => settings,
        Err(wrong) => {
            notice(format_args!("{wrong}\nFor more, try 'consort run --help'."));
            return ExitCode::from(WRONG_USAGE);
        }
    };
    match Job::prepare(settings, cores).and_then(|mut job| agent::run(&mut job)) {
        Ok(code) => code,
        Err(error) => {
            notice(error);
            ExitCode::FAILURE
        }
    }
}

const WRONG_USAGE: u8 = 2;
