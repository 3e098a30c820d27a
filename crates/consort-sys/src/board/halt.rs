//! How a group ends, for the same reason on every rank: the protocol. The README beside this file has
//! its invariants; the models are in `models.rs`.

use crate::word::Word;

/// The words by which the ranks of a group hear of its end.
pub(crate) trait Ends {
    /// A word of this kind of memory.
    type Word: Word;

    /// How many ranks there are.
    fn world(&self) -> usize;
    /// Who has ended the group, for one rank to look at: its number plus one; 0 while nobody has.
    fn halted(&self, rank: usize) -> &Self::Word;
}

/// Ends the group for the reason that the rank `me` has written down, unless somebody was first, and
/// has every rank know who that was. Says who.
pub(crate) fn halt(ends: &impl Ends, me: usize) -> usize {
    // Of several who do it at once, the one is the first that finds the first rank's word free.
    let first = tell(ends, 0, me);
    for rank in 1..ends.world() {
        tell(ends, rank, first);
    }
    first
}

/// Who has ended the group, as far as a rank knows, if somebody has; or what its word says instead.
pub(crate) fn heard(ends: &impl Ends, me: usize) -> Option<Result<usize, u32>> {
    match ends.halted(me).read() {
        NOBODY => None,
        word => Some(named(ends, word).ok_or(word)),
    }
}

/// Has a rank know who has ended the group, unless it does. Says whom it knows of.
fn tell(ends: &impl Ends, rank: usize, by: usize) -> usize {
    let word = ends.halted(rank);
    let mut seen = NOBODY;
    while let Err(now) = word.replace(seen, by as u32 + 1) {
        if let Some(first) = named(ends, now) {
            return first;
        }
        // Somebody has scribbled on it.
        seen = now;
    }
    by
}

fn named(ends: &impl Ends, word: u32) -> Option<usize> {
    (word as usize).checked_sub(1).filter(|&rank| rank < ends.world())
}

const NOBODY: u32 = 0;
