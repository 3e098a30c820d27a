//! A thing for one at a time, in the order in which they come.
//!
//! Most who want it find nobody before them. They *pass*, which takes one exchange of a word on the
//! way in and one on the way out, as with any lock; but with the same exchange they are counted, so
//! that everybody's number is known though there is nothing else to hold on to.
//!
//! Whoever cannot pass takes its place in a line that is kept elsewhere, under a lock that nobody
//! holds for long, and *bars* the turnstile: then nobody passes, and who leaves is told to look at
//! the line. Bars are put up and taken down under that lock only.
//!
//! `turn/models.rs` tries such a line with every interleaving.

#[cfg(test)]
mod models;

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};

/// Lets one at a time to what is inside, and counts who comes.
///
/// ```
/// use consort_sys::turn::Turnstile;
///
/// let turnstile = Turnstile::new(String::new());
/// let mut turn = turnstile.pass().expect("nobody is in");
/// turn.push('a');
/// assert!(turnstile.pass().is_none());
/// assert!(!turn.leave());
/// assert_eq!(turnstile.count(), 1);
/// ```
pub struct Turnstile<T> {
    word: AtomicU64,
    inside: UnsafeCell<T>,
}

impl<T> Turnstile<T> {
    /// Nobody has come so far.
    pub const fn new(inside: T) -> Self {
        Self { word: AtomicU64::new(0), inside: UnsafeCell::new(inside) }
    }

    /// Lets somebody in and counts it, unless somebody is in or the turnstile is barred.
    #[inline]
    pub fn pass(&self) -> Option<Turn<'_, T>> {
        pass(&self.word).then(|| self.turn())
    }

    /// Lets somebody in who has been counted, whether it is barred or not, unless somebody is in.
    pub fn enter(&self) -> Option<Turn<'_, T>> {
        enter(&self.word).then(|| self.turn())
    }

    /// Counts some who will come in later, and bars the turnstile. Says how many there were before.
    pub fn line_up(&self, count: u64) -> u64 {
        line_up(&self.word, count)
    }

    /// Takes the bar down.
    pub fn open(&self) {
        self.word.clear(BARRED);
    }

    /// How many have been counted.
    pub fn count(&self) -> u64 {
        self.word.read() >> COUNT
    }

    #[inline]
    fn turn(&self) -> Turn<'_, T> {
        Turn { turnstile: self, inside: PhantomData }
    }
}

// SAFETY: it is moved with what is inside.
unsafe impl<T: Send> Send for Turnstile<T> {}
// SAFETY: what is inside is reached through a `Turn` only, of which there is never more than one; so
// it goes from one thread to another, but is not used by two at once.
unsafe impl<T: Send> Sync for Turnstile<T> {}

impl<T> fmt::Debug for Turnstile<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.word.read();
        let state = if word & BUSY == 0 { "empty" } else { "occupied" };
        let bar = if word & BARRED == 0 { "open" } else { "barred" };
        write!(f, "a turnstile, {state} and {bar}, for call {}", word >> COUNT)
    }
}

/// What is inside a [`Turnstile`], until it is left.
pub struct Turn<'a, T> {
    turnstile: &'a Turnstile<T>,
    /// It is used as a `&mut` to it.
    inside: PhantomData<&'a mut T>,
}

impl<T> Turn<'_, T> {
    /// Leaves. Says whether the turnstile was barred meanwhile: then somebody is in line.
    #[inline]
    #[must_use]
    pub fn leave(self) -> bool {
        leave(&ManuallyDrop::new(self).turnstile.word)
    }
}

impl<T> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        leave(&self.turnstile.word);
    }
}

impl<T> Deref for Turn<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: there is no other turn as long as this one lives, and it is borrowed.
        unsafe { &*self.turnstile.inside.get() }
    }
}

impl<T> DerefMut for Turn<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: there is no other turn as long as this one lives, and it is borrowed alone.
        unsafe { &mut *self.turnstile.inside.get() }
    }
}

impl<T: fmt::Debug> fmt::Debug for Turn<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Turn").field(&**self).finish()
    }
}

