//! What the launcher itself knows of its job.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// How a job goes, as seen from this host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The job's name; empty until it has one.
    pub(crate) job: String,
    /// This host's.
    pub(crate) host: String,
    /// Where its ranks leave their records, if they do.
    pub(crate) folder: Option<PathBuf>,
    /// The round.
    pub(crate) round: u64,
    /// How often all ranks were started again after a failure.
    pub(crate) restarts: u32,
    /// How many ranks the job has.
    pub(crate) world: u32,
    /// How many of them are on this host.
    pub(crate) ranks: u32,
    /// How many of those run.
    pub(crate) alive: u32,
    /// How many ranks of this host have failed by themselves, in all rounds.
    pub(crate) failures: u64,
    /// How many of those failures were tolerated.
    pub(crate) tolerated: u64,
}

/// The facts, for the launcher who notes them and for those who are asked. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally(Arc<Mutex<Facts>>);

impl Tally {
    /// Notes something.
    pub(crate) fn note(&self, change: impl FnOnce(&mut Facts)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// How it goes now.
    pub(super) fn facts(&self) -> Facts {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
