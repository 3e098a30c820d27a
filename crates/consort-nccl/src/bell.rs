//! Waiting for somebody else, without a call of the system for those who do not wait.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, MutexGuard, PoisonError};

/// What tells those who wait that something has changed. The standard library's asks the system to wake others
/// whether or not there are any, which takes longer than most calls do otherwise.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    condition: Condvar,
    /// How many wait. It grows with the lock held that is waited with, so whoever has changed something under
    /// that lock sees all who have not seen the change.
    waiting: AtomicUsize,
}

impl Bell {
    /// Lets go of the lock until it is rung.
    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let guard = self.condition.wait(guard).unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        guard
    }

    /// Wakes all who wait: after something was changed with the lock held, be it held still or not.
    pub(crate) fn ring(&self) {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.condition.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::thread;

    use super::*;
    use crate::lock;

    #[test]
    fn nobody_who_waits_is_left_waiting() {
        let shared = Arc::new((Mutex::new(0_u32), Bell::default()));
        let threads: Vec<_> = (0..3)
            .map(|me| {
                let shared = shared.clone();
                thread::spawn(move || {
                    let (turn, bell) = &*shared;
                    for _ in 0..2000 {
                        let mut turn = lock(turn);
                        while *turn % 3 != me {
                            turn = bell.wait(turn);
                        }
                        *turn += 1;
                        drop(turn);
                        bell.ring();
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(*lock(&shared.0), 6000);
    }
}