/// What the protocol needs of its word: whether somebody is in, whether it is barred, and the count.
trait Word {
    /// The value, of which nothing else follows.
    fn read(&self) -> u64;
    /// Sets the value if it is `seen`, and sees what was done before the last [`let_go`](Self::let_go).
    fn take(&self, seen: u64, value: u64) -> Result<(), u64>;
    /// Clears a bit that is set, so that whoever [takes](Self::take) it then sees what was done
    /// before. Says what the value was.
    fn let_go(&self, bit: u64) -> u64;
    /// Clears bits; says nothing about anything else.
    fn clear(&self, bits: u64);
}

/// Real words and those of models are accessed in the same order.
macro_rules! implement_word {
    ($atomic:ty) => {
        impl Word for $atomic {
            #[inline]
            fn read(&self) -> u64 {
                self.load(Ordering::Relaxed)
            }

            #[inline]
            fn take(&self, seen: u64, value: u64) -> Result<(), u64> {
                // Pairs with `let_go`: all changes in between are exchanges too, so they carry it
                // on.
                self.compare_exchange_weak(seen, value, Ordering::Acquire, Ordering::Relaxed)
                    .map(|_| ())
            }

            #[inline]
            fn let_go(&self, bit: u64) -> u64 {
                // One instruction, where to mask it would take a loop.
                self.fetch_sub(bit, Ordering::Release)
            }

            fn clear(&self, bits: u64) {
                self.fetch_and(!bits, Ordering::Relaxed);
            }
        }
    };
}

implement_word!(AtomicU64);
#[cfg(test)]
implement_word!(loom::sync::atomic::AtomicU64);

#[inline]
fn pass(word: &impl Word) -> bool {
    let mut seen = word.read();
    while seen & (BUSY | BARRED) == 0 {
        match word.take(seen, (seen | BUSY) + ONE) {
            Ok(()) => return true,
            Err(now) => seen = now,
        }
    }
    false
}

fn enter(word: &impl Word) -> bool {
    let mut seen = word.read();
    while seen & BUSY == 0 {
        match word.take(seen, seen | BUSY) {
            Ok(()) => return true,
            Err(now) => seen = now,
        }
    }
    false
}

fn line_up(word: &impl Word, count: u64) -> u64 {
    let mut seen = word.read();
    while let Err(now) = word.take(seen, (seen | BARRED) + count * ONE) {
        seen = now;
    }
    seen >> COUNT
}

#[inline]
fn leave(word: &impl Word) -> bool {
    word.let_go(BUSY) & BARRED != 0
}

/// Somebody is in.
const BUSY: u64 = 1;
/// Somebody is in line.
const BARRED: u64 = 2;
/// From this bit on is the count.
const COUNT: u32 = 2;
const ONE: u64 = 1 << COUNT;

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::thread;

    use super::*;

    #[test]
    fn one_at_a_time_is_let_in_and_all_are_counted() {
        let turnstile = Turnstile::new(0_u64);
        let line = Mutex::new(());
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..ROUNDS {
                        let mut turn = loop {
                            match turnstile.pass() {
                                Some(turn) => break turn,
                                None => thread::yield_now(),
                            }
                        };
                        *turn += 1;
                        drop(turn);
                    }
                });
            }
            for _ in 0..ROUNDS {
                let _line = line.lock().unwrap();
                turnstile.line_up(1);
                let mut turn = loop {
                    match turnstile.enter() {
                        Some(turn) => break turn,
                        None => thread::yield_now(),
                    }
                };
                turnstile.open();
                *turn += 1;
                assert!(!turn.leave());
            }
        });
        assert_eq!(turnstile.count(), 5 * ROUNDS);
        assert_eq!(*turnstile.pass().unwrap(), 5 * ROUNDS);
    }

    #[test]
    fn who_leaves_a_barred_turnstile_is_told() {
        let turnstile = Turnstile::new(());
        let turn = turnstile.pass().unwrap();
        assert_eq!(turnstile.line_up(3), 1);
        assert!(turn.leave());
        assert!(turnstile.pass().is_none());
        assert!(turnstile.enter().unwrap().leave());
        turnstile.open();
        assert!(!turnstile.pass().unwrap().leave());
        assert_eq!(turnstile.count(), 5);
    }

    const ROUNDS: u64 = 2000;
}
