//! What every process has one of, whatever its parent did with its own.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::Origin;

/// Something that is made in each process when that first asks for it, and stays. It is meant for a
/// `static`.
///
/// A forked child finds its parent's as it was left: a lock that another thread held, or a
/// [`OnceLock`](std::sync::OnceLock) that one was just about to fill, would keep it waiting for ever. So it
/// does not look at it, and has a new one. Nobody waits for anybody here: threads that ask first at the same
/// time may all make one, and one of these is kept.
///
/// ```
/// use consort_sys::origin::PerProcess;
/// use std::sync::Mutex;
///
/// static NAMES: PerProcess<Mutex<Vec<String>>> = PerProcess::new(Mutex::default);
///
/// NAMES.here().lock().unwrap().push("Ada".to_owned());
/// assert_eq!(*NAMES.here().lock().unwrap(), ["Ada"]);
/// ```
#[derive(Debug)]
pub struct PerProcess<T> {
    /// The one of this process, or of one that it was forked from; null if none has asked. What was ever put
    /// here is not taken back.
    latest: AtomicPtr<Made<T>>,
    make: fn() -> T,
}

#[derive(Debug)]
struct Made<T> {
    origin: Origin,
    value: T,
}

impl<T: Send + Sync + 'static> PerProcess<T> {
    /// One that is made so.
    pub const fn new(make: fn() -> T) -> Self {
        Self { latest: AtomicPtr::new(ptr::null_mut()), make }
    }

    /// This process's.
    #[inline]
    pub fn here(&self) -> &'static T {
        // With the exchange below: whoever finds it finds it whole.
        let latest = self.latest.load(Ordering::Acquire);
        // SAFETY: it was leaked below, and nobody has it but to read.
        match unsafe { latest.as_ref() } {
            Some(made) if made.origin.is_here() => &made.value,
            _ => self.begin_anew(latest),
        }
    }

    #[cold]
    fn begin_anew(&self, before: *mut Made<T>) -> &'static T {
        let made = Made { origin: Origin::here(), value: (self.make)() };
        let new = Box::into_raw(Box::new(made));
        match self.latest.compare_exchange(before, new, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: it was leaked above, and nobody has it but to read from here on.
            Ok(_) => unsafe { &(*new).value },
            Err(earlier) => {
                // SAFETY: it was leaked above, and nobody has heard of it.
                drop(unsafe { Box::from_raw(new) });
                // SAFETY: another thread of this process has leaked it here, and nobody has it but to read.
                unsafe { &(*earlier).value }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Barrier, Mutex};
    use std::thread;

    use super::super::tests::in_a_child;
    use super::*;

    #[test]
    fn a_child_has_its_own_though_its_parent_holds_the_other() {
        static NUMBER: PerProcess<Mutex<i32>> = PerProcess::new(|| Mutex::new(10));
        let mut held = NUMBER.here().lock().unwrap();
        *held = 20;
        let found = in_a_child(|| {
            *NUMBER.here().lock().unwrap() += 1;
            let grandchild = in_a_child(|| *NUMBER.here().lock().unwrap());
            *NUMBER.here().lock().unwrap() + 5 * grandchild
        });
        assert_eq!(found, 11 + 5 * 10);
        drop(held);
        assert_eq!(*NUMBER.here().lock().unwrap(), 20);
    }

    #[test]
    fn all_threads_have_the_same_though_they_ask_at_the_same_time() {
        static NUMBER: PerProcess<Mutex<usize>> = PerProcess::new(Mutex::default);
        let all_come = Barrier::new(8);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    all_come.wait();
                    *NUMBER.here().lock().unwrap() += 1;
                });
            }
        });
        assert_eq!(*NUMBER.here().lock().unwrap(), 8);
    }
}
