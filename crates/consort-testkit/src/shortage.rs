//! Processes that lack something.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Limits this process; `None` as far as it may.
///
/// # Panics
/// When the system does not let it.
pub fn limit(resource: Resource, bytes: Option<u64>) {
    let maximum = getrlimit(resource).maximum;
    setrlimit(resource, Rlimit { current: bytes.or(maximum), maximum })
        .expect("a process may limit itself");
}

/// How many bytes of addresses this process uses, which is what [`Resource::As`] limits.
///
/// # Panics
/// When the system does not tell.
pub fn used_addresses() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux tells of every process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let size = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    size.expect("every process has a size") * 1024
}
