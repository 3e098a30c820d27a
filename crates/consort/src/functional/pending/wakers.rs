//! Those who want to be woken when a value is there.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

/// Any number of them. They are woken together: one waker for whoever takes only one.
#[derive(Default)]
pub(super) struct Wakers(Mutex<Vec<Waker>>);

impl Wakers {
    /// Remembers one, once.
    pub(super) fn add(&self, waker: &Waker) {
        let mut wakers = self.lock();
        if !wakers.iter().any(|known| known.will_wake(waker)) {
            wakers.push(waker.clone());
        }
    }

    /// Wakes all, and forgets them.
    pub(super) fn wake_all(&self) {
        let wakers = std::mem::take(&mut *self.lock());
        wakers.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Waker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Wakers {
    fn wake(self: Arc<Self>) {
        self.wake_all();
    }
}
