//! Waiting for others to change something, without a call of the system by those for whom nobody waits.

use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::lock;

/// Something that others change, and that can be waited for. The standard library's condition asks the system to
/// wake others whether or not there are any, which takes longer than most calls do otherwise.
#[derive(Debug, Default)]
pub(crate) struct Watched<T> {
    inside: Mutex<Inside<T>>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Inside<T> {
    value: T,
    /// How many wait for a change.
    waiting: usize,
}

/// Leave to look at it, and to change it.
#[derive(Debug)]
pub(crate) struct Held<'a, T>(MutexGuard<'a, Inside<T>>);

impl<T> Watched<T> {
    pub(crate) fn lock(&self) -> Held<'_, T> {
        Held(lock(&self.inside))
    }

    /// Lets go of it until somebody has told of a change.
    pub(crate) fn wait<'a>(&self, Held(mut inside): Held<'a, T>) -> Held<'a, T> {
        inside.waiting += 1;
        let mut inside = self.changed.wait(inside).unwrap_or_else(PoisonError::into_inner);
        inside.waiting -= 1;
        Held(inside)
    }

    /// Lets go of what was changed, and tells all who wait.
    pub(crate) fn tell(&self, Held(inside): Held<'_, T>) {
        let waiting = inside.waiting;
        drop(inside);
        if waiting > 0 {
            self.changed.notify_all();
        }
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0.value
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    #[test]
    fn nobody_who_waits_is_left_waiting() {
        let turn = Arc::new(Watched::<u32>::default());
        let threads: Vec<_> = (0..3)
            .map(|me| {
                let turn = turn.clone();
                thread::spawn(move || {
                    for _ in 0..2000 {
                        let mut held = turn.lock();
                        while *held % 3 != me {
                            held = turn.wait(held);
                        }
                        *held += 1;
                        turn.tell(held);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(*turn.lock(), 6000);
    }
}
