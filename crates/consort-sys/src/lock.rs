//! A lock in shared memory that tells who has it: the protocol. `lock/README.md` has its states,
//! its invariants and the scenarios by name; the models are in `models.rs`.

#[cfg(test)]
mod models;

use std::time::Duration;

use crate::word::{Word, announce, doze};

/// The words of a lock.
pub(crate) trait Latch {
    /// A word of this kind of memory.
    type Word: Word;

    /// Who is in.
    fn state(&self) -> &Self::Word;
    /// How many sleep on any word of the lock.
    fn sleepers(&self) -> &Self::Word;
    /// Whether a rank visits. Only that rank writes it.
    fn visit(&self, rank: usize) -> &Self::Word;
}

/// Lets a rank in alone, if nobody is in.
#[inline]
pub(crate) fn try_alone(latch: &impl Latch, me: usize) -> bool {
    latch.state().replace(FREE, (me as u32 + 1) << HOLDER).is_ok()
}

/// Lets the rank out that was in alone.
#[inline]
pub(crate) fn end_alone(latch: &impl Latch) {
    // Nobody changes the state while somebody is in alone.
    announce(latch.state(), latch.sleepers(), FREE);
}

/// Lets a rank in among visitors of other ranks, unless somebody is in alone.
#[inline]
pub(crate) fn try_visit(latch: &impl Latch, me: usize) -> bool {
    let state = latch.state();
    let mut seen = state.read();
    // Said before it is true, so that a visitor who dies is known.
    if !is_open(seen) || latch.visit(me).replace(FREE, 1).is_err() {
        return false;
    }
    while is_open(seen) {
        match state.replace(seen, seen + 1) {
            Ok(()) => return true,
            Err(now) => seen = now,
        }
    }
    announce(latch.visit(me), latch.sleepers(), FREE);
    false
}

/// Lets a visitor out.
#[inline]
pub(crate) fn end_visit(latch: &impl Latch, me: usize) {
    let state = latch.state();
    let mut seen = state.read();
    while let Err(now) = state.replace(seen, seen - 1) {
        seen = now;
    }
    // Its fence is for both words: the sleeper's count is seen here, or what was written there.
    announce(latch.visit(me), latch.sleepers(), FREE);
    if seen == 1 && is_wanted(latch) {
        state.wake();
    }
}

/// Whether somebody wants in and sleeps.
#[inline]
pub(crate) fn is_wanted(latch: &impl Latch) -> bool {
    latch.sleepers().read() != 0
}

/// Sleeps until a rank can be in alone, or the limit passes, or for no reason.
pub(crate) fn doze_alone(latch: &impl Latch, limit: Duration) {
    doze(latch.state(), latch.sleepers(), |state| state == FREE, limit);
}

/// Sleeps until a rank can come in as a visitor, or the limit passes, or for no reason.
pub(crate) fn doze_visit(latch: &impl Latch, me: usize, limit: Duration) {
    if latch.visit(me).read() == FREE {
        doze(latch.state(), latch.sleepers(), is_open, limit);
    } else {
        doze(latch.visit(me), latch.sleepers(), |visit| visit == FREE, limit);
    }
}

/// Who of so many ranks is in at this moment.
pub(crate) fn holders(latch: &impl Latch, world: usize) -> Vec<usize> {
    let state = latch.state().read();
    match (state >> HOLDER).checked_sub(1) {
        Some(holder) => vec![holder as usize],
        None if state == FREE => Vec::new(),
        None => (0..world).filter(|&rank| latch.visit(rank).read() != FREE).collect(),
    }
}

fn is_open(state: u32) -> bool {
    state >> HOLDER == 0
}

const FREE: u32 = 0;
/// From this bit on is the rank that is in alone, plus one; below, the number of visitors.
const HOLDER: u32 = 16;
/// The most ranks whose visits can be counted, and who can be named.
pub(crate) const MOST_RANKS: usize = (1 << HOLDER) - 1;
