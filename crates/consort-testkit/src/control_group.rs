//! Processes that may not have much memory.

use std::path::{Path, PathBuf};
use std::{fs, io, process, thread};

/// A control group with a memory limit, below this process's own. A process joins it by writing its
/// number to `cgroup.procs`; what it had before does not count. Dropping the group removes it, so
/// its processes have to have ended.
#[derive(Debug)]
pub struct ControlGroup {
    path: PathBuf,
    limit: &'static str,
}

impl ControlGroup {
    /// One whose processes may have so many bytes together.
    ///
    /// # Errors
    /// Why the system does not permit it: a reason to [`skip`](crate::skip()) the test.
    pub fn with_memory(bytes: u64) -> Result<Self, String> {
        let failed = |error| format!("no control group with a memory limit can be made: {error}");
        let (parent, limit) = own_group();
        // Tests may run at the same time, in one process or in several.
        let name = (0..).map(|index| format!("consort-test-{}-{index}", process::id()));
        let path = name
            .map(|name| parent.join(name))
            .find_map(|path| match fs::create_dir(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
                made => Some(made.map(|()| path)),
            })
            .expect("there is always another name");
        let group = Self { path: path.map_err(failed)?, limit };
        group.limit_memory(bytes).map_err(failed)?;
        Ok(group)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sets another limit.
    ///
    /// # Errors
    /// What the system says.
    pub fn limit_memory(&self, bytes: u64) -> io::Result<()> {
        fs::write(self.path.join(self.limit), bytes.to_string())
    }

    /// How many of its processes the system has killed because there was not enough memory.
    ///
    /// # Panics
    /// Where the system does not say.
    pub fn killed_for_memory(&self) -> u64 {
        let events = match self.limit {
            IN_BYTES => "memory.oom_control",
            _ => "memory.events",
        };
        let events = fs::read_to_string(self.path.join(events)).unwrap_or_default();
        let killed = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
        killed.and_then(|count| count.parse().ok()).expect("the system counts whom it kills")
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        let removed = fs::remove_dir(&self.path);
        assert!(removed.is_ok() || thread::panicking(), "{removed:?}: have its processes ended?");
    }
}

/// Where this process's own group is, and what the limit is called there.
fn own_group() -> (PathBuf, &'static str) {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let of = |start: &str| groups.lines().find_map(|line| line.split_once(start));
    match of(":memory:/") {
        Some((_, path)) => (Path::new("/sys/fs/cgroup/memory").join(path), IN_BYTES),
        None => {
            let path = of("0::/").map_or("", |(_, path)| path);
            (Path::new("/sys/fs/cgroup").join(path), "memory.max")
        }
    }
}

/// What the limit is called in the first version of control groups.
const IN_BYTES: &str = "memory.limit_in_bytes";
