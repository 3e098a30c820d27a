//! How many files, processes and locked bytes this process may have.

use std::fmt;
use std::path::Path;

use rustix::process::Resource;

use crate::cgroup::Cgroups;
use crate::root::Root;

/// The limits that a job runs into first.
///
/// ```
/// use consort_sys::limits::ResourceLimits;
///
/// let limits = ResourceLimits::here();
/// println!("{} open files", limits.open_files.soft);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceLimits {
    /// Open files and sockets of this process.
    pub open_files: Limit,
    /// Processes and threads of this user.
    pub processes: Limit,
    /// Bytes that may be kept from being swapped out.
    pub locked_memory: Limit,
    /// Processes and threads of the control group, the tightest ancestor's.
    pub group_processes: Option<GroupProcesses>,
}

/// A limit and how far it can be raised without being root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// What holds now.
    pub soft: Amount,
    /// How far the soft limit can be raised.
    pub hard: Amount,
}

/// A number, or no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Amount {
    /// At most so many.
    Of(u64),
    /// As many as one likes.
    Unlimited,
}

/// A control group's limit on processes and threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupProcesses {
    /// At most so many.
    pub limit: u64,
    /// There are so many now.
    pub used: u64,
}

impl ResourceLimits {
    /// The limits of this process.
    pub fn here() -> Self {
        Self {
            open_files: Limit::of(Resource::Nofile),
            processes: Limit::of(Resource::Nproc),
            locked_memory: Limit::of(Resource::Memlock),
            group_processes: GroupProcesses::under(Path::new("/")),
        }
    }
}

impl Limit {
    fn of(resource: Resource) -> Self {
        let limit = rustix::process::getrlimit(resource);
        Self { soft: limit.current.into(), hard: limit.maximum.into() }
    }
}

impl Amount {
    /// Whether `count` of them are allowed.
    pub fn allows(&self, count: u64) -> bool {
        *self >= Self::Of(count)
    }
}

impl From<Option<u64>> for Amount {
    fn from(amount: Option<u64>) -> Self {
        amount.map_or(Self::Unlimited, Self::Of)
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Of(count) => count.fmt(f),
            Self::Unlimited => f.pad("unlimited"),
        }
    }
}

impl GroupProcesses {
    /// The control group of the machine described by the files under `root`.
    pub fn under(root: &Path) -> Option<Self> {
        let root = Root(root);
        let chain = Cgroups::read(root).chain("pids")?;
        let groups = chain.directories.iter().filter_map(|directory| {
            Some(Self {
                limit: root.number(directory.join("pids.max"))?,
                used: root.number(directory.join("pids.current")).unwrap_or_default(),
            })
        });
        groups.min_by_key(Self::left)
    }

    /// How many more there may be.
    pub fn left(&self) -> u64 {
        self.limit.saturating_sub(self.used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::fake;

    #[test]
    fn unlimited_allows_everything_and_a_number_up_to_itself() {
        assert!(Amount::Unlimited.allows(u64::MAX));
        assert!(Amount::Of(64).allows(64));
        assert!(!Amount::Of(63).allows(64));
        assert_eq!(Amount::from(None).to_string(), "unlimited");
        assert_eq!(Amount::from(Some(7)).to_string(), "7");
    }

    #[test]
    fn the_group_with_the_least_room_counts() {
        let machine = fake::machine(&[
            ("proc/self/cgroup", "0::/a/b"),
            ("proc/self/mountinfo", "1 0 0:1 / /cg rw - cgroup2 none rw"),
            ("cg/a/pids.max", "100"),
            ("cg/a/pids.current", "95"),
            ("cg/a/b/pids.max", "50"),
            ("cg/a/b/pids.current", "3"),
        ]);
        let group = GroupProcesses::under(machine.path()).unwrap();
        assert_eq!((group.limit, group.left()), (100, 5));
    }

    #[test]
    fn max_and_missing_files_are_no_limit() {
        let machine = fake::machine(&[
            ("proc/self/cgroup", "0::/a"),
            ("proc/self/mountinfo", "1 0 0:1 / /cg rw - cgroup2 none rw"),
            ("cg/a/pids.max", "max"),
        ]);
        assert_eq!(GroupProcesses::under(machine.path()), None);
        assert_eq!(GroupProcesses::under(fake::machine(&[]).path()), None);
    }

    #[test]
    fn the_soft_limit_is_never_above_the_hard_one() {
        let limits = ResourceLimits::here();
        for limit in [limits.open_files, limits.processes, limits.locked_memory] {
            assert!(limit.soft <= limit.hard, "{limit:?}");
        }
        assert!(limits.open_files.soft.allows(3), "this test has three files open");
    }
}
