//! Whether the system calls that consort is built on are permitted.
//!
//! Old kernels lack some of them, and containers forbid some with a filter. The only way to know
//! is to try.

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::process::PidfdFlags;
use rustix::thread::futex;

/// Something the kernel may or may not let this process do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ability {
    /// What it is called.
    pub name: &'static str,
    /// What consort needs it for.
    pub purpose: &'static str,
    /// What the kernel said when it refused.
    pub refusal: Option<String>,
}

/// Tries every ability once. Nothing remains of the attempts.
///
/// ```
/// for ability in consort_sys::ability::try_all() {
///     match ability.refusal {
///         None => println!("{} works", ability.name),
///         Some(reason) => println!("{} ({}): {reason}", ability.name, ability.purpose),
///     }
/// }
/// ```
pub fn try_all() -> Vec<Ability> {
    let attempts = [
        ("pidfd", "to see at once that a process has ended", try_pidfd as fn() -> _),
        ("memfd", "for shared memory that leaves no file behind", try_memfd),
        ("futex", "to sleep until another process has written", try_futex),
    ];
    attempts.map(|(name, purpose, attempt)| Ability::tried(name, purpose, attempt())).into()
}

impl Ability {
    fn tried(name: &'static str, purpose: &'static str, outcome: rustix::io::Result<()>) -> Self {
        let refusal = outcome.err().map(|error| error.to_string());
        Self { name, purpose, refusal }
    }
}

fn try_pidfd() -> rustix::io::Result<()> {
    rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty()).map(drop)
}

fn try_memfd() -> rustix::io::Result<()> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = rustix::fs::memfd_create("consort-ability", flags)?;
    rustix::fs::ftruncate(&memory, 4096)?;
    rustix::fs::fcntl_add_seals(&memory, SealFlags::SHRINK)?;
    rustix::io::write(&memory, &[1]).map(drop)
}

fn try_futex() -> rustix::io::Result<()> {
    // Without PRIVATE: the kind that reaches other processes. Nobody sleeps on it.
    futex::wake(&Default::default(), futex::Flags::empty(), 1).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ability_is_tried_and_a_refusal_says_why() {
        let names: Vec<_> = try_all().iter().map(|ability| ability.name).collect();
        assert_eq!(names, ["pidfd", "memfd", "futex"]);
        let refused = Ability::tried("x", "y", Err(rustix::io::Errno::NOSYS));
        assert!(refused.refusal.unwrap().contains("not implemented"));
        assert_eq!(Ability::tried("x", "y", Ok(())).refusal, None);
    }

    #[test]
    fn trying_leaves_no_descriptor_open() {
        let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let before = open();
        for _ in 0..16 {
            try_all();
        }
        assert!(open() < before + 16, "{} descriptors, {before} before", open());
    }
}
