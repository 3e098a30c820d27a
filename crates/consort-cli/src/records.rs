//! The folders in which the ranks of jobs leave their records.
//!
//! A launcher makes one for its job, which it holds locked; ranks write their files there. It is
//! removed when the job ends well. After a failure it stays, for `consort trace`, as do those of the
//! last few failures; older ones are removed when there is another.
//!
//! They are in memory (`/dev/shm`) where there is such a file system, or in the folder that
//! `CONSORT_TRACE_DIR` names. Nobody but their user can look into them.

use std::env;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{FlockOperation, flock};
use rustix::process::getuid;

/// The folder of a job whose launcher this is.
#[derive(Debug)]
pub(crate) struct Folder {
    job: String,
    path: PathBuf,
    /// Held for as long as the job runs.
    lock: File,
}

impl Folder {
    /// Makes it. Launchers of one job on one host share it.
    ///
    /// # Errors
    /// When it cannot be made, or is somebody else's.
    pub(crate) fn open(base: &Path, job: &str) -> io::Result<Self> {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
        if job.is_empty() || !job.chars().all(is_plain) {
            return Err(io::Error::other(format!("{job:?} is no name for a folder")));
        }
        fs::create_dir_all(base)?;
        let path = base.join(format!("{}{job}", prefix()));
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
        if !is_mine(&path) {
            return Err(io::Error::other(format!("{} is somebody else's", path.display())));
        }
        let mut options = File::options();
        let lock = options.create(true).append(true).mode(0o600).open(path.join(LOCK))?;
        flock(&lock, FlockOperation::NonBlockingLockShared)?;
        Ok(Self { job: job.to_owned(), path, lock })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Lets go of it: removes it if the job went well or there is nothing in it, unless another launcher
    /// holds it. Gives the job's name if there is something to be seen.
    pub(crate) fn close(self, went_well: bool) -> Option<String> {
        let Self { job, path, lock } = self;
        let has_records = consort::trace::read_folder(&path).is_ok_and(|files| !files.is_empty());
        if has_records && !went_well {
            drop(lock);
            remove_oldest(path.parent()?);
            return Some(job);
        }
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            remove(&path);
        }
        None
    }
}

/// A job that can be looked at.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    /// Its name.
    pub(crate) job: String,
    /// Its folder.
    pub(crate) path: PathBuf,
    /// Whether a launcher holds it.
    pub(crate) is_running: bool,
    /// When it began.
    pub(crate) since: SystemTime,
}

/// Where this user's folders are.
pub(crate) fn base() -> PathBuf {
    match env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
        Some(folder) => folder.into(),
        None if Path::new(SHARED_MEMORY).is_dir() => SHARED_MEMORY.into(),
        None => env::temp_dir(),
    }
}

/// This user's jobs, the latest first.
pub(crate) fn list(base: &Path) -> Vec<Listed> {
    let prefix = prefix();
    let entries = base.read_dir().into_iter().flatten().filter_map(Result::ok);
    let mut jobs: Vec<Listed> = entries
        .filter_map(|entry| {
            let job = entry.file_name().to_str()?.strip_prefix(&prefix)?.to_owned();
            let path = entry.path();
            let lock = File::open(path.join(LOCK)).ok().filter(|_| is_mine(&path))?;
            let is_running = flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err();
            let since = lock.metadata().and_then(|about| about.modified()).ok()?;
            Some(Listed { job, path, is_running, since })
        })
        .collect();
    jobs.sort_by_key(|job| std::cmp::Reverse(job.since));
    jobs
}

/// Only the last few failures are worth their memory.
fn remove_oldest(base: &Path) {
    for job in list(base).into_iter().filter(|job| !job.is_running).skip(KEPT) {
        remove(&job.path);
    }
}

fn remove(folder: &Path) {
    if let Err(error) = fs::remove_dir_all(folder)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, "{} stays behind", folder.display());
    }
}

/// Whether it is a folder of this user's that nobody else can write to. A link to one is not.
fn is_mine(path: &Path) -> bool {
    let about = fs::symlink_metadata(path);
    about.is_ok_and(|it| it.is_dir() && it.uid() == getuid().as_raw() && it.mode() & 0o077 == 0)
}

fn prefix() -> String {
    format!("consort-{}-", getuid().as_raw())
}

const VARIABLE: &str = "CONSORT_TRACE_DIR";
const SHARED_MEMORY: &str = "/dev/shm";
const LOCK: &str = "launcher";
/// How many jobs that have failed can be looked at.
const KEPT: usize = 4;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn jobs(base: &Path) -> Vec<(String, bool)> {
        let mut jobs: Vec<_> =
            list(base).into_iter().map(|job| (job.job, job.is_running)).collect();
        jobs.sort();
        jobs
    }

    fn record(folder: &Folder) {
        fs::write(folder.path().join("rank-0"), "").unwrap();
    }

    #[test]
    fn a_job_that_went_well_leaves_nothing() {
        let base = tempfile::tempdir().unwrap();
        let folder = Folder::open(base.path(), "a1").unwrap();
        record(&folder);
        assert_eq!(jobs(base.path()), [("a1".to_owned(), true)]);
        assert_eq!(folder.close(true), None);
        assert_eq!(base.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn of_jobs_that_failed_the_last_few_stay() {
        let base = tempfile::tempdir().unwrap();
        let running = Folder::open(base.path(), "running").unwrap();
        for number in 0..KEPT + 3 {
            let folder = Folder::open(base.path(), &format!("job{number}")).unwrap();
            record(&folder);
            let age = std::time::Duration::from_secs(1000 - number as u64);
            folder.lock.set_modified(SystemTime::now() - age).unwrap();
            assert_eq!(folder.close(false), Some(format!("job{number}")));
        }
        let names: Vec<String> = jobs(base.path()).into_iter().map(|(job, _)| job).collect();
        assert_eq!(names, ["job3", "job4", "job5", "job6", "running"]);
        drop(running);
    }

    #[test]
    fn a_job_without_records_leaves_nothing_even_if_it_failed() {
        let base = tempfile::tempdir().unwrap();
        assert_eq!(Folder::open(base.path(), "a1").unwrap().close(false), None);
        assert_eq!(base.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn what_another_launcher_of_the_job_holds_stays() {
        let base = tempfile::tempdir().unwrap();
        let [one, other] = [0, 1].map(|_| Folder::open(base.path(), "a1").unwrap());
        one.close(true);
        assert_eq!(jobs(base.path()), [("a1".to_owned(), true)]);
        other.close(true);
        assert_eq!(jobs(base.path()), []);
    }

    #[test]
    fn folders_that_others_can_write_to_are_not_used() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join(format!("{}a1", prefix()));
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        let refusal = Folder::open(base.path(), "a1").unwrap_err().to_string();
        assert!(refusal.contains("somebody else's"), "{refusal}");
        std::os::unix::fs::symlink(base.path(), base.path().join(format!("{}b", prefix())))
            .unwrap();
        assert!(Folder::open(base.path(), "b").is_err());
        for name in ["", "..", "a/b"] {
            assert!(Folder::open(base.path(), name).is_err(), "{name:?}");
        }
    }
}
