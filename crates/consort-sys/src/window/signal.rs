//! Counts that only grow, by which a rank tells another that it has done something: the protocol.
//! The README beside this file has its invariants; the models are in `models.rs`.

use std::time::Duration;

use crate::word::{Word, doze};

/// Counts one more, and wakes who waits for it. Returns the new count.
#[inline]
pub(crate) fn raise<W: Word>(count: &W, sleepers: &W) -> u32 {
    let mut seen = count.read();
    // Threads of one rank may signal at once.
    while let Err(now) = count.replace(seen, seen.wrapping_add(1)) {
        seen = now;
    }
    wake(count, sleepers);
    seen.wrapping_add(1)
}

/// Takes one signal, if there is one that was not taken yet.
#[inline]
pub(crate) fn take<W: Word>(count: &W, taken: &W) -> bool {
    let mut seen = taken.read();
    // Threads of one rank may wait at once: each signal is for one of them.
    while count.read() != seen {
        match taken.replace(seen, seen.wrapping_add(1)) {
            Ok(()) => return true,
            Err(now) => seen = now,
        }
    }
    false
}

/// How many signals were not taken yet.
pub(crate) fn waiting<W: Word>(count: &W, taken: &W) -> u32 {
    // In this order, as the count is never behind.
    let taken = taken.read();
    count.read().wrapping_sub(taken)
}

/// Sleeps until there is a signal to take, or the limit passes, or for no reason.
pub(crate) fn doze_for_more<W: Word>(count: &W, sleepers: &W, taken: &W, limit: Duration) {
    doze(count, sleepers, |count| count != taken.read(), limit);
}

/// Whether so much was counted.
#[inline]
pub(crate) fn reaches<W: Word>(count: &W, goal: u32) -> bool {
    is_at(count.read(), goal)
}

/// Sleeps until so much is counted, or the limit passes, or for no reason.
pub(crate) fn doze_until<W: Word>(count: &W, sleepers: &W, goal: u32, limit: Duration) {
    doze(count, sleepers, |count| is_at(count, goal), limit);
}

/// Counts wrap around. Nobody is more than a barrier ahead of anybody, so the smaller way around
/// tells who is ahead.
fn is_at(count: u32, goal: u32) -> bool {
    count.wrapping_sub(goal) as i32 >= 0
}

/// As `announce` does it, for a word that is written already.
#[inline]
fn wake<W: Word>(count: &W, sleepers: &W) {
    W::fence();
    if sleepers.read() != 0 {
        count.wake();
    }
}
