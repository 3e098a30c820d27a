//! Memory for a part of an arena, and giving it back.
//!
//! A page that is touched without having been committed takes its memory at that moment, and if
//! there is none the process is killed. Committing asks beforehand. But the kernel too would
//! rather kill a process than say no: it promises more than there is. So it is not asked for more
//! than can be had, as far as that can be known; ranks that ask at the same moment see each
//! other's share taken as they go on.

use std::os::fd::BorrowedFd;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use super::error::{ArenaError, Shortage};
use crate::memory::Memory;

/// Takes memory for all of a part, or for none of it. What it holds already stays, unless it
/// fails.
pub(super) fn commit(fd: BorrowedFd<'_>, offset: usize, len: usize) -> Result<(), ArenaError> {
    let mut done = 0;
    while done < len {
        let step = STEP.min(len - done);
        if let Err(reason) = commit_step(fd, offset + done, step, len - done) {
            release(fd, offset, done + step);
            return Err(shortage(len, reason));
        }
        done += step;
    }
    Ok(())
}

/// Gives the memory of a part back. It reads as zeroes then. Says whether that worked.
pub(super) fn release(fd: BorrowedFd<'_>, offset: usize, len: usize) -> bool {
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(fd, punch, offset as u64, len as u64).is_ok()
}

pub(super) fn shortage(asked: usize, refusal: Option<Errno>) -> ArenaError {
    ArenaError::NoMemory(Box::new(Shortage { asked, memory: Memory::here(), refusal }))
}

/// Takes memory for one step when there is enough for all that is to come.
fn commit_step(
    fd: BorrowedFd<'_>,
    offset: usize,
    len: usize,
    to_come: usize,
) -> Result<(), Option<Errno>> {
    if to_come >= LOOK_FROM && to_come as u64 > Memory::here().usable() {
        return Err(None);
    }
    loop {
        match rustix::fs::fallocate(fd, FallocateFlags::KEEP_SIZE, offset as u64, len as u64) {
            Err(Errno::INTR) => continue,
            outcome => return outcome.map_err(Some),
        }
    }
}

/// Before Linux 6.9 a signal undoes the step that it interrupts; small steps end between two of
/// them.
const STEP: usize = 32 << 20;
/// Looking how much memory there is takes longer than committing less than this.
const LOOK_FROM: usize = 1 << 20;
