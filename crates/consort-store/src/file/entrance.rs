//! Coming and going: who is first finds an empty store, who is last leaves nothing behind.

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::lock::{Flock, LockFile, Mode, fault, take_turn};
use super::log::{Log, may_be_emptied};
use crate::deadline::Deadline;
use crate::error::Result;

/// What an open store consists of.
#[derive(Debug)]
pub(crate) struct Rooms {
    /// The log's file; its lock is the turn.
    pub(crate) data: LockFile,
    /// Locked shared as long as the store is open.
    pub(crate) users: LockFile,
    pub(crate) log: Log,
}

/// Opens the store at `path`, waiting for the turn until `limit`.
pub(crate) fn enter(path: &Path, limit: Deadline, flock: Flock) -> Result<Rooms> {
    let data = take_turn(path, limit, || {
        let Some(data) = open_data(path, flock)? else { return Ok(None) };
        let taken = data.try_lock(Mode::Exclusive).inspect_err(|_| discard_empty(&data))?;
        // Between opening and locking, the last one out may have removed it.
        Ok((taken && data.is_named()?).then_some(data))
    })?;
    data.prove_exclusion().inspect_err(|_| discard_empty(&data))?;
    let rooms = move_in(data, flock)?;
    rooms.data.unlock();
    Ok(rooms)
}

/// With the turn held: removes both files if nobody else is there.
pub(crate) fn leave(data: &LockFile, users: &LockFile) {
    if matches!(users.try_lock(Mode::Exclusive), Ok(true)) && matches!(data.is_named(), Ok(true)) {
        for step in REMOVAL {
            // What cannot be removed is left over, and the next opener knows what to do with it.
            let _ = step(data, users);
        }
    }
}

/// Opens the file by its one true name: by another, its users would not see each other.
fn open_data(path: &Path, flock: Flock) -> Result<Option<LockFile>> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => {
            return Err(fault(path, "it is a directory; give the name of a file in it"));
        }
        Ok(found) if !found.is_file() => {
            return Err(fault(path, "it is not a regular file; give another path"));
        }
        Ok(found) if found.nlink() > 1 => {
            return Err(fault(path, "it has several names (hard links); give another path"));
        }
        _ => {}
    }
    let data = LockFile::open(path, flock)?;
    match fs::canonicalize(path) {
        Ok(name) => Ok(Some(data.named(name))),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(fault(path, format!("cannot tell where it really is: {e}"))),
    }
}

fn move_in(data: LockFile, flock: Flock) -> Result<Rooms> {
    let name = users_path(data.path());
    let used_before = name.exists();
    let users = LockFile::open(&name, flock)?;
    let log = if users.try_lock(Mode::Exclusive)? {
        start_anew(&data, used_before).inspect_err(|_| {
            if !used_before {
                let _ = fs::remove_file(users.path());
            }
        })?
    } else {
        Log::join(data.file()).map_err(|reason| fault(data.path(), reason))?
    };
    if !users.try_lock(Mode::Shared)? {
        return Err(fault(users.path(), "something that is not a store has locked it"));
    }
    Ok(Rooms { data, users, log })
}

/// Nobody is there: what the file holds is left over.
fn start_anew(data: &LockFile, used_before: bool) -> Result<Log> {
    let path = data.path();
    let with_path = |reason| fault(path, reason);
    let length = may_be_emptied(data.file()).map_err(with_path)?;
    if length > 0 && !used_before {
        let users = users_path(path);
        return Err(with_path(format!(
            "it holds a store's data, but {}, which shows who uses it, is gone; if no process \
             uses it any more, delete it",
            users.display()
        )));
    }
    if length > 0 {
        let path = path.display();
        tracing::info!("store file {path}: {length} bytes were left over by a dead job; removed");
    }
    Log::create(data.file()).map_err(with_path).inspect_err(|_| discard_empty(data))
}

/// Takes back the creation of a file that turned out to be of no use.
fn discard_empty(data: &LockFile) {
    if data.file().metadata().is_ok_and(|found| found.len() == 0) {
        let _ = fs::remove_file(data.path());
    }
}

fn users_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".users");
    name.into()
}

/// How both files go. In this order, and emptied first, so that who dies between two steps leaves
/// what an opener takes for a new file.
const REMOVAL: [fn(&LockFile, &LockFile) -> io::Result<()>; 3] = [
    |data, _| data.file().set_len(0),
    |_, users| fs::remove_file(users.path()),
    |data, _| fs::remove_file(data.path()),
];

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::io::Errno;

    use super::*;

    fn names_in(dir: &Path) -> Vec<OsString> {
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn a_file_system_that_does_not_lock_is_refused_and_nothing_is_left_on_it() {
        let flocks: [Flock; 3] =
            [|_, _| Err(Errno::NOLCK), |_, _| Err(Errno::OPNOTSUPP), |_, _| Ok(())];
        for flock in flocks {
            let dir = tempfile::tempdir().unwrap();
            let error = enter(&dir.path().join("store"), Deadline::now(), flock).unwrap_err();
            assert!(error.to_string().contains("tcp://"), "{error}");
            assert_eq!(names_in(dir.path()), [""; 0]);
        }
    }

    #[test]
    fn a_file_system_that_stops_locking_does_not_cost_others_their_data() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        let until = Deadline::after(Duration::from_secs(20));
        let rooms = enter(&path, until, |fd, operation| rustix::fs::flock(fd, operation)).unwrap();
        let before = fs::read(&path).unwrap();
        let error = enter(&path, until, |_, _| Err(Errno::NOLCK)).unwrap_err();
        assert!(error.to_string().contains("cannot lock files"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), before);
        leave(&rooms.data, &rooms.users);
        assert_eq!(names_in(dir.path()), [""; 0]);
    }

    #[test]
    fn who_dies_while_leaving_leaves_what_the_next_can_open() {
        let until = Deadline::after(Duration::from_secs(20));
        let flock: Flock = |fd, operation| rustix::fs::flock(fd, operation);
        for steps in 0..=REMOVAL.len() {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("store");
            let rooms = enter(&path, until, flock).unwrap();
            for step in &REMOVAL[..steps] {
                step(&rooms.data, &rooms.users).unwrap();
            }
            drop(rooms);
            enter(&path, until, flock).unwrap();
        }
    }
}
