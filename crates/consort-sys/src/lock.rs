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
    /// How many sleep on the state.
    fn sleepers(&self) -> &Self::Word;
    /// How many visits a rank is making, at least. Only that rank writes it.
    fn visits(&self, rank: usize) -> &Self::Word;
}

/// Lets a rank in alone, if nobody is.
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

/// Lets a rank in among other visitors, unless somebody is in alone.
#[inline]
pub(crate) fn try_visit(latch: &impl Latch, me: usize) -> bool {
    let state = latch.state();
    let mut seen = state.read();
    if !is_open(seen) {
        return false;
    }
    // Noted before it is true, so that a visitor who dies is known.
    latch.visits(me).add(1);
    while is_open(seen) {
        match state.replace(seen, seen + 1) {
            Ok(()) => return true,
            Err(now) => seen = now,
        }
    }
    latch.visits(me).add(1_u32.wrapping_neg());
    false
}

/// Lets a visitor out.
#[inline]
pub(crate) fn end_visit<L: Latch>(latch: &L, me: usize) {
    let state = latch.state();
    let mut seen = state.read();
    while let Err(now) = state.replace(seen, seen - 1) {
        seen = now;
    }
    latch.visits(me).add(1_u32.wrapping_neg());
    if seen == 1 || seen == VISITORS {
        // As in `announce`: the sleeper's count is seen here, or the state is seen there.
        <L::Word as Word>::fence();
        if latch.sleepers().read() != 0 {
            state.wake();
        }
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

/// Sleeps until a visitor can come in, or the limit passes, or for no reason.
pub(crate) fn doze_visit(latch: &impl Latch, limit: Duration) {
    doze(latch.state(), latch.sleepers(), is_open, limit);
}

/// Who of so many ranks is in at this moment.
pub(crate) fn holders(latch: &impl Latch, world: usize) -> Vec<usize> {
    let state = latch.state().read();
    match (state >> HOLDER).checked_sub(1) {
        Some(holder) => vec![holder as usize],
        None if state == FREE => Vec::new(),
        None => (0..world).filter(|&rank| latch.visits(rank).read() != 0).collect(),
    }
}

fn is_open(state: u32) -> bool {
    state < VISITORS
}

const FREE: u32 = 0;
/// Above this bit is the rank that is in alone, plus one; below, the number of visitors.
const HOLDER: u32 = 16;
/// The most visitors there can be, and the most ranks.
pub(crate) const VISITORS: u32 = (1 << HOLDER) - 1;
