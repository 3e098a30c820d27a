//! Who has come how far: the protocol. The README beside this file has its states, its invariants
//! and the scenarios by name; the models are in `models.rs`.

use std::time::Duration;

use crate::word::{Word, announce, doze};

/// The words that the ranks of a group share.
pub(crate) trait Lines {
    /// A word of this kind of memory.
    type Word: Word;

    /// The step word of one of a rank's lines. Only that rank writes it.
    fn step(&self, rank: usize, line: usize) -> &Self::Word;
    /// How many sleep on a rank's step words.
    fn sleepers(&self, rank: usize) -> &Self::Word;
}

/// One rank's knowledge of the others' progress.
#[derive(Debug)]
pub(crate) struct Steps {
    me: usize,
    depth: u32,
    lag: u32,
    /// How far each rank was known to be when last looked at.
    seen: Vec<u32>,
    /// Whether one was looked at since this was last asked.
    looked: bool,
}

impl Steps {
    /// Before the first step. `depth`, a power of two, is how many lines each rank has; `lag`, how
    /// many steps before its last post a rank may still read.
    pub(crate) fn new(me: usize, world: usize, depth: u32, lag: u32) -> Self {
        assert!(me < world && depth.is_power_of_two() && lag < depth);
        Self { me, depth, lag, seen: vec![0; world], looked: false }
    }

    pub(crate) fn line_of(&self, step: u32) -> usize {
        (step & (self.depth - 1)) as usize
    }

    /// Whether a rank has posted a step.
    #[inline]
    pub(crate) fn has_posted(&mut self, lines: &impl Lines, rank: usize, step: u32) -> bool {
        if reaches(self.seen[rank], step) {
            return true;
        }
        let posted = lines.step(rank, self.line_of(step)).read();
        if reaches(posted, step) {
            self.seen[rank] = posted;
            self.looked = true;
            return true;
        }
        false
    }

    /// The first other rank that keeps this one from writing what belongs to a step, of which there
    /// are `places` used in turn, because it may still be reading what was there before; and the step
    /// that it has to post first.
    #[inline]
    pub(crate) fn in_the_way(
        &mut self,
        lines: &impl Lines,
        step: u32,
        places: u32,
    ) -> Option<(usize, u32)> {
        debug_assert!(self.lag < places && places <= self.depth);
        let first_after = step.wrapping_sub(places).wrapping_add(1 + self.lag);
        Some((self.behind(lines, first_after)?, first_after))
    }

    /// The ranks that were last seen at just this step, if any was looked at since this was last
    /// asked.
    #[inline]
    pub(crate) fn just_seen_at(&mut self, step: u32) -> impl Iterator<Item = usize> {
        let world = if std::mem::take(&mut self.looked) { self.seen.len() } else { 0 };
        (0..world).filter(move |&rank| self.seen[rank] == step)
    }

    /// The first other rank that has not posted a step.
    #[inline]
    pub(crate) fn behind(&mut self, lines: &impl Lines, step: u32) -> Option<usize> {
        (0..self.seen.len()).find(|&rank| rank != self.me && !self.has_posted(lines, rank, step))
    }

    /// Says that this rank's data of a step is there, and that it reads nothing any more of steps
    /// that are more than the lag before it.
    #[inline]
    pub(crate) fn post(&mut self, lines: &impl Lines, step: u32) {
        self.seen[self.me] = step;
        announce(lines.step(self.me, self.line_of(step)), lines.sleepers(self.me), step);
    }

    /// Sleeps until a rank posts a step, or the limit passes, or for no reason.
    pub(crate) fn doze(&self, lines: &impl Lines, rank: usize, step: u32, limit: Duration) {
        let word = lines.step(rank, self.line_of(step));
        doze(word, lines.sleepers(rank), |posted| reaches(posted, step), limit);
    }
}

/// Steps wrap around. Nobody is ever more than a few steps ahead of anybody, so the smaller way
/// around tells who is ahead.
#[inline]
pub(crate) fn reaches(posted: u32, step: u32) -> bool {
    posted.wrapping_sub(step) as i32 >= 0
}
