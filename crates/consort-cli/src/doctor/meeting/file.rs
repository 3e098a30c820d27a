//! A meeting through a file.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use consort_store::{Deadline, Error, FileStore, Store};

use crate::doctor::finding::{Area, Finding};

/// What was seen at a path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FileVisit {
    /// What is there already.
    already: Already,
    /// Whether a store in a file beside it works.
    tried: Result<(), String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Already {
    Nothing,
    File,
    Folder,
    /// A device, a pipe or a socket.
    Other,
}

impl FileVisit {
    /// Tries with a file of our own in the same folder: the place itself may be in use.
    pub(super) fn pay(path: &Path) -> Self {
        let already = match fs::metadata(path) {
            Ok(about) if about.is_dir() => Already::Folder,
            Ok(about) if about.is_file() => Already::File,
            Ok(_) => Already::Other,
            Err(_) => Already::Nothing,
        };
        Self { already, tried: try_store(&beside(path)).map_err(reason) }
    }
}

/// Judges a visit.
pub(super) fn check(path: &Path, visit: &FileVisit) -> Finding {
    let place = path.display();
    if visit.already == Already::Folder {
        let what = format!("{place} is a folder");
        return Finding::bad(
            Area::Meeting,
            what,
            "give the name of a file in it that does not exist",
        );
    }
    if visit.already == Already::Other {
        let what = format!("{place} is no regular file, which jobs could meet in");
        return Finding::bad(Area::Meeting, what, "give the name of a file that does not exist");
    }
    if let Err(error) = &visit.tried {
        let what = format!("jobs cannot meet at {place}: {error}");
        let todo = "give a path in a folder that every host has mounted and this user can write";
        return Finding::bad(Area::Meeting, what, todo);
    }
    if visit.already == Already::File {
        let what = format!("{place} exists; its folder can be written and locked");
        let todo = "a job uses it, or ended without cleaning up: give each job a path of its own";
        return Finding::warning(Area::Meeting, what, todo);
    }
    let what =
        format!("jobs of this host can meet at {place}: its folder can be written and locked");
    let todo = "hosts can, if all have it mounted, with locks between hosts: run this on each";
    Finding::note(Area::Meeting, what, todo)
}

fn try_store(path: &Path) -> Result<(), Error> {
    let store = FileStore::open_with(path, LIMIT)?;
    let other = FileStore::open_with(path, LIMIT)?;
    store.set("doctor", b"was here")?;
    other.get("doctor", Deadline::after(LIMIT)).map(drop)
}

/// Without the name of our own file, which nobody has asked about.
fn reason(error: Error) -> String {
    match error {
        Error::File { reason, .. } => reason,
        other => other.to_string(),
    }
}

fn beside(path: &Path) -> PathBuf {
    path.with_file_name(format!(".consort-doctor-{}", std::process::id()))
}

const LIMIT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Verdict;

    fn judge(path: &Path) -> Finding {
        check(path, &FileVisit::pay(path))
    }

    #[test]
    fn a_new_file_in_a_good_folder_is_fine_and_nothing_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let finding = judge(&folder.path().join("meet"));
        assert_eq!(finding.verdict, Verdict::Note, "{finding:?}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_that_exists_is_a_warning_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("meet");
        fs::write(&path, "something").unwrap();
        assert_eq!(judge(&path).verdict, Verdict::Warning);
        assert_eq!(fs::read_to_string(&path).unwrap(), "something");
    }

    #[test]
    fn what_is_no_regular_file_is_bad() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("meet");
        let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
        for path in [&path, Path::new("/dev/null")] {
            let finding = judge(path);
            assert_eq!(finding.verdict, Verdict::Bad, "{finding:?}");
            assert!(finding.what.contains("no regular file"), "{finding:?}");
        }
    }

    #[test]
    fn a_folder_or_a_place_in_none_is_bad() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(judge(folder.path()).verdict, Verdict::Bad);
        let nowhere = judge(&folder.path().join("nowhere/meet"));
        assert_eq!(nowhere.verdict, Verdict::Bad);
        assert!(nowhere.what.contains("nowhere/meet"), "{}", nowhere.what);
        assert!(!nowhere.what.contains(".consort-doctor"), "{}", nowhere.what);
    }
}
