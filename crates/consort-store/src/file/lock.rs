//! Locks on files, taken without ever waiting in the kernel: a deadline can always be kept.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::pace::Pace;
use crate::deadline::{Deadline, clock_now};
use crate::error::{Error, Result};

/// The system call, as a value: tests put in one that fails as some file systems do.
pub(crate) type Flock = fn(BorrowedFd<'_>, FlockOperation) -> rustix::io::Result<()>;

/// A file and the lock on it.
#[derive(Debug)]
pub(crate) struct LockFile {
    file: File,
    path: PathBuf,
    flock: Flock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Shared,
    Exclusive,
}

impl LockFile {
    /// Opens the file, creating it if need be, for this user only.
    pub(crate) fn open(path: &Path, flock: Flock) -> Result<Self> {
        let file = open(path).map_err(|e| fault(path, open_trouble(&e)))?;
        let about = file.metadata().map_err(|e| fault(path, open_trouble(&e)))?;
        if let Some(reason) = foreign(&about) {
            return Err(fault(path, reason));
        }
        Ok(Self { file, path: path.to_owned(), flock })
    }

    /// The same file by another name.
    pub(crate) fn named(self, path: PathBuf) -> Self {
        Self { path, ..self }
    }

    /// Takes the lock, or changes its mode; false if someone else's is in the way, in which case
    /// this file has none now.
    pub(crate) fn try_lock(&self, mode: Mode) -> Result<bool> {
        self.attempt(&self.file, mode)
    }

    pub(crate) fn unlock(&self) {
        // Cannot fail for an open file; and if it did, closing the file would unlock it.
        let _ = (self.flock)(self.file.as_fd(), FlockOperation::Unlock);
    }

    /// With the exclusive lock held: whether nobody else gets it too. Some file systems take
    /// every lock and exclude nobody.
    pub(crate) fn prove_exclusion(&self) -> Result<()> {
        let second = open(&self.path).map_err(|e| fault(&self.path, open_trouble(&e)))?;
        match self.attempt(&second, Mode::Exclusive)? {
            false => Ok(()),
            true => Err(fault(
                &self.path,
                format!("this file system gives one lock to two at a time; {USE_TCP}"),
            )),
        }
    }

    /// Whether the path still leads to this file and not to nothing or to a later one.
    pub(crate) fn is_named(&self) -> Result<bool> {
        let identity = |of: fs::Metadata| (of.dev(), of.ino());
        match (fs::metadata(&self.path), self.file.metadata()) {
            (Ok(named), Ok(open)) => Ok(identity(named) == identity(open)),
            (Err(e), _) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            (Err(e), _) | (_, Err(e)) => Err(fault(&self.path, format!("cannot look at it: {e}"))),
        }
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn flock(&self) -> Flock {
        self.flock
    }

    fn attempt(&self, file: &File, mode: Mode) -> Result<bool> {
        let operation = match mode {
            Mode::Shared => FlockOperation::NonBlockingLockShared,
            Mode::Exclusive => FlockOperation::NonBlockingLockExclusive,
        };
        loop {
            return match (self.flock)(file.as_fd(), operation) {
                Ok(()) => Ok(true),
                Err(Errno::WOULDBLOCK) => Ok(false),
                Err(Errno::INTR) => continue,
                Err(e) => Err(fault(&self.path, lock_trouble(e))),
            };
        }
    }
}

/// Attempts until it succeeds, or until the limit comes: then somebody holds the lock on `path`
/// and does not let go.
pub(crate) fn take_turn<T>(
    path: &Path,
    limit: Deadline,
    mut attempt: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let started = clock_now();
    let reason = || {
        format!(
            "another process holds the lock on {} and does not let go; is it stopped, or stuck \
             on its file system?",
            path.display()
        )
    };
    let mut pace = Pace::new(FIRST_PAUSE, LONGEST_PAUSE);
    let mut silent = true;
    loop {
        let last = limit.has_passed();
        if let Some(taken) = attempt()? {
            return Ok(taken);
        }
        if last {
            let address = format!("file://{}", path.display());
            return Err(Error::Unreachable {
                address,
                waited: started.elapsed(),
                reason: reason(),
            });
        }
        if silent && started.elapsed() > SILENCE {
            tracing::warn!("still waiting for the store: {}", reason());
            silent = false;
        }
        pace.sleep(limit);
    }
}

/// The error of a file that cannot be used.
pub(crate) fn fault(path: &Path, reason: impl Into<String>) -> Error {
    Error::File { path: path.to_owned(), reason: reason.into() }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Why a file that was there already is not one to write a job's words into: whoever owns it can
/// read and change them.
fn foreign(about: &fs::Metadata) -> Option<String> {
    let me = rustix::process::geteuid().as_raw();
    (about.uid() != me).then(|| format!("it belongs to user {}, not to this one", about.uid()))
}

fn open_trouble(e: &io::Error) -> String {
    let advice = match e.kind() {
        io::ErrorKind::NotFound => "; the folder that it is to be in does not exist",
        io::ErrorKind::PermissionDenied => {
            "; the file and its folder must be this user's to read and write"
        }
        _ => "",
    };
    format!("cannot open it: {e}{advice}")
}

fn lock_trouble(e: Errno) -> String {
    match e {
        Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS => {
            format!("its file system cannot lock files ({e}); {USE_TCP}")
        }
        _ => format!("cannot lock it: {e}"),
    }
}

const USE_TCP: &str = "use a folder on another one, or tcp://HOST:PORT instead of file://";
/// After so long a wait the user is told why nothing happens.
const SILENCE: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_micros(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use super::*;

    fn real(fd: BorrowedFd<'_>, operation: FlockOperation) -> rustix::io::Result<()> {
        rustix::fs::flock(fd, operation)
    }

    fn message(result: Result<bool>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn a_lock_excludes_a_second_opening_of_the_same_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let first = LockFile::open(&path, real).unwrap();
        let second = LockFile::open(&path, real).unwrap();
        assert!(first.try_lock(Mode::Exclusive).unwrap());
        first.prove_exclusion().unwrap();
        assert!(!second.try_lock(Mode::Shared).unwrap());
        assert!(first.try_lock(Mode::Shared).unwrap());
        assert!(second.try_lock(Mode::Shared).unwrap());
        assert!(!second.try_lock(Mode::Exclusive).unwrap());
        first.unlock();
        assert!(second.try_lock(Mode::Exclusive).unwrap());
    }

    #[test]
    fn a_file_system_that_cannot_lock_is_named_as_such() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let none: [Flock; 3] =
            [|_, _| Err(Errno::NOLCK), |_, _| Err(Errno::OPNOTSUPP), |_, _| Err(Errno::NOSYS)];
        for flock in none {
            let file = LockFile::open(&path, flock).unwrap();
            let said = message(file.try_lock(Mode::Exclusive));
            assert!(said.contains("cannot lock files") && said.contains("tcp://"), "{said}");
            assert!(said.contains(path.to_str().unwrap()), "{said}");
        }
        let broken = LockFile::open(&path, |_, _| Err(Errno::IO)).unwrap();
        assert!(!message(broken.try_lock(Mode::Shared)).contains("tcp://"));
    }

    #[test]
    fn a_file_system_that_only_pretends_to_lock_is_found_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let file = LockFile::open(&path, |_, _| Ok(())).unwrap();
        assert!(file.try_lock(Mode::Exclusive).unwrap());
        let said = file.prove_exclusion().unwrap_err().to_string();
        assert!(said.contains("tcp://"), "{said}");
    }

    #[test]
    fn a_file_that_was_removed_or_replaced_is_not_named_any_more() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let first = LockFile::open(&path, real).unwrap();
        assert!(first.is_named().unwrap());
        fs::remove_file(&path).unwrap();
        assert!(!first.is_named().unwrap());
        let second = LockFile::open(&path, real).unwrap();
        assert!(second.is_named().unwrap());
        assert!(!first.is_named().unwrap());
    }

    #[test]
    fn a_turn_that_never_comes_ends_at_the_limit_and_names_the_lock() {
        let limit = Deadline::after(Duration::from_millis(20));
        let mut attempts = 0;
        let said = take_turn(Path::new("/a/store"), limit, || {
            attempts += 1;
            Ok(None::<()>)
        });
        let said = said.unwrap_err().to_string();
        assert!(attempts >= 2 && limit.has_passed());
        assert!(said.contains("the lock on /a/store"), "{said}");
    }
}
