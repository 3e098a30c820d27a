//! What is written down of a group's calls.

use std::panic::Location;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use consort_sys::record::Journal;

use super::verdict::Cause;
use crate::call::Description;

/// A group's journal, if it has one. Clones are the same. It is written by those who carry out the
/// group's calls, one at a time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Diary {
    journal: Arc<OnceLock<Journal>>,
}

impl Diary {
    /// Keeps it in this journal, from now on and for good.
    pub(super) fn keep_in(&self, journal: Journal) {
        // A group is formed once.
        let _ = self.journal.set(journal);
    }

    /// A call begins, which was made here, if that is known.
    #[inline]
    pub(crate) fn begin(
        &self,
        number: u64,
        call: &Description,
        site: Option<&'static Location<'static>>,
    ) {
        if let Some(journal) = self.journal.get() {
            journal.begin(number, call.pack(), site);
        }
    }

    /// It has ended, and has combined numbers for so long, by a stopwatch.
    #[inline]
    pub(crate) fn end(&self, number: u64, call: &Description, is_good: bool, combined: u64) {
        if let Some(journal) = self.journal.get() {
            journal.end(number, call.bytes(), is_good, combined);
        }
    }

    /// It waits for a rank, and has done so for a while.
    pub(super) fn wait_for(&self, number: u64, rank: usize) {
        if let Some(journal) = self.journal.get() {
            journal.wait_for(number, rank as u32);
        }
    }

    /// Calls are queued, up to this one.
    pub(crate) fn queue(&self, last: u64) {
        if let Some(journal) = self.journal.get() {
            journal.queue(last);
        }
    }

    /// The call that begins next was made here, and queued for so long.
    pub(crate) fn was_queued(&self, time: Duration, site: &'static Location<'static>) {
        if let Some(journal) = self.journal.get() {
            journal.was_queued(time, Some(site));
        }
    }

    /// What this rank has found, with the place where it has made the call, if that was noted.
    pub(super) fn located(&self, mut cause: Cause) -> Cause {
        let (number, call) = match &mut cause {
            Cause::Differs { number, mine, .. } => (*number, mine),
            Cause::Dead { waiting, .. }
            | Cause::Left { waiting, .. }
            | Cause::Late { waiting, .. } => (waiting.number, &mut waiting.call),
            _ => return cause,
        };
        if let Some(site) = self.journal.get().and_then(|journal| journal.site(number)) {
            call.push_str(" at ");
            call.push_str(&site);
        }
        cause
    }
}
