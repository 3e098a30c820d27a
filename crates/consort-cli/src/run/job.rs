//! What stays the same for as long as the launcher runs.

use std::path::Path;

use super::environment::Surroundings;
use super::error::RunError;
use super::guard::Guard;
use super::settings::Settings;

/// This host's part of a job.
#[derive(Debug)]
pub(crate) struct Job {
    /// What the user asked for.
    pub(crate) settings: Settings,
    /// Who cleans up when the launcher is killed.
    pub(crate) guard: Guard,
    /// This host's name, for reports.
    pub(crate) host: String,
    cores: u32,
}

impl Job {
    /// Prepares everything that ranks need before the first of them starts.
    pub(crate) fn prepare(settings: Settings, cores: u32) -> Result<Self, RunError> {
        let guard = Guard::start()
            .map_err(|error| RunError::System { doing: "start the guard process", error })?;
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Ok(Self { settings, guard, host, cores })
    }

    /// What a rank's environment is made from, beside its placement.
    pub(crate) fn surroundings<'a>(&'a self, error_file: Option<&'a Path>) -> Surroundings<'a> {
        Surroundings { settings: &self.settings, error_file, cores: self.cores }
    }
}
