//! Why an arena cannot be had, or a piece of one.

use std::fmt;

use rustix::io::Errno;

use crate::memory::Memory;

/// What went wrong with shared memory.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArenaError {
    /// The kernel refused to make a memory file.
    #[error(
        "cannot make shared memory ({call}: {source}); `consort doctor` shows what is permitted here"
    )]
    Create {
        /// The system call that was refused.
        call: &'static str,
        /// What the kernel said.
        source: Errno,
    },
    /// The kernel refused to map a memory file.
    #[error(
        "cannot map {} of shared memory: {source}; raise this process's limit on address space \
         (ulimit -v) or run fewer ranks on this host",
        Bytes(*.bytes as u64)
    )]
    Map {
        /// The least that was tried.
        bytes: usize,
        /// What the kernel said.
        source: Errno,
    },
    /// The process may not have files that large, and memory that is shared is a file.
    #[error(
        "cannot make {} of shared memory: this process may not make files of more than {}; raise \
         that limit (ulimit -f)",
        Bytes(*.least as u64), Bytes(*.limit)
    )]
    FileLimit {
        /// The least that would do.
        least: usize,
        /// The limit.
        limit: u64,
    },
    /// The descriptor that a peer handed over is not an arena's.
    #[error("a peer's shared memory is refused: {0}")]
    Unfit(#[from] Unfit),
    /// Only the process that made an arena takes pieces of it.
    #[error("a piece of a peer's shared memory can only be taken by that peer")]
    NotOwner,
    /// An alignment is a power of two.
    #[error("{0} is no alignment: it must be a power of two")]
    Alignment(usize),
    /// No part of the arena that is free is long enough.
    #[error(
        "no room for {} of shared memory: of {}, the longest free part is {}",
        Bytes(*.asked as u64), Bytes(*.size as u64), Bytes(*.longest as u64)
    )]
    NoRoom {
        /// How many bytes were asked for.
        asked: usize,
        /// The longest part that is free.
        longest: usize,
        /// All there is.
        size: usize,
    },
    /// There is not enough memory for a piece.
    #[error(transparent)]
    NoMemory(Box<Shortage>),
    /// The bytes are not in the arena.
    #[error("{len} bytes at {offset} are not within {size} bytes of shared memory")]
    Outside {
        /// Where they would begin.
        offset: usize,
        /// How many they are.
        len: usize,
        /// How many there are.
        size: usize,
    },
}

/// Why a descriptor is refused as a peer's arena.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unfit {
    /// Only memory files have seals.
    #[error("it is no memory file ({0})")]
    NotMemory(Errno),
    /// Without these its owner could shorten it, which kills whoever reads it then.
    #[error("it is not sealed against {}; a peer could shorten it and kill its readers", .0.join(" and "))]
    Unsealed(Vec<&'static str>),
    /// It is empty, or not a multiple of 2 MiB, or more than a process can address.
    #[error("{0} bytes is no size that consort makes")]
    Size(u64),
}

/// Not enough memory, with what is known about how much there is.
#[derive(Clone, Debug)]
pub struct Shortage {
    /// How many bytes were asked for, in whole pages.
    pub asked: usize,
    /// How much there was.
    pub memory: Memory,
    /// What the kernel said; `None` when it was not asked because there is too little, or because it
    /// cannot be known how much there is.
    pub refusal: Option<Errno>,
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { asked, memory, refusal } = self;
        let asked = Bytes(*asked as u64);
        match (refusal, &memory.unread) {
            (None, None) => write!(f, "no memory for {asked} to be shared: ")?,
            (Some(refusal), None) => {
                write!(f, "no memory for {asked} to be shared: {refusal}; ")?;
            }
            (Some(refusal), Some(_)) => {
                return write!(f, "no memory for {asked} to be shared: {refusal}");
            }
            (None, Some(why)) => {
                return write!(
                    f,
                    "cannot find out whether there is memory for {asked} to be shared: \
                     /proc/meminfo: {why}"
                );
            }
        }
        write!(f, "{} can still be had (", Bytes(memory.usable()))?;
        if let Some(group) = memory.group {
            let (used, limit) = (Bytes(group.used), Bytes(group.limit));
            write!(f, "the control group uses {used} of {limit}, ")?;
        }
        let (available, total) = (Bytes(memory.available), Bytes(memory.total));
        write!(f, "the machine has {available} of {total} available)")?;
        f.write_str("; use smaller buffers, run fewer ranks, or raise the memory limit")
    }
}

impl std::error::Error for Shortage {}

/// A size for people.
struct Bytes(u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(unit) = UNITS.iter().rev().find(|unit| self.0 >= unit.0) else {
            return write!(f, "{} bytes", self.0);
        };
        // Rounded down: what is there must not look like more than what was asked for.
        let tenths = u128::from(self.0) * 10 / u128::from(unit.0);
        write!(f, "{}.{} {}", tenths / 10, tenths % 10, unit.1)
    }
}

const UNITS: [(u64, &str); 4] =
    [(1 << 10, "KiB"), (1 << 20, "MiB"), (1 << 30, "GiB"), (1 << 40, "TiB")];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::GroupMemory;

    #[test]
    fn sizes_are_written_for_people() {
        let shown = |bytes| Bytes(bytes).to_string();
        assert_eq!(shown(1023), "1023 bytes");
        assert_eq!(shown(1 << 20), "1.0 MiB");
        assert_eq!(shown((3 << 30) - 1), "2.9 GiB");
        assert_eq!(shown(u64::MAX), "16777215.9 TiB");
    }

    #[test]
    fn a_shortage_says_what_was_asked_and_what_there_is() {
        let group = Some(GroupMemory { limit: 4 << 30, used: 3 << 30 });
        let memory = Memory { total: 8 << 30, available: 6 << 30, group, ..Memory::default() };
        let shortage = Shortage { asked: 2 << 30, memory, refusal: None };
        assert_eq!(
            shortage.to_string(),
            "no memory for 2.0 GiB to be shared: 1.0 GiB can still be had (the control group uses \
             3.0 GiB of 4.0 GiB, the machine has 6.0 GiB of 8.0 GiB available); use smaller \
             buffers, run fewer ranks, or raise the memory limit"
        );
        let refused = Shortage { refusal: Some(Errno::NOSPC), ..shortage };
        assert!(refused.to_string().contains("No space left"), "{refused}");
        let memory = Memory { unread: Some(Errno::MFILE), ..Memory::default() };
        let blind = Shortage { asked: 2 << 30, memory, refusal: None };
        assert!(blind.to_string().ends_with("/proc/meminfo: Too many open files (os error 24)"));
        let refused = Shortage { refusal: Some(Errno::NOSPC), ..blind };
        assert!(!refused.to_string().contains("0 bytes"), "{refused}");
    }
}
