//! A word that several processes share, and can sleep on.

#[cfg(test)]
pub(crate) mod model;

use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Duration;

use rustix::thread::futex;

/// What a protocol needs of a word. The protocols are written against this, so that their models
/// can check them with words whose every interleaving is tried.
pub(crate) trait Word {
    /// The value. What its writer did before is seen.
    fn read(&self) -> u32;
    /// Sets the value. Whoever reads it sees everything done before.
    fn write(&self, value: u32);
    /// Adds to the value, wrapping; says nothing about anything else.
    fn add(&self, delta: u32);
    /// Sets the value if it is `seen`, as reading and writing do; otherwise says what it is.
    fn replace(&self, seen: u32, value: u32) -> Result<(), u32>;
    /// Everything before it is seen by all before anything after it.
    fn fence();
    /// Sleeps while the value is `seen`, until woken, for no reason, or after the limit.
    fn sleep(&self, seen: u32, limit: Duration);
    /// Wakes all who sleep on it.
    fn wake(&self);
}

/// The accesses to a word's value, for the words of models as for real ones: what loom tries is
/// ordered as what runs.
macro_rules! accesses {
    ($atomic:ident, $fence:path, $value:expr) => {
        #[inline]
        fn read(&self) -> u32 {
            let $atomic = self;
            $value.load(Ordering::Acquire)
        }

        #[inline]
        fn write(&self, value: u32) {
            let $atomic = self;
            $value.store(value, Ordering::Release);
        }

        fn add(&self, delta: u32) {
            let $atomic = self;
            $value.fetch_add(delta, Ordering::Relaxed);
        }

        #[inline]
        fn replace(&self, seen: u32, value: u32) -> Result<(), u32> {
            let $atomic = self;
            $value.compare_exchange(seen, value, Ordering::AcqRel, Ordering::Acquire).map(|_| ())
        }

        #[inline]
        fn fence() {
            $fence(Ordering::SeqCst);
        }
    };
}
#[cfg(test)]
use accesses;

impl Word for AtomicU32 {
    accesses! { word, fence, word }

    fn sleep(&self, seen: u32, limit: Duration) {
        let limit = futex::Timespec::try_from(limit).ok();
        // Whatever ended the sleep, the caller looks again.
        let _ = futex::wait(self, futex::Flags::empty(), seen, limit.as_ref());
    }

    fn wake(&self) {
        // It fails only for words that are not mapped, and this one is.
        let _ = futex::wake(self, futex::Flags::empty(), i32::MAX as u32);
    }
}

/// Sets a word and wakes who sleeps on it. If nobody counted itself among the sleepers, no system
/// call is made.
#[inline]
pub(crate) fn announce<W: Word>(word: &W, sleepers: &W, value: u32) {
    word.write(value);
    // Either the sleeper's count is seen here, or the value is seen there before it sleeps.
    W::fence();
    if sleepers.read() != 0 {
        word.wake();
    }
}

/// Sleeps while `word` does not satisfy `enough`, once, at most for the limit.
pub(crate) fn doze<W: Word>(word: &W, sleepers: &W, enough: impl Fn(u32) -> bool, limit: Duration) {
    sleepers.add(1);
    W::fence();
    let seen = word.read();
    if !enough(seen) {
        word.sleep(seen, limit);
    }
    sleepers.add(1_u32.wrapping_neg());
}
