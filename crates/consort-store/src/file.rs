//! A store in a file that several processes share.
//!
//! Two files make the store:
//!
//! - `PATH` holds a log of the requests that changed something. Each process replays it into a
//!   table of its own. The lock on it is the *turn*: who holds it shared may read the log, who
//!   holds it exclusively may add to it. It is held for one look, never while waiting. It is on
//!   the file it protects because network file systems refresh and flush what is locked.
//! - `PATH.users` is empty. The lock on it is *presence*: every open store holds it shared as long
//!   as it lives. Who gets it exclusively knows that nobody else is there. It is created, locked
//!   and removed only by who has the turn.
//!
//! The kernel drops a process's locks when it dies, however it dies, so that these say the truth.
//!
//! - *Left over*: an opener who finds nobody present starts the file anew.
//! - *Last one out*: a closer who finds nobody else present empties and removes both files,
//!   `PATH` last. Whoever had opened `PATH` before and gets the turn afterwards sees that the
//!   path does not lead to that file any more, and opens it again.
//! - *Torn*: a writer who dies in a record leaves it unfinished at the end of the log. Readers
//!   ignore it, the next writer removes it.

mod entrance;
mod lock;
mod log;
mod pace;
pub(crate) mod record;
pub(crate) mod replay;

use std::fmt;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rustix::fs::FlockOperation;

use crate::deadline::{Deadline, clock_now};
use crate::error::Result;
use crate::request::{Reply, Request};
use crate::store::{DEFAULT_PATIENCE, Store, settle};
use crate::table::Outcome;
use entrance::{Rooms, enter, leave};
use lock::{Flock, LockFile, Mode, fault, take_turn};
use log::Log;
use pace::Pace;

/// A store in a file, for processes that share a file system.
///
/// All who open the same path share the same data, as long as at least one has it open; the last
/// to drop it removes the file. What a dead job left behind is not seen again: who opens a file
/// that nobody else has open finds an empty store.
///
/// The file system must support locks between all processes that use it (`flock`). Opening fails
/// if it does not, as far as that can be seen from one host: a network file system that was
/// mounted with locks that hold on each host only (`nolock`, `local_lock`, `localflock`) looks
/// like one that locks.
///
/// Waiting is done by looking again, every one to ten milliseconds; of several callers that wait
/// for the same queue any may be served first. A call whose deadline has come still waits a few
/// seconds, at most its [`patience`](Store::patience), for others to finish with the file; if they
/// do not, it fails with [`Error::Unreachable`](crate::Error::Unreachable).
///
/// ```
/// use consort_store::{Deadline, FileStore, Store};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("store");
/// let store = FileStore::open(&path)?;
/// let other = FileStore::open(&path)?; // in another process, usually
/// store.set("greeting", b"hello")?;
/// assert_eq!(other.get("greeting", Deadline::never())?, b"hello");
///
/// drop((store, other));
/// assert!(!path.exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FileStore {
    patience: Duration,
    data: LockFile,
    users: LockFile,
    log: Mutex<Log>,
}

