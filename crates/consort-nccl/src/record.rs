//! Which meeting leaves records of its calls in the folder for them, `CONSORT_TRACE_DIR`.
//!
//! A record is called after its rank's number, so two meetings of a process would write over each other's. One
//! leaves records there, with all ranks that it has in this process; the others have them in memory. Whose turn it is
//! is decided under a lock, when the first of a meeting's ranks comes, as the others come at the same time, on other
//! threads.
//!
//! **Somebody else's.** The program may have a consort of its own, whose group comes to its devices by this library and
//! leaves a record for itself. That is another copy of the same code in the same process, with variables of its own,
//! so no variable here tells of it. But the files that a process has open do.

use std::any::Any;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};

use crate::lock;

/// What was decided for a meeting, for as long as this process has a rank in it.
#[derive(Debug)]
pub(crate) struct Record {
    meeting: [u8; 16],
    is_in_folder: bool,
}

impl Record {
    /// That of a meeting: the same for all of its ranks.
    pub(crate) fn of(meeting: [u8; 16]) -> Arc<Self> {
        let mut decided = lock(&DECIDED);
        let all: Vec<Arc<Self>> = decided.iter().filter_map(Weak::upgrade).collect();
        if let Some(known) = all.iter().find(|record| record.meeting == meeting) {
            return known.clone();
        }
        let is_taken = all.iter().any(|record| record.is_in_folder) || is_left_by_another();
        let record = Arc::new(Self { meeting, is_in_folder: !is_taken });
        *decided = all.iter().chain([&record]).map(Arc::downgrade).collect();
        record
    }

    /// Whether its ranks may leave theirs in the folder.
    pub(crate) fn is_in_folder(&self) -> bool {
        self.is_in_folder
    }
}

/// Whether this process has a record open in the folder.
fn is_left_by_another() -> bool {
    let folder = std::env::var_os("CONSORT_TRACE_DIR").and_then(|it| fs::canonicalize(it).ok());
    let (Some(folder), Ok(open)) = (folder, fs::read_dir("/proc/self/fd")) else { return false };
    let files = open.flatten().filter_map(|it| fs::read_link(it.path()).ok());
    has_record(&folder, files)
}

/// Whether there is a record in the folder among some files, which may be a program's log as well.
fn has_record(folder: &Path, mut files: impl Iterator<Item = PathBuf>) -> bool {
    files.any(|file| file.parent() == Some(folder) && file.file_name().is_some_and(is_of_rank))
}

fn is_of_rank(name: &OsStr) -> bool {
    let rank = name.to_str().and_then(|name| name.strip_prefix("rank-"));
    rank.is_some_and(|rank| rank.parse::<u32>().is_ok())
}

/// Keeps what was decided as it is until what it gives is dropped: see [`fork`](crate::fork).
pub(crate) fn hold_all() -> Box<dyn Any> {
    Box::new(lock(&DECIDED))
}

/// For meetings that this process has ranks in.
static DECIDED: Mutex<Vec<Weak<Record>>> = Mutex::new(Vec::new());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_meeting_at_a_time_leaves_records_with_all_of_its_ranks() {
        let [first, second, third] = [[1; 16], [2; 16], [3; 16]];
        let ranks = [first, first].map(Record::of);
        let others = [second, second].map(Record::of);
        assert!(ranks.iter().all(|record| record.is_in_folder()));
        assert!(!others.iter().any(|record| record.is_in_folder()));
        let [left, last] = ranks;
        drop(left);
        assert!(!Record::of(third).is_in_folder(), "a rank of the first is still there");
        drop(last);
        assert!(!Record::of(second).is_in_folder(), "it was decided when its first rank came");
        assert!(Record::of(third).is_in_folder());
    }

    #[test]
    fn records_are_told_from_other_files_in_their_folder() {
        let has = |file: &str| has_record(Path::new("/records"), [file.into()].into_iter());
        for file in ["/records/rank-0", "/records/rank-12"] {
            assert!(has(file), "{file}");
        }
        for file in ["/records/rank-0.log", "/records/log", "/records/rank-", "/logs/rank-0", "/"] {
            assert!(!has(file), "{file}");
        }
    }
}
