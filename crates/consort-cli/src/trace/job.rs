//! The records of all ranks of a job.

use std::path::Path;
use std::time::UNIX_EPOCH;

use consort::trace::{RankTrace, read, read_folder};

use super::clocks;

/// What the ranks of a job have recorded, in one round.
#[derive(Clone, Debug)]
pub(crate) struct JobTrace {
    /// In their order; at least one.
    pub(crate) ranks: Vec<RankTrace>,
    /// What is wrong with files that could not be read.
    pub(crate) unreadable: Vec<String>,
    /// When they were read, in nanoseconds since 1970.
    pub(crate) read_at: u64,
}

impl JobTrace {
    /// Reads a folder of records, or one of them.
    ///
    /// # Errors
    /// When there are none that can be read.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let mut unreadable = Vec::new();
        let mut ranks = Vec::new();
        let files = match path.is_dir() {
            true => read_folder(path)
                .map_err(|error| format!("{} cannot be read: {error}", path.display()))?,
            false => vec![(path.to_owned(), read(path))],
        };
        for (path, trace) in files {
            match trace {
                Ok(trace) => ranks.push(trace),
                Err(error) => unreadable.push(format!("{}: {error}", path.display())),
            }
        }
        let read_at = UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos() as u64;
        match Self::of(ranks, read_at) {
            Some(job) => Ok(Self { unreadable, ..job }),
            None if unreadable.is_empty() => {
                Err(format!("no rank has left a record in {} yet", path.display()))
            }
            None => Err(unreadable.join("\n")),
        }
    }

    /// Of what was recorded in the last round; `None` if there is nothing.
    pub(crate) fn of(mut ranks: Vec<RankTrace>, read_at: u64) -> Option<Self> {
        // A smaller round than the one before it leaves files of that one.
        let epoch = ranks.iter().map(|rank| rank.epoch).max()?;
        ranks.retain(|rank| rank.epoch == epoch);
        ranks.sort_by_key(|rank| rank.rank);
        clocks::align(&mut ranks);
        Some(Self { ranks, unreadable: Vec::new(), read_at })
    }

    /// The last that is known: now, or when the last of the ranks wrote something.
    pub(crate) fn moment(&self) -> u64 {
        if self.is_running() { self.read_at } else { self.last_word().unwrap_or(self.read_at) }
    }

    /// Whether a rank is alive that has not left.
    pub(crate) fn is_running(&self) -> bool {
        self.ranks.iter().any(|rank| rank.is_alive && !rank.has_left)
    }

    /// When the last call began or ended, if one ever did.
    pub(crate) fn last_word(&self) -> Option<u64> {
        let calls = self.ranks.iter().flat_map(|rank| &rank.groups).flat_map(|group| &group.calls);
        calls.map(|call| call.ended.unwrap_or(call.began)).max()
    }
}
