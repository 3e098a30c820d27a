//! Where the words are: each rank has a block that all others map.

use std::sync::atomic::{AtomicU32, AtomicU64};

use super::LINE;
use crate::arena::Arena;

/// One rank's block: its bell, then for every rank the words of the ring to it.
///
/// The words that different ranks write are two lines apart, because some processors fetch lines in
/// pairs.
#[derive(Clone, Debug)]
pub(super) struct Block {
    arena: Arena,
    offset: usize,
}

impl Block {
    pub(super) const fn bytes(world: usize) -> usize {
        APART * (1 + 2 * world)
    }

    pub(super) fn new((arena, offset): &(Arena, usize), world: usize) -> Option<Self> {
        arena.view(*offset, Self::bytes(world))?;
        offset.is_multiple_of(LINE).then(|| Self { arena: arena.clone(), offset: *offset })
    }

    pub(super) fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Changes when somebody did something for this block's rank while it slept.
    #[inline]
    pub(super) fn bell(&self) -> &AtomicU32 {
        self.word(0)
    }

    /// How many of its threads sleep on the bell.
    #[inline]
    pub(super) fn sleepers(&self) -> &AtomicU32 {
        self.word(4)
    }

    /// Not zero once its rank has left.
    #[inline]
    pub(super) fn left(&self) -> &AtomicU32 {
        self.word(8)
    }

    /// How many lines its rank has written to another.
    #[inline]
    pub(super) fn head(&self, to: usize) -> &AtomicU32 {
        self.word(APART * (1 + 2 * to))
    }

    /// Where in the arena the ring to another rank is. Its rank writes it once, before the head.
    #[inline]
    pub(super) fn place(&self, to: usize) -> &AtomicU64 {
        let offset = self.offset + APART * (1 + 2 * to) + 8;
        // SAFETY: this place is used as a word of eight bytes, and nothing else.
        let word = unsafe { self.arena.word64(offset) };
        word.expect("the block is within its arena")
    }

    /// How many of these lines the other has read. Of the words in a block, other ranks write only
    /// this one, the next, and the bell.
    #[inline]
    pub(super) fn tail(&self, to: usize) -> &AtomicU32 {
        self.word(APART * (2 + 2 * to))
    }

    /// How many messages the other has fetched from where they were. Written by the other, too.
    #[inline]
    pub(super) fn fetched(&self, to: usize) -> &AtomicU32 {
        self.word(APART * (2 + 2 * to) + 4)
    }

    #[inline]
    fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: the places that this is asked for are used as words of four bytes, and nothing
        // else: a block is never viewed.
        let word = unsafe { self.arena.word(self.offset + offset) };
        word.expect("the block is within its arena")
    }
}

const APART: usize = 2 * LINE;
