//! What ranks have recorded of their last calls.
//!
//! # The subject
//!
//! Every rank keeps its last calls, in each of its groups: what was called, when it was queued, began
//! and ended, and whom it waits for. Under `consort run` they are in a file that stays when the rank is
//! killed: whoever wants to know why a job stands still, or how it died, reads the files of all its
//! ranks and lays them side by side. `consort trace` does that; this is what it stands on.
//!
//! A rank that was started otherwise records in its own memory, which [`Group::trace`] shows, or in the
//! folder that `CONSORT_TRACE_DIR` or [`Builder::trace_dir`] names.
//!
//! [`Group::trace`]: crate::Group::trace
//! [`Builder::trace_dir`]: crate::Builder::trace_dir
//!
//! # What it costs
//!
//! Two looks at the processor's counter and a dozen words written for each call. Whom a call waits for
//! is written only when it has waited for so long that it looks around. How long it combines numbers is
//! looked at only where 32 KiB or more are combined at once, and where it is made only if
//! [`DebugLevel::Detail`](crate::DebugLevel::Detail) asks for that.
//!
//! ```no_run
//! for (path, trace) in consort::trace::read_folder("/dev/shm/consort-1000-5f2c".as_ref())? {
//!     let trace = trace?;
//!     for group in &trace.groups {
//!         if let Some(call) = group.calls.last() {
//!             println!("{}: rank {}, {}: {call}", path.display(), trace.rank, group.name);
//!         }
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use consort_sys::record::{CallRecord, GroupRecord, Snapshot};

pub use consort_sys::record::Unreadable;

use crate::call::{Description, Operation};
use crate::recorder::rank_in;

/// What one rank has recorded. Times are nanoseconds since 1970, by the clock of its host.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RankTrace {
    /// Its rank in the world.
    pub rank: u32,
    /// How many ranks there are.
    pub world: u32,
    /// The job's name.
    pub job: String,
    /// The round of the job.
    pub epoch: u64,
    /// Its process number on its host.
    pub process: u32,
    /// Whether its process is there.
    pub is_alive: bool,
    /// Whether it has left the job in good order.
    pub has_left: bool,
    /// From where in its program calls were made, if that was noted: file and line.
    pub sites: Vec<String>,
    /// Its groups, the first that it was in first.
    pub groups: Vec<GroupTrace>,
}

/// What a rank has recorded of one group.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GroupTrace {
    /// The group's name.
    pub name: String,
    /// The rank in the group.
    pub rank: u32,
    /// How many ranks it has.
    pub world: u32,
    /// Their ranks in the world, in the order of their ranks in the group; empty if they are too many.
    pub members: Vec<u32>,
    /// Whether the rank has left the group.
    pub has_left: bool,
    /// How many calls were made; those that are beyond the last of `calls` are queued.
    pub made: u64,
    /// How many bytes this rank had in calls that have ended.
    pub bytes: u64,
    /// How many nanoseconds it has spent in them.
    pub busy: u64,
    /// How many calls have ended.
    pub ended: u64,
    /// How many of them have failed.
    pub failed: u64,
    /// How many nanoseconds it has combined numbers in them.
    pub reducing: u64,
    /// The last calls, in their order.
    pub calls: Vec<CallTrace>,
}

/// A call that a rank has recorded. Its text is what was called: `all_reduce(sum) of 4 f32`.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CallTrace {
    /// Which of the group's calls it is, from 1.
    pub number: u64,
    /// When it was queued, if it was made asynchronously or behind others.
    pub queued: Option<u64>,
    /// When it began.
    pub began: u64,
    /// When it ended, if it has.
    pub ended: Option<u64>,
    /// Whether it has failed.
    pub has_failed: bool,
    /// For which rank of the group it waits, or waited when it last looked around.
    pub waits_for: Option<u32>,
    /// For how many nanoseconds it has combined numbers, once it has ended: in all pieces of 32 KiB and
    /// more. Smaller ones are not looked at.
    pub reducing: u64,
    /// Which of the rank's [sites](RankTrace::sites) it was made from, if that was noted.
    pub site: Option<u16>,
    /// `None` if it cannot be understood.
    what: Option<Description>,
}

