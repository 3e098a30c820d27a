//! The program and the kernel under it.

use std::fs;

use consort_store::PROTOCOL_VERSION;
use consort_sys::ability::{self, Ability};

/// The program and the kernel under it.
#[derive(Clone, Debug)]
pub(crate) struct System {
    pub(crate) consort: &'static str,
    pub(crate) protocol: u32,
    pub(crate) host: String,
    /// The kernel's release, such as `6.1.0-18-amd64`.
    pub(crate) release: String,
    /// The kind of processor, such as `x86_64`.
    pub(crate) machine: String,
    /// Whether a filter decides which system calls are permitted.
    pub(crate) filtered: bool,
    pub(crate) abilities: Vec<Ability>,
    /// Whether there is an InfiniBand or RoCE adapter.
    pub(crate) infiniband: bool,
}

impl System {
    pub(super) fn gather() -> Self {
        let kernel = rustix::system::uname();
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        Self {
            consort: env!("CARGO_PKG_VERSION"),
            protocol: PROTOCOL_VERSION,
            host: kernel.nodename().to_string_lossy().into_owned(),
            release: kernel.release().to_string_lossy().into_owned(),
            machine: kernel.machine().to_string_lossy().into_owned(),
            filtered: is_filtered(&status),
            abilities: ability::try_all(),
            infiniband: fs::read_dir("/sys/class/infiniband")
                .is_ok_and(|mut all| all.next().is_some()),
        }
    }
}

/// The kernel says `Seccomp: 2` for a process under a filter.
fn is_filtered(status: &str) -> bool {
    let mode = status.lines().find_map(|line| line.strip_prefix("Seccomp:"));
    mode.is_some_and(|mode| mode.trim() == "2")
}

#[cfg(test)]
mod tests {
    use super::is_filtered;

    #[test]
    fn a_filter_is_seen_in_the_status() {
        assert!(is_filtered("Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1"));
        assert!(!is_filtered("Name:\tx\nSeccomp:\t0\nSeccomp_filters:\t2"));
        assert!(!is_filtered(""));
    }
}
