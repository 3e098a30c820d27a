//! How much memory this process may use.

mod huge;

use std::path::Path;
use std::{fs, io};

pub use huge::{HugePages, HugePool};

use rustix::io::Errno;

use crate::cgroup::{Cgroups, Version};
use crate::root::{Root, field};

/// The memory of this machine, as far as this process may use it. Sizes are in bytes.
///
/// ```
/// use consort_sys::memory::Memory;
///
/// let memory = Memory::here();
/// println!("{} of {} bytes can be had", memory.usable(), memory.total);
/// assert!(memory.usable() <= memory.total);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// What the machine has; 0 when the kernel does not say.
    pub total: u64,
    /// What could be had without swapping.
    pub available: u64,
    /// The least limit of the process's control groups.
    pub group: Option<GroupMemory>,
    /// The shared-memory file system, if there is one.
    pub shm: Option<Space>,
    /// Large pages.
    pub huge: HugePages,
    /// Why it cannot be read how much the machine has, if so: the numbers are 0 then, and mean nothing.
    pub unread: Option<Errno>,
}

/// A control group's limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupMemory {
    /// A group that needs more has a process killed.
    pub limit: u64,
    /// What it holds now and could not give back at once.
    pub used: u64,
}

/// A file system's room, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// All of it.
    pub total: u64,
    /// What this user can still write.
    pub free: u64,
    /// Whether programs on it cannot be started.
    pub no_exec: bool,
}

impl Memory {
    /// The memory of the machine this process runs on.
    pub fn here() -> Self {
        Self::under(Path::new("/"))
    }

    /// The memory of the machine described by the files under `root`.
    pub fn under(root: &Path) -> Self {
        let root = Root(root);
        let (meminfo, unread) = match fs::read_to_string(root.path("proc/meminfo")) {
            Ok(meminfo) => (meminfo, None),
            Err(error) => (String::new(), Some(Errno::from_io_error(&error).unwrap_or(Errno::IO))),
        };
        Self {
            total: field(&meminfo, "MemTotal").unwrap_or_default(),
            available: field(&meminfo, "MemAvailable").unwrap_or_default(),
            group: read_group(root, &Cgroups::read(root)),
            shm: Space::of(&root.path("dev/shm")).ok(),
            huge: huge::read(root),
            unread,
        }
    }

    /// What the control group's limit allows in all: the machine's memory when there is none.
    pub fn limit(&self) -> u64 {
        self.group.map_or(self.total, |group| group.limit.min(self.total))
    }

    /// What can still be had: on the machine, and within the control group's limit.
    pub fn usable(&self) -> u64 {
        let left = self.group.map_or(u64::MAX, |group| group.limit.saturating_sub(group.used));
        self.available.min(left)
    }
}

impl Space {
    /// The room of the file system that holds `path`.
    pub fn of(path: &Path) -> io::Result<Self> {
        let status = rustix::fs::statvfs(path)?;
        Ok(Self {
            total: status.f_blocks.saturating_mul(status.f_frsize),
            free: status.f_bavail.saturating_mul(status.f_frsize),
            no_exec: status.f_flag.contains(rustix::fs::StatVfsMountFlags::NOEXEC),
        })
    }
}

fn read_group(root: Root<'_>, cgroups: &Cgroups) -> Option<GroupMemory> {
    let chain = cgroups.chain("memory")?;
    let (limit, usage, reclaimable) = match chain.version {
        Version::V2 => ("memory.max", "memory.current", "inactive_file"),
        Version::V1 => ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    };
    let groups = chain.directories.iter().filter_map(|directory| {
        let limit = parse_limit(&root.text(directory.join(limit))?)?;
        let usage = root.number(directory.join(usage)).unwrap_or_default();
        let stat = root.text(directory.join("memory.stat")).unwrap_or_default();
        let used = usage.saturating_sub(field(&stat, reclaimable).unwrap_or_default());
        Some(GroupMemory { limit, used })
    });
    groups.min_by_key(|group| group.limit)
}

/// `max`, or version 1's largest number rounded to pages, are no limit.
fn parse_limit(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|&limit| limit < NO_LIMIT)
}

const NO_LIMIT: u64 = 1 << 60;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::fake;

    const MEMINFO: &str = "MemTotal:       8192 kB\nMemFree: 1 kB\nMemAvailable:   4096 kB\n";

    #[test]
    fn without_a_limit_the_machine_is_the_limit() {
        let machine = fake::machine(&[("proc/meminfo", MEMINFO)]);
        let memory = Memory::under(machine.path());
        assert_eq!((memory.limit(), memory.usable(), memory.group), (8 << 20, 4 << 20, None));
    }

    #[test]
    fn version_two_counts_the_tightest_ancestor_without_its_page_cache() {
        let machine = fake::machine(&[
            ("proc/meminfo", MEMINFO),
            ("proc/self/cgroup", "0::/a/b"),
            ("proc/self/mountinfo", "1 0 0:1 / /cg rw - cgroup2 none rw"),
            ("cg/a/memory.max", "2097152\n"),
            ("cg/a/memory.current", "1572864\n"),
            ("cg/a/memory.stat", "anon 1\ninactive_file 524288\n"),
            ("cg/a/b/memory.max", "max\n"),
        ]);
        let memory = Memory::under(machine.path());
        assert_eq!(memory.group, Some(GroupMemory { limit: 2 << 20, used: 1 << 20 }));
        assert_eq!((memory.limit(), memory.usable()), (2 << 20, 1 << 20));
    }

    #[test]
    fn version_one_knows_no_limit_by_its_size() {
        let machine = |limit: &str| {
            fake::machine(&[
                ("proc/self/cgroup", "4:memory:/job"),
                ("proc/self/mountinfo", "1 0 0:1 / /cg/memory rw - cgroup cgroup rw,memory"),
                ("cg/memory/job/memory.limit_in_bytes", limit),
                ("cg/memory/job/memory.usage_in_bytes", "1000"),
            ])
        };
        let group = |limit: &str| Memory::under(machine(limit).path()).group;
        assert_eq!(group("9223372036854771712"), None);
        assert_eq!(group("5000"), Some(GroupMemory { limit: 5000, used: 1000 }));
        assert_eq!(group("rubbish"), None);
    }

    #[test]
    fn a_group_over_its_limit_has_nothing_left() {
        let group = Some(GroupMemory { limit: 10, used: 12 });
        let memory = Memory { total: 100, available: 50, group, ..Memory::default() };
        assert_eq!(memory.usable(), 0);
    }

    #[test]
    fn a_machine_without_files_does_not_say_what_it_has() {
        let memory = Memory::under(fake::machine(&[]).path());
        assert_eq!(memory, Memory { unread: Some(Errno::NOENT), ..Memory::default() });
    }

    #[test]
    fn this_machine_has_memory_and_its_root_has_room() {
        let memory = Memory::here();
        assert!(memory.total > 0 && memory.available <= memory.total);
        assert!(Space::of(Path::new("/")).unwrap().total > 0);
    }
}
