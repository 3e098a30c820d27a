//! Until when others wait for what a group's call is a part of.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use consort_store::Deadline;

/// The deadlines of those who stand in a line elsewhere, by their places in it. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deadlines(Arc<Mutex<BTreeMap<u64, Deadline>>>);

impl Deadlines {
    /// Whoever has this place waits until then.
    pub(crate) fn add(&self, place: u64, until: Deadline) {
        self.lock().insert(place, until);
    }

    /// Whoever has this place waits no more.
    pub(crate) fn remove(&self, place: u64) {
        self.lock().remove(&place);
    }

    /// Until when all of them wait.
    pub(crate) fn soonest(&self) -> Deadline {
        self.lock().values().copied().fold(Deadline::never(), Deadline::min)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Deadline>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
