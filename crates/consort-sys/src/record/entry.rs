//! One call in a ring.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// What a ring is made of: a word that one writes and others read at any time.
pub(super) trait Word {
    /// Reads it, in no order with other reads.
    fn read(&self) -> u64;
    /// Writes it. Whoever reads that can see all that was written before.
    fn write(&self, value: u64);
    /// What was read before was read before what is read after, and shows what its writer had written.
    fn in_order();
}

/// The accesses of words in models as of real ones: what loom tries is ordered as what runs.
macro_rules! accesses {
    ($fence:path) => {
        #[inline]
        fn read(&self) -> u64 {
            self.load(Ordering::Relaxed)
        }

        #[inline]
        fn write(&self, value: u64) {
            self.store(value, Ordering::Release);
        }

        fn in_order() {
            // Pairs with the `Release` of whoever wrote what was read.
            $fence(Ordering::Acquire);
        }
    };
}
#[cfg(test)]
pub(super) use accesses;

impl Word for AtomicU64 {
    accesses! { fence }
}

/// A call: its number, or 0 while it is written; what is called; when it was queued, or 0; when it
/// began; when it ended, as [`ended`] packs it, or 0; and for whom it waits, as [`awaited`] packs it.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Entry<W = AtomicU64> {
    pub(super) words: [W; WORDS],
}

impl<W: Word> Entry<W> {
    /// Writes what is known of a call when it begins.
    #[inline]
    pub(super) fn begin(&self, number: u64, call: [u64; 2], queued: u64, began: u64) {
        // Whoever reads one of the others sees that the number is gone.
        self.words[NUMBER].write(0);
        self.words[CALL].write(call[0]);
        self.words[CALL + 1].write(call[1]);
        self.words[QUEUED].write(queued);
        self.words[BEGAN].write(began);
        self.words[ENDED].write(0);
        self.words[AWAITED].write(0);
        // Whoever reads the number sees the others.
        self.words[NUMBER].write(number);
    }

    /// Says for whom a call waits.
    pub(super) fn wait_for(&self, number: u64, rank: u32) {
        self.words[AWAITED].write(awaited(number, rank));
    }

    /// Says when and how a call has ended, and since when it was there.
    #[inline]
    pub(super) fn end(&self, at: u64, is_good: bool) -> u64 {
        self.words[ENDED].write(ended(at, is_good));
        self.words[BEGAN].read()
    }

    /// Makes room for another group's calls.
    pub(super) fn clear(&self) {
        self.words[NUMBER].write(0);
    }
}

/// An entry of which one copy was made after the other, [in order](Word::in_order); `None` if it was
/// written meanwhile, or there is none.
pub(super) fn agree(first: &[u64; WORDS], second: &[u64; WORDS]) -> Option<[u64; WORDS]> {
    let is_same = first[..ENDED] == second[..ENDED];
    // It may have ended in between. An end that is gone was that of another call.
    let is_end_same = first[ENDED] == 0 || first[ENDED] == second[ENDED];
    (first[NUMBER] != 0 && is_same && is_end_same).then_some(*first)
}

/// For whom a call waits. The number says that it is this call.
fn awaited(number: u64, rank: u32) -> u64 {
    number << 32 | u64::from(rank.saturating_add(1))
}

/// For whom the call of this number waits, if it does.
pub(super) fn awaited_by(number: u64, word: u64) -> Option<u32> {
    let rank = (word as u32).checked_sub(1)?;
    (word >> 32 == number & u64::from(u32::MAX)).then_some(rank)
}

fn ended(at: u64, is_good: bool) -> u64 {
    at << 1 | u64::from(!is_good)
}

/// When a call has ended, and whether well; `None` if it has not.
pub(super) fn end_of(word: u64) -> Option<(u64, bool)> {
    (word != 0).then_some((word >> 1, word & 1 == 0))
}

pub(super) const NUMBER: usize = 0;
pub(super) const CALL: usize = 1;
pub(super) const QUEUED: usize = 3;
pub(super) const BEGAN: usize = 4;
pub(super) const ENDED: usize = 5;
pub(super) const AWAITED: usize = 6;
pub(super) const WORDS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whom_another_call_waited_for_is_nobody() {
        let word = awaited(7, 3);
        assert_eq!(awaited_by(7, word), Some(3));
        assert_eq!(awaited_by(8, word), None);
        assert_eq!(awaited_by(7, 0), None);
        assert_eq!(awaited_by(7 + (1 << 32), awaited(7 + (1 << 32), 0)), Some(0));
    }

    #[test]
    fn an_end_says_when_and_how() {
        assert_eq!(end_of(ended(9, true)), Some((9, true)));
        assert_eq!(end_of(ended(9, false)), Some((9, false)));
        assert_eq!(end_of(0), None);
    }

    #[test]
    fn a_call_that_ends_between_two_looks_is_still_the_same() {
        let running = [4, 1, 2, 0, 10, 0, 0, 0];
        let ended = [4, 1, 2, 0, 10, 40, 0, 0];
        assert_eq!(agree(&running, &running), Some(running));
        assert_eq!(agree(&running, &ended), Some(running));
        assert_eq!(agree(&ended, &running), None);
        assert_eq!(agree(&running, &[5, 1, 2, 0, 10, 0, 0, 0]), None);
        assert_eq!(agree(&[0; WORDS], &[0; WORDS]), None);
    }
}
