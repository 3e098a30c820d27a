//! The control block of a window: where its words are.
//!
//! | line | words |
//! |---|---|
//! | 0 | the lock: its state, its sleepers |
//! | 1 + *r* | whether rank *r* visits, how many of its threads wait to be alone, whether it has left |
//! | 1 + world + *c* · world + *r* | what rank *r* signals on channel *c* |

use std::sync::atomic::AtomicU32;

use super::{LINE, Shape};
use crate::arena::Arena;
use crate::lock::Latch;

/// One rank's control block.
#[derive(Clone, Copy)]
pub(super) struct Control<'a> {
    arena: &'a Arena,
    start: usize,
    shape: Shape,
}

impl<'a> Control<'a> {
    /// At a place that was checked.
    pub(super) fn new(arena: &'a Arena, start: usize, shape: Shape) -> Self {
        Self { arena, start, shape }
    }

    pub(super) fn bytes(shape: Shape) -> Option<usize> {
        let pads = shape.channels.checked_mul(shape.world)?;
        FIRST.checked_add(shape.world)?.checked_add(pads)?.checked_mul(LINE)
    }

    /// What a rank signals to this one.
    ///
    /// # Panics
    /// When there is no such rank or channel.
    #[inline]
    pub(super) fn line(self, channel: usize, from: usize) -> Line<'a> {
        let Shape { world, channels, .. } = self.shape;
        assert!(channel < channels && from < world, "no channel {channel} of rank {from}");
        Line { control: self, line: FIRST + world + channel * world + from }
    }

    /// Whether a rank has left. Only that rank writes it.
    #[inline]
    pub(super) fn left(self, rank: usize) -> &'a AtomicU32 {
        self.word(FIRST + rank, 8)
    }

    #[inline]
    fn word(self, line: usize, at: usize) -> &'a AtomicU32 {
        // SAFETY: a control block is made of words, and these are all of four bytes. It is viewed as
        // bytes only in `Windows::clear`, which borrows the windows mutably.
        let word = unsafe { self.arena.word(self.start + line * LINE + at) };
        word.expect("the block was checked")
    }
}

impl Latch for Control<'_> {
    type Word = AtomicU32;

    #[inline]
    fn state(&self) -> &AtomicU32 {
        self.word(0, 0)
    }

    #[inline]
    fn sleepers(&self) -> &AtomicU32 {
        self.word(0, 4)
    }

    #[inline]
    fn visit(&self, rank: usize) -> &AtomicU32 {
        self.word(FIRST + rank, 0)
    }

    #[inline]
    fn wishes(&self, rank: usize) -> &AtomicU32 {
        self.word(FIRST + rank, 4)
    }
}

/// What one rank signals to another on one channel.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    control: Control<'a>,
    line: usize,
}

impl<'a> Line<'a> {
    /// How many signals were sent. Only the sender writes it.
    #[inline]
    pub(super) fn signals(self) -> &'a AtomicU32 {
        self.word(0)
    }

    /// How many sleep on that.
    #[inline]
    pub(super) fn signal_sleepers(self) -> &'a AtomicU32 {
        self.word(4)
    }

    /// How many signals were waited for. Only the receiver writes it.
    #[inline]
    pub(super) fn taken(self) -> &'a AtomicU32 {
        self.word(8)
    }

    /// To how many barriers the sender has come. Only it writes that.
    #[inline]
    pub(super) fn arrivals(self) -> &'a AtomicU32 {
        self.word(16)
    }

    /// How many sleep on that.
    #[inline]
    pub(super) fn arrival_sleepers(self) -> &'a AtomicU32 {
        self.word(20)
    }

    #[inline]
    fn word(self, at: usize) -> &'a AtomicU32 {
        self.control.word(self.line, at)
    }
}

/// The lines before those of the ranks.
const FIRST: usize = 1;