impl FileStore {
    /// Opens the store at `path`, creating the file if need be, for this user only.
    ///
    /// # Errors
    /// [`Error::File`](crate::Error::File) when the path is a directory or something else than a
    /// store's file (which is left as it is), when the file is another version's or damaged, or
    /// when the file system cannot lock.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, DEFAULT_PATIENCE)
    }

    /// The same with another limit than [`DEFAULT_PATIENCE`] for opening it, and for the verbs
    /// that take no deadline.
    ///
    /// # Errors
    /// As [`open`](FileStore::open).
    pub fn open_with(path: impl AsRef<Path>, patience: Duration) -> Result<Self> {
        Self::open_locking(path.as_ref(), patience, flock)
    }

    fn open_locking(path: &Path, patience: Duration, flock: Flock) -> Result<Self> {
        let Rooms { data, users, log } = enter(path, Deadline::after(patience), flock)?;
        Ok(Self { patience, data, users, log: Mutex::new(log) })
    }

    /// The file, with symbolic links resolved.
    pub fn path(&self) -> &Path {
        self.data.path()
    }

    /// One look at the log, to carry out the request if it need not wait.
    fn look(&self, request: &Request<'_>, until: Deadline) -> Result<Look> {
        let mode = if request.can_change() { Mode::Exclusive } else { Mode::Shared };
        let mut turn = self.turn(mode, self.turn_limit(until))?;
        let (log, data) = (&mut *turn.log, &self.data);
        let look = log.catch_up(data, mode).and_then(|length| {
            Ok(match log.apply(data.file(), request)? {
                Outcome::Settled(reply) => Look::Settled(reply),
                Outcome::Blocked(_) => {
                    Look::Blocked { length, missing: Reply::Missing(log.table().missing(request)) }
                }
            })
        });
        let look = look.map_err(|reason| fault(self.path(), reason))?;
        if mode == Mode::Exclusive {
            log.shorten(data);
        }
        Ok(look)
    }

    /// Waits for the log to become longer than `length`. The file system's word for it may be
    /// old, so that after a while the caller should look all the same.
    fn watch(&self, length: u64, pace: &mut Pace, until: Deadline) {
        let look_anyway = until.min(Deadline::after(TRUST_LENGTH));
        while !look_anyway.has_passed() {
            pace.sleep(look_anyway);
            match self.data.file().metadata() {
                Ok(metadata) if metadata.len() == length && metadata.nlink() > 0 => {}
                _ => return,
            }
        }
    }

    /// Waits for the turn, and for nothing else: between two attempts other threads can have it.
    fn turn(&self, mode: Mode, limit: Deadline) -> Result<Turn<'_>> {
        take_turn(self.path(), limit, || {
            let log = self.log();
            let taken = self.data.try_lock(mode)?;
            Ok(taken.then_some(Turn { data: &self.data, log }))
        })
    }

    /// Until when to wait for the turn. Others hold it for moments, so that even a call that
    /// should come back at once can wait for them.
    fn turn_limit(&self, until: Deadline) -> Deadline {
        let grace = Deadline::after(GRACE);
        let later = if until.min(grace) == until { grace } else { until };
        later.min(Deadline::after(self.patience))
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(|poisoned| {
            // A thread that panicked may have changed the table and not the log.
            let mut log = poisoned.into_inner();
            log.forget();
            self.log.clear_poison();
            log
        })
    }
}

impl Store for FileStore {
    fn call(&self, request: &Request<'_>, until: Deadline) -> Result<Reply> {
        let started = clock_now();
        let mut pace = Pace::new(FIRST_PAUSE, LONGEST_PAUSE);
        let reply = loop {
            let last = until.has_passed();
            match self.look(request, until)? {
                Look::Settled(reply) => break reply,
                Look::Blocked { missing, .. } if last => break missing,
                Look::Blocked { length, .. } => self.watch(length, &mut pace, until),
            }
        };
        settle(reply, request.verb(), || started.elapsed())
    }

    fn duplicate(&self) -> Result<Arc<dyn Store>> {
        let twin = Self::open_locking(self.path(), self.patience, self.data.flock())?;
        if !self.data.is_named()? {
            return Err(fault(self.path(), "somebody removed it while it was in use"));
        }
        Ok(Arc::new(twin))
    }

    fn patience(&self) -> Duration {
        self.patience
    }
}

impl Drop for FileStore {
    /// The last one out removes the files. Who cannot get the turn leaves them to the next opener.
    fn drop(&mut self) {
        let limit = Deadline::after(CLOSING.min(self.patience));
        if let Ok(_turn) = self.turn(Mode::Exclusive, limit) {
            leave(&self.data, &self.users);
        }
    }
}

impl fmt::Debug for FileStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileStore").field("path", &self.path()).finish_non_exhaustive()
    }
}

/// What came of a look.
enum Look {
    Settled(Reply),
    /// It has to wait; the file was so long.
    Blocked {
        length: u64,
        missing: Reply,
    },
}

/// The right to use the file, in this process and among processes.
struct Turn<'a> {
    data: &'a LockFile,
    log: MutexGuard<'a, Log>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.data.unlock();
    }
}

fn flock(fd: BorrowedFd<'_>, operation: FlockOperation) -> rustix::io::Result<()> {
    rustix::fs::flock(fd, operation)
}

/// How long a call waits for its turn though its deadline has come.
const GRACE: Duration = Duration::from_secs(5);
/// How long dropping a store waits for its turn.
const CLOSING: Duration = Duration::from_secs(1);
/// How long the length that the file system reports without a lock is believed: over a network
/// it may be out of date.
const TRUST_LENGTH: Duration = Duration::from_millis(200);
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(10);
