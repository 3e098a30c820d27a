//! What stays the same for as long as the launcher runs.

use std::env;
use std::path::Path;

use consort::Engine;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::data_plane::{BACKEND, FAKE};
use super::environment::Surroundings;
use super::error::RunError;
use super::guard::Guard;
use super::metrics::{self, Tally};
use super::notice::notice;
use super::placement::Placement;
use super::records::Records;
use super::settings::Settings;
use crate::files;

/// This host's part of a job.
#[derive(Debug)]
pub(crate) struct Job {
    /// What the user asked for.
    pub(crate) settings: Settings,
    /// Who cleans up when the launcher is killed.
    pub(crate) guard: Guard,
    /// This host's name, for reports.
    pub(crate) host: String,
    /// How many files a process may open, as it was before the launcher allowed itself more.
    pub(crate) files: Option<u64>,
    /// Where the ranks leave a record of what they do.
    pub(crate) records: Records,
    /// Whether ranks use MPI, which this launcher has to serve.
    pub(crate) is_for_mpi: bool,
    /// How it goes, for those who ask.
    pub(crate) tally: Tally,
    cores: u32,
}

impl Job {
    /// Prepares everything that ranks need before the first of them starts.
    pub(crate) fn prepare(settings: Settings, cores: u32) -> Result<Self, RunError> {
        let guard = Guard::start()
            .map_err(|error| RunError::System { doing: "start the guard process", error })?;
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let files_before = raise_limit_of_files();
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let inherited = env::var(BACKEND).ok();
        let engine = settings.data_plane.engine(inherited.as_deref());
        let is_for_mpi = engine == Engine::Mpi;
        let most = files::most_ranks_of_launcher(limit, is_for_mpi);
        if u64::from(settings.local_world) > most {
            return Err(RunError::TooManyRanks { ranks: settings.local_world, most });
        }
        if engine == Engine::Fake {
            notice(format_args!("the backend is fake: {FAKE}"));
        }
        let (records, tally) = (Records::default(), Tally::default());
        tally.note(|facts| facts.host.clone_from(&host));
        if let Some(at) = settings.metrics {
            let address = metrics::serve(at, &tally)?;
            notice(format_args!("metrics are at http://{address}/metrics"));
        }
        Ok(Self { settings, guard, host, files: files_before, records, is_for_mpi, tally, cores })
    }

    /// Takes note of a round that begins.
    pub(crate) fn note_round(&self, place: &Placement) {
        self.tally.note(|facts| {
            facts.job.clone_from(&place.job);
            facts.folder = self.records.path().map(Path::to_owned);
            (facts.round, facts.restarts) = (place.epoch, place.restarts);
            (facts.world, facts.ranks) = (place.world, place.local_world);
        });
    }

    /// What a rank's environment is made from, beside its placement.
    pub(crate) fn surroundings<'a>(&'a self, error_file: Option<&'a Path>) -> Surroundings<'a> {
        let (settings, trace_dir) = (&self.settings, self.records.path());
        Surroundings { settings, error_file, trace_dir, cores: self.cores }
    }
}

/// The launcher needs some files for each rank; the usual limit is lower than it has to be. Ranks get it back as it was: some programs close every file
/// up to the limit. Gives the limit as it was.
fn raise_limit_of_files() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // If it may not be raised, fewer ranks fit, and the error says so when the time comes.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    current
}
