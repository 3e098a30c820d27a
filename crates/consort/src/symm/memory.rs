//! The memory behind a handle.

use std::sync::Arc;

use consort_sys::window::Windows;

use super::block::Block;
use super::pool::Slot;

/// What a handle keeps: a block, or a part of a pool.
#[derive(Debug)]
pub(super) struct Memory {
    number: u64,
    keep: Keep,
}

#[derive(Debug)]
enum Keep {
    Block(Arc<Block>),
    Slot(Slot),
}

impl Memory {
    /// A whole block, for a request of this number.
    pub(super) fn of_block(number: u64, block: Arc<Block>) -> Self {
        Self { number, keep: Keep::Block(block) }
    }

    /// A part of a pool, for a request of this number.
    pub(super) fn of_pool(number: u64, slot: Slot) -> Self {
        Self { number, keep: Keep::Slot(slot) }
    }

    /// The number of the request, by which errors call it.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Where in its block it begins.
    pub(super) fn offset(&self) -> usize {
        match &self.keep {
            Keep::Block(_) => 0,
            Keep::Slot(slot) => slot.offset(),
        }
    }

    #[inline]
    pub(super) fn windows(&self) -> &Arc<Windows> {
        match &self.keep {
            Keep::Block(block) => block.windows(),
            Keep::Slot(slot) => slot.windows(),
        }
    }
}
