//! Borrowed memory that other threads may use as if it were theirs.
//!
//! A thread that works for others owns what it works on: it may take longer than any borrow lasts.
//! Within [`lending`], a borrow can be turned into something owned, which can go anywhere; the
//! function does not return before all of them were dropped, wherever they are. It is the argument
//! of [`std::thread::scope`], for memory instead of threads.

use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Calls `f` with somebody to lend memory to. Returns, or unwinds if `f` panics, when everything
/// that was lent has been dropped. Whoever keeps a [`Lent`] for ever, waits for ever.
///
/// ```
/// use consort_sys::lend::lending;
///
/// let mut numbers = [1, 2, 3];
/// lending(|lender| {
///     let mut lent = lender.lend_mut(&mut numbers);
///     // A thread that no borrow could be given to.
///     std::thread::spawn(move || lent.get_mut().reverse());
/// });
/// assert_eq!(numbers, [3, 2, 1]);
/// ```
///
/// What is lent cannot be used until everything is given back:
///
/// ```compile_fail,E0499
/// # use consort_sys::lend::lending;
/// let mut numbers = [1, 2, 3];
/// lending(|lender| {
///     let lent = lender.lend_mut(&mut numbers);
///     numbers.reverse();
/// });
/// ```
///
/// Only what outlives the call can be lent:
///
/// ```compile_fail,E0597
/// # use consort_sys::lend::lending;
/// lending(|lender| {
///     let mut numbers = [1, 2, 3];
///     let lent = lender.lend_mut(&mut numbers);
/// });
/// ```
pub fn lending<'env, R>(f: impl for<'scope> FnOnce(&'scope Lender<'scope, 'env>) -> R) -> R {
    let lender = Lender { desk: Arc::default(), scope: PhantomData, env: PhantomData };
    let _everything_is_back = Closing(&lender.desk);
    f(&lender)
}

/// Takes borrows for as long as its [`lending`] goes on.
///
/// The lifetimes are those of [`std::thread::Scope`]: `'scope` begins before the closure is called
/// and ends when everything is back; `'env` is whatever outlives that. Both are invariant, so that
/// neither can be taken for shorter than it is.
#[derive(Debug)]
pub struct Lender<'scope, 'env: 'scope> {
    desk: Arc<Desk>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

impl<'scope> Lender<'scope, '_> {
    /// Makes a shared borrow into something owned.
    pub fn lend<T: Sync + 'static>(&'scope self, memory: &'scope [T]) -> Lent<T> {
        self.desk.count_out();
        Lent { start: NonNull::from(memory).cast(), len: memory.len(), desk: self.desk.clone() }
    }

    /// Makes an exclusive borrow into something owned.
    pub fn lend_mut<T: Send + 'static>(&'scope self, memory: &'scope mut [T]) -> LentMut<T> {
        self.desk.count_out();
        let (start, len) = (NonNull::from(&mut *memory).cast(), memory.len());
        LentMut(Lent { start, len, desk: self.desk.clone() })
    }
}

/// Memory that many may read; see [`lending`].
pub struct Lent<T> {
    start: NonNull<T>,
    len: usize,
    desk: Arc<Desk>,
}

impl<T> Lent<T> {
    /// The memory.
    pub fn get(&self) -> &[T] {
        // SAFETY: the pointer and the length are those of a slice that was borrowed for `'scope`,
        // which does not end before this value is dropped: its `lending` waits for that.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T> Drop for Lent<T> {
    /// The last use of the memory was before this, and the desk's lock makes it so for the thread
    /// whose borrow ends.
    fn drop(&mut self) {
        self.desk.count_in();
    }
}

impl<T> fmt::Debug for Lent<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} lent elements at {:p}", self.len, self.start)
    }
}

// SAFETY: it stands for a `&[T]`, which may go to another thread if `T` is `Sync`.
unsafe impl<T: Sync> Send for Lent<T> {}
// SAFETY: shared, it gives out nothing but `&[T]`.
unsafe impl<T: Sync> Sync for Lent<T> {}

