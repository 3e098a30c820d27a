//! Words for models: loom tries every interleaving of what is done to them.

use std::time::Duration;

use loom::sync::atomic::{AtomicU32, Ordering, fence};
use loom::sync::{Condvar, Mutex};

use super::{Word, accesses};

/// A word whose sleep has no limit: a wake-up that is lost is a deadlock, which loom reports.
pub(crate) struct ModelWord {
    value: AtomicU32,
    bed: Mutex<()>,
    bell: Condvar,
}

impl ModelWord {
    pub(crate) fn new() -> Self {
        Self { value: AtomicU32::new(0), bed: Mutex::new(()), bell: Condvar::new() }
    }
}

impl Word for ModelWord {
    accesses! { word, fence, word.value }

    /// As the system does it: the last look and going to sleep are one for whoever wakes.
    fn sleep(&self, seen: u32, _limit: Duration) {
        let bed = self.bed.lock().unwrap();
        if self.value.load(Ordering::Relaxed) == seen {
            drop(self.bell.wait(bed).unwrap());
        }
    }

    fn wake(&self) {
        drop(self.bed.lock().unwrap());
        self.bell.notify_all();
    }
}

/// Tries a scenario with every interleaving of so few preemptions as faults usually need.
pub(crate) fn model(scenario: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(scenario);
}
