//! Memory for a part of an arena, and giving it back.
//!
//! A page that is touched without having been committed takes its memory at that moment, and if
//! there is none the process is killed. Committing asks beforehand. But the kernel too would
//! rather kill a process than say no: it promises more than there is. So it is not asked for more
//! than can be had, as far as that can be known. Ranks of a host ask at the same moment, as they
//! make the same calls: they take [turns](super::turns).

use std::os::fd::BorrowedFd;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use super::error::{ArenaError, Shortage};
use super::turns::Turns;
use crate::memory::Memory;

/// Takes memory for all of a part, or for none of it. What it holds already stays, unless it
/// fails.
pub(super) fn commit(
    fd: BorrowedFd<'_>,
    offset: usize,
    len: usize,
    turns: Option<&Turns>,
) -> Result<(), ArenaError> {
    let mut done = 0;
    while done < len {
        let step = STEP.min(len - done);
        if let Err(reason) = commit_step(fd, offset + done, step, len - done, turns) {
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
    turns: Option<&Turns>,
) -> Result<(), Option<Errno>> {
    let mut turn = None;
    if to_come >= LOOK_FROM {
        turn = turns.map(|turns| turns.take(to_come, STEP));
        let usable = turn.as_ref().map_or_else(|| Memory::here().usable(), |turn| turn.usable);
        let needed = to_come.saturating_add(margin(to_come, turns.map_or(1, Turns::ranks)));
        if needed as u64 > usable {
            return Err(None);
        }
    }
    loop {
        match rustix::fs::fallocate(fd, FallocateFlags::KEEP_SIZE, offset as u64, len as u64) {
            Err(Errno::INTR) => continue,
            outcome => {
                drop(turn);
                return outcome.map_err(Some);
            }
        }
    }
}

/// What has to be left: each rank's tables of pages take memory as well, when the pages are used,
/// and whoever is told that there is not enough needs a little to hear it.
fn margin(bytes: usize, ranks: usize) -> usize {
    bytes / 64 + MARGIN + ranks.saturating_mul(MARGIN_OF_EACH)
}

/// Before Linux 6.9 a signal undoes the step that it interrupts; small steps end between two of
/// them.
const STEP: usize = 32 << 20;
/// Looking how much memory there is takes longer than committing less than this.
const LOOK_FROM: usize = 1 << 20;
const MARGIN: usize = 1 << 20;
const MARGIN_OF_EACH: usize = 256 << 10;
