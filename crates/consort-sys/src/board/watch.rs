//! What other threads hold of a board.

use super::Blocks;
use super::steps::{Lines, reaches};
use crate::alert::Sleepers;
use std::sync::atomic::AtomicU32;

/// A step that a rank has yet to post: one of the things to
/// [sleep on](crate::alert::Alert::doze).
#[derive(Debug)]
pub struct Watch {
    blocks: Blocks,
    rank: usize,
    line: usize,
    step: u32,
}

impl Watch {
    pub(super) fn new(blocks: Blocks, rank: usize, line: usize, step: u32) -> Self {
        Self { blocks, rank, line, step }
    }
}

impl Sleepers for Watch {
    fn word(&self) -> &AtomicU32 {
        self.blocks.step(self.rank, self.line)
    }

    fn sleepers(&self) -> &AtomicU32 {
        self.blocks.sleepers(self.rank)
    }

    fn is_there(&self, value: u32) -> bool {
        reaches(value, self.step)
    }
}

/// Ends a group, or hears of its end, while another thread may be using its board.
#[derive(Clone, Debug)]
pub struct Alarm {
    blocks: Blocks,
    me: usize,
}

impl Alarm {
    pub(super) fn new(blocks: Blocks, me: usize) -> Self {
        Self { blocks, me }
    }

    /// As [`Board::halt`](super::Board::halt).
    pub fn halt(&self, reason: &str) {
        self.blocks.halt(self.me, reason);
    }

    /// As [`Board::halted_by`](super::Board::halted_by).
    #[inline]
    pub fn halted_by(&self) -> Option<(usize, String)> {
        self.blocks.halted(self.me)
    }
}