/// Memory that its holder alone may read and write; see [`lending`].
pub struct LentMut<T>(Lent<T>);

impl<T> LentMut<T> {
    /// The memory.
    pub fn get(&self) -> &[T] {
        self.0.get()
    }

    /// The memory, to be written.
    pub fn get_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `Lent::get`; the borrow was exclusive, this value stands for it and cannot
        // be copied, and it is itself borrowed exclusively here.
        unsafe { std::slice::from_raw_parts_mut(self.0.start.as_ptr(), self.0.len) }
    }
}

impl<T> fmt::Debug for LentMut<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

// SAFETY: it stands for a `&mut [T]`, which may go to another thread if `T` is `Send`.
unsafe impl<T: Send> Send for LentMut<T> {}
// SAFETY: shared, it gives out nothing but `&[T]`.
unsafe impl<T: Sync> Sync for LentMut<T> {}

/// How much is lent, and a place to wait until it is all back.
#[derive(Debug, Default)]
struct Desk {
    out: Mutex<usize>,
    all_back: Condvar,
}

impl Desk {
    fn count_out(&self) {
        *self.lock() += 1;
    }

    fn count_in(&self) {
        let mut out = self.lock();
        *out -= 1;
        if *out == 0 {
            self.all_back.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits when it is dropped, which is when the closure has returned or panicked.
struct Closing<'a>(&'a Desk);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        let mut out = self.0.lock();
        while *out > 0 {
            out = self.0.all_back.wait(out).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_another_thread_wrote_is_there_when_everything_is_back() {
        let (source, mut target) = (vec![7_u64; 1000], vec![0_u64; 1000]);
        lending(|lender| {
            let (source, mut target) = (lender.lend(&source), lender.lend_mut(&mut target));
            thread::spawn(move || {
                thread::sleep(Duration::from_millis(20));
                target.get_mut().copy_from_slice(source.get());
            });
        });
        assert_eq!(source, target);
    }

    #[test]
    fn several_parts_come_back_from_several_threads() {
        let mut numbers: Vec<u32> = (0..64).collect();
        lending(|lender| {
            for part in numbers.chunks_mut(8) {
                let mut part = lender.lend_mut(part);
                thread::spawn(move || part.get_mut().iter_mut().for_each(|number| *number += 1));
            }
        });
        assert_eq!(numbers, (1..65).collect::<Vec<u32>>());
    }

    #[test]
    fn a_panic_waits_until_everything_is_back() {
        let mut numbers = [0_u8; 4];
        let caught = catch_unwind(AssertUnwindSafe(|| {
            lending(|lender| {
                let mut lent = lender.lend_mut(&mut numbers);
                thread::spawn(move || {
                    thread::sleep(Duration::from_millis(20));
                    lent.get_mut().fill(1);
                });
                panic!("on purpose");
            });
        }));
        assert!(caught.is_err());
        assert_eq!(numbers, [1; 4]);
    }

    #[test]
    fn a_borrower_that_panics_gives_back() {
        let mut numbers = [0_u8; 4];
        lending(|lender| {
            let mut lent = lender.lend_mut(&mut numbers);
            let borrower = thread::spawn(move || {
                lent.get_mut()[0] = 1;
                panic!("on purpose");
            });
            assert!(borrower.join().is_err());
        });
        assert_eq!(numbers, [1, 0, 0, 0]);
    }

    #[test]
    fn what_is_never_dropped_is_waited_for() {
        let (sent, lent) = mpsc::channel();
        let (done, ended) = mpsc::channel();
        let lender = thread::spawn(move || {
            let numbers = [1_u8, 2];
            lending(|lender| sent.send(lender.lend(&numbers)).unwrap());
            done.send(()).unwrap();
        });
        let lent = lent.recv().unwrap();
        assert!(ended.recv_timeout(Duration::from_millis(50)).is_err());
        assert_eq!(lent.get(), [1, 2]);
        drop(lent);
        ended.recv().unwrap();
        lender.join().unwrap();
    }
}
