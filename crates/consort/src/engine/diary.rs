//! What is written down of a group's calls.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use consort_sys::record::Journal;

use crate::call::Description;

/// A group's journal, if it has one. Clones are the same. It is written by those who carry out the
/// group's calls, one at a time.
#[derive(Clone, Debug, Default)]
pub(super) struct Diary {
    journal: Arc<OnceLock<Journal>>,
}

impl Diary {
    /// Keeps it in this journal, from now on and for good.
    pub(super) fn keep_in(&self, journal: Journal) {
        // A group is formed once.
        let _ = self.journal.set(journal);
    }

    /// A call begins.
    #[inline]
    pub(super) fn begin(&self, number: u64, call: &Description) {
        if let Some(journal) = self.journal.get() {
            journal.begin(number, call.pack());
        }
    }

    /// It has ended.
    #[inline]
    pub(super) fn end(&self, number: u64, call: &Description, is_good: bool) {
        if let Some(journal) = self.journal.get() {
            journal.end(number, call.bytes(), is_good);
        }
    }

    /// It waits for a rank, and has done so for a while.
    pub(super) fn wait_for(&self, number: u64, rank: usize) {
        if let Some(journal) = self.journal.get() {
            journal.wait_for(number, rank as u32);
        }
    }

    /// Calls are queued, up to this one.
    pub(super) fn queue(&self, last: u64) {
        if let Some(journal) = self.journal.get() {
            journal.queue(last);
        }
    }

    /// The call that begins next was queued for so long.
    pub(super) fn was_queued(&self, time: Duration) {
        if let Some(journal) = self.journal.get() {
            journal.was_queued(time);
        }
    }
}
