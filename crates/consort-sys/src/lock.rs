//! A lock in shared memory that tells who has it: the protocol. `lock/README.md` has its states,
//! its invariants and the scenarios by name; the models are in `models.rs`.

#[cfg(test)]
mod models;
#[cfg(test)]
mod tests;

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
    /// How many threads of a rank wait to be alone. Only that rank writes it.
    fn wishes(&self, rank: usize) -> &Self::Word;
}

/// A state that no rank could have left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the lock of its window is in state {0:#x}, which cannot be")]
pub(crate) struct Nonsense(u32);

/// Lets a rank in alone, if nobody is in.
#[inline]
pub(crate) fn try_alone(latch: &impl Latch, me: usize) -> bool {
    let (state, mine) = (latch.state(), (me as u32 + 1) << HOLDER);
    match state.replace(FREE, mine) {
        Ok(()) => true,
        // Others who want it, too, will say so again.
        Err(WANTED) => state.replace(WANTED, mine).is_ok(),
        Err(_) => false,
    }
}

/// Lets the rank out that was in alone.
#[inline]
pub(crate) fn end_alone(latch: &impl Latch) {
    // Nobody changes the state while somebody is in alone.
    announce(latch.state(), latch.sleepers(), FREE);
}

/// A rank's wish to be alone. While it lives, visitors are turned away who come after it was tried
/// in vain: one behind the other they could keep it waiting for ever.
pub(crate) struct Wish<'a, L: Latch> {
    latch: &'a L,
    me: usize,
}

impl<'a, L: Latch> Wish<'a, L> {
    pub(crate) fn new(latch: &'a L, me: usize) -> Self {
        // Said before it is true, so that one who dies with a wish is known.
        latch.wishes(me).add(1);
        Self { latch, me }
    }

    /// Lets the rank in alone, if nobody is in; if visitors are, lets no more of them in.
    pub(crate) fn try_alone(&self) -> bool {
        let state = self.latch.state();
        while !try_alone(self.latch, self.me) {
            let seen = state.read();
            let are_visitors = is_open(seen) && seen != FREE;
            let is_free = seen & !WANTED == FREE;
            if !is_free && (!are_visitors || state.replace(seen, seen | WANTED).is_ok()) {
                return false;
            }
        }
        true
    }
}

impl<L: Latch> Drop for Wish<'_, L> {
    fn drop(&mut self) {
        let Self { latch, me } = self;
        latch.wishes(*me).add(1_u32.wrapping_neg());
        let state = latch.state();
        let mut seen = state.read();
        while seen >> HOLDER == 0 && seen & WANTED != 0 {
            match state.replace(seen, seen & !WANTED) {
                Ok(()) => return wake(*latch),
                Err(now) => seen = now,
            }
        }
    }
}

/// Lets a rank in among visitors of other ranks, unless somebody is in alone or wants to be.
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
    // If there are no visitors somebody has damaged the lock: whoever waits next will say so.
    while seen & VISITORS != 0 {
        match state.replace(seen, seen - 1) {
            Ok(()) => break,
            Err(now) => seen = now,
        }
    }
    // Its fence is for both words: the sleeper's count is seen here, or what was written there.
    announce(latch.visit(me), latch.sleepers(), FREE);
    if seen & VISITORS <= 1 && is_wanted(latch) {
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
    doze(latch.state(), latch.sleepers(), |state| state & !WANTED == FREE, limit);
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
pub(crate) fn holders(latch: &impl Latch, world: usize) -> Result<Vec<usize>, Nonsense> {
    let state = latch.state().read();
    let (holder, visitors) = ((state >> HOLDER) as usize, (state & VISITORS) as usize);
    match holder.checked_sub(1) {
        Some(holder) if holder < world && state & (WANTED | VISITORS) == 0 => Ok(vec![holder]),
        None if visitors == 0 => Ok(Vec::new()),
        None if visitors <= world => Ok(said(world, |rank| latch.visit(rank))),
        _ => Err(Nonsense(state)),
    }
}

/// Who of so many ranks keeps visitors out at this moment, or may do so: who is in, or wants to be
/// alone.
pub(crate) fn hosts(latch: &impl Latch, world: usize) -> Result<Vec<usize>, Nonsense> {
    let mut ranks = holders(latch, world)?;
    ranks.extend(said(world, |rank| latch.wishes(rank)));
    ranks.sort_unstable();
    ranks.dedup();
    Ok(ranks)
}

/// The ranks whose word says something.
fn said<'a, W: Word + 'a>(world: usize, word: impl Fn(usize) -> &'a W) -> Vec<usize> {
    (0..world).filter(|&rank| word(rank).read() != FREE).collect()
}

/// As `announce` does it, for a state that is written already.
fn wake<L: Latch>(latch: &L) {
    <L::Word as Word>::fence();
    if is_wanted(latch) {
        latch.state().wake();
    }
}

/// Whether one more visitor may come in.
fn is_open(state: u32) -> bool {
    state < VISITORS
}

const FREE: u32 = 0;
/// From this bit on is the rank that is in alone, plus one.
const HOLDER: u32 = 16;
/// Somebody wants to be alone, and waits for visitors to leave.
const WANTED: u32 = 1 << 15;
/// The number of visitors.
const VISITORS: u32 = WANTED - 1;
/// The most ranks whose visits can be counted, and who can be named.
pub(crate) const MOST_RANKS: usize = VISITORS as usize;
