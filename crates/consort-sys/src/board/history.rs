//! The last calls of a rank, where the others can read them.

use std::sync::atomic::Ordering;

use super::{Block, Board, LINE, VERDICT};

/// One call, packed into words whose meaning is the caller's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The call's number in its group, from 1.
    pub number: u64,
    /// The digest of all calls up to it.
    pub digest: u64,
    /// What is called.
    pub call: [u64; 2],
}

/// A ring of entries in a rank's block. Only that rank writes it. Others read it after something
/// went wrong; an entry that is overwritten meanwhile is left out.
pub(super) struct History<'a> {
    block: &'a Block,
}

impl<'a> History<'a> {
    pub(super) fn new(block: &'a Block) -> Self {
        Self { block }
    }

    #[inline]
    pub(super) fn note(&self, entry: &Entry) {
        let at = START + (entry.number % ENTRIES) as usize * ENTRY;
        // The number is last and first, so that a reader sees whether it read a mixture.
        self.block.word64(at).store(0, Ordering::Release);
        self.block.word64(at + 8).store(entry.digest, Ordering::Release);
        self.block.word64(at + 16).store(entry.call[0], Ordering::Release);
        self.block.word64(at + 24).store(entry.call[1], Ordering::Release);
        self.block.word64(at).store(entry.number, Ordering::Release);
    }

    pub(super) fn entries(&self) -> Vec<Entry> {
        let mut entries: Vec<Entry> =
            (0..ENTRIES as usize).filter_map(|index| self.entry(START + index * ENTRY)).collect();
        entries.sort_unstable_by_key(|entry| entry.number);
        entries
    }

    fn entry(&self, at: usize) -> Option<Entry> {
        let read = |word: usize| self.block.word64(at + 8 * word).load(Ordering::Acquire);
        let number = read(0);
        let entry = Entry { number, digest: read(1), call: [read(2), read(3)] };
        (number != 0 && read(0) == number).then_some(entry)
    }
}

const START: usize = (2 + Board::DEPTH as usize) * LINE;
const ENTRY: usize = 32;
/// As many as fit before the verdict.
const ENTRIES: u64 = ((VERDICT - START) / ENTRY) as u64;
