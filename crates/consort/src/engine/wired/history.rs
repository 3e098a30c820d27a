//! The calls that this rank has made last.

use std::ops::RangeInclusive;

use crate::call::Description;
use crate::wire::Switch;

/// What a rank knows of its own calls: what it can tell when another makes different ones.
#[derive(Debug)]
pub(super) struct History {
    number: u64,
    digest: u64,
    /// The last calls, each at its number modulo the length.
    last: [Option<Entry>; LAST],
}

/// A call that was made.
#[derive(Clone, Copy, Debug)]
struct Entry {
    number: u64,
    digest: u64,
    call: [u64; 2],
}

impl Default for History {
    fn default() -> Self {
        Self { number: 0, digest: 0, last: [None; LAST] }
    }
}

impl History {
    /// Counts a call.
    pub(super) fn note(&mut self, description: &Description) {
        self.number += 1;
        self.digest = description.digest(self.digest);
        let Self { number, digest, .. } = *self;
        let entry = Entry { number, digest, call: description.pack() };
        self.last[number as usize % LAST] = Some(entry);
    }

    /// How many calls were made.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// A digest of all of them.
    pub(super) fn digest(&self) -> u64 {
        self.digest
    }

    /// What a call was, and the digest of all up to it, if it is not too long ago.
    pub(super) fn find(&self, number: u64) -> Option<([u64; 2], u64)> {
        let entry = self.last[number as usize % LAST].filter(|entry| entry.number == number)?;
        Some((entry.call, entry.digest))
    }

    /// The numbers of the last calls, the first of them first.
    pub(super) fn numbers(&self) -> RangeInclusive<u64> {
        self.number.saturating_sub(LAST as u64 - 1).max(1)..=self.number
    }
}

const LAST: usize = Switch::ASKS;
