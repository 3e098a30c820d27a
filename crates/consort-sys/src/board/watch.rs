//! What other threads hold of a board.

use super::steps::{Lines, reaches};
use super::{Blocks, Entry};
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

    /// How many bytes a verdict can have.
    pub const VERDICT: usize = 1024;

    /// Tells every rank that the group has ended and why, and wakes all of them. Only what the first
    /// of all ranks says counts, and of that only what it says first: everybody hears the same.
    ///
    /// # Panics
    /// When the verdict is longer than [it can be](Self::VERDICT).
    pub fn halt(&self, verdict: &[u8]) {
        self.blocks.halt(self.me, verdict);
    }

    /// Whether somebody has ended the group.
    #[inline]
    pub fn is_halted(&self) -> bool {
        self.blocks.is_halted(self.me)
    }

    /// The last call that a rank has noted, if it has made any.
    pub fn last_call(&self, rank: usize) -> Option<Entry> {
        self.blocks.0[rank].history().entries().pop()
    }

    /// How the group has ended, if it has.
    pub fn end(&self) -> Option<End> {
        self.blocks.end(self.me)
    }
}

/// How a group has ended. It is made of what another process has written, and may be wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// A rank has ended it.
    By {
        /// Who.
        rank: usize,
        /// What it says of it, with zeroes after it.
        verdict: Vec<u8>,
    },
    /// It has ended, but by nobody that there is.
    Nonsense {
        /// What says so.
        word: u32,
    },
}