/// Reads a rank's file, which the rank may be writing.
///
/// A rank that reads its own file this way gives up the lock by which others see that it is alive; it
/// has [`Group::trace`](crate::Group::trace).
///
/// # Errors
/// When it cannot be read, or is something else.
pub fn read(path: &Path) -> Result<RankTrace, Unreadable> {
    Snapshot::read(path).map(RankTrace::from)
}

/// Reads the files of all ranks in a folder, in the order of ranks, each by itself: the others are of
/// use if one is damaged.
///
/// # Errors
/// When the folder cannot be read.
pub fn read_folder(folder: &Path) -> io::Result<Vec<(PathBuf, Result<RankTrace, Unreadable>)>> {
    let mut found = Vec::new();
    for entry in folder.read_dir()? {
        let path = entry?.path();
        if let Some(rank) = path.file_name().and_then(|name| rank_in(name.to_str()?)) {
            found.push((rank, path));
        }
    }
    found.sort_unstable();
    let read = |(_, path): (u32, PathBuf)| (path.clone(), read(&path));
    Ok(found.into_iter().map(read).collect())
}

impl RankTrace {
    /// From where in its program this rank has made one of its calls, if that was noted: file and line.
    pub fn site(&self, call: &CallTrace) -> Option<&str> {
        self.sites.get(usize::from(call.site?)).map(String::as_str)
    }
}

impl GroupTrace {
    /// How many calls were made and have not begun.
    pub fn queued(&self) -> u64 {
        self.made.saturating_sub(self.calls.last().map_or(0, |call| call.number))
    }

    /// What rank one of the group has in the world, if that is known.
    pub fn in_world(&self, rank: u32) -> Option<u32> {
        self.members.get(rank as usize).copied()
    }
}

impl CallTrace {
    /// What was called, if it can be understood.
    pub fn operation(&self) -> Option<Operation> {
        self.what.map(|what| what.operation)
    }

    /// How many bytes each rank has in it, as far as all ranks know that; otherwise 0.
    pub fn bytes(&self) -> u64 {
        self.what.map_or(0, |what| what.bytes())
    }

    /// Whether nobody can end it before all have begun.
    pub fn is_for_all(&self) -> bool {
        self.what.is_some_and(|what| what.is_for_all())
    }

    /// Whether another rank's call is the same, as far as ranks have to agree.
    pub fn agrees_with(&self, other: &Self) -> bool {
        self.what.map(Description::common) == other.what.map(Description::common)
    }
}

impl fmt::Display for CallTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.what {
            Some(what) => what.fmt(f),
            None => f.write_str("a call that this version does not know"),
        }
    }
}

impl From<Snapshot> for RankTrace {
    fn from(snapshot: Snapshot) -> Self {
        let Snapshot { rank, world, epoch, process, job, has_left, is_alive, sites, groups } =
            snapshot;
        let groups = groups.into_iter().map(GroupTrace::from).collect();
        Self { rank, world, job, epoch, process, is_alive, has_left, sites, groups }
    }
}

impl From<GroupRecord> for GroupTrace {
    fn from(record: GroupRecord) -> Self {
        let GroupRecord { name, rank, world, members, has_left, made, bytes, busy, .. } = record;
        let GroupRecord { ended, failed, combined: reducing, calls, .. } = record;
        let calls = calls.iter().map(CallTrace::from).collect();
        Self {
            name,
            rank,
            world,
            members,
            has_left,
            made,
            bytes,
            busy,
            ended,
            failed,
            reducing,
            calls,
        }
    }
}

impl From<&CallRecord> for CallTrace {
    fn from(record: &CallRecord) -> Self {
        let CallRecord { number, call, queued, began, end, waits_for, site } = *record;
        Self {
            number,
            queued,
            began,
            ended: end.map(|end| end.at),
            has_failed: end.is_some_and(|end| !end.is_good),
            waits_for,
            reducing: end.map_or(0, |end| end.combined),
            site,
            what: Description::unpack(call),
        }
    }
}
