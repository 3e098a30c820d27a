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
/// began; when it ended, as [`ended`] packs it, or 0; for whom it waits, as [`awaited`] packs it; and
/// where it was made and how long it combined numbers, as [`detail`] packs it.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Entry<W = AtomicU64> {
    pub(super) words: [W; WORDS],
}

impl<W: Word> Entry<W> {
    /// Writes what is known of a call when it begins.
    #[inline]
    pub(super) fn begin(&self, number: u64, call: [u64; 2], queued: u64, began: u64, site: u16) {
        // Whoever reads one of the others sees that the number is gone.
        self.words[NUMBER].write(0);
        self.words[CALL].write(call[0]);
        self.words[CALL + 1].write(call[1]);
        self.words[QUEUED].write(queued);
        self.words[BEGAN].write(began);
        self.words[ENDED].write(0);
        self.words[AWAITED].write(0);
        self.words[DETAIL].write(detail(site, 0));
        // Whoever reads the number sees the others.
        self.words[NUMBER].write(number);
    }

    /// Says for whom a call waits.
    pub(super) fn wait_for(&self, number: u64, rank: u32) {
        self.words[AWAITED].write(awaited(number, rank));
    }

    /// Says when and how a call has ended, which has combined numbers for so many ticks, and since when
    /// it was there.
    #[inline]
    pub(super) fn end(&self, at: u64, is_good: bool, combined: u64) -> u64 {
        if combined != 0 {
            self.words[DETAIL].write(detail(self.site(), combined));
        }
        // Whoever reads the end sees that, too.
        self.words[ENDED].write(ended(at, is_good));
        self.words[BEGAN].read()
    }

    /// Where the call was made, if that was noted.
    pub(super) fn site(&self) -> u16 {
        site_in(self.words[DETAIL].read())
    }

    /// Which call it is.
    pub(super) fn number(&self) -> u64 {
        self.words[NUMBER].read()
    }

    /// Makes room for another group's calls.
    pub(super) fn clear(&self) {
        self.words[NUMBER].write(0);
    }
}

/// An entry of which one copy was made after the other, [in order](Word::in_order); `None` if it was
/// written meanwhile, or there is none.
pub(super) fn agree(first: &[u64; WORDS], second: &[u64; WORDS]) -> Option<[u64; WORDS]> {
    let is_same =
        first[..ENDED] == second[..ENDED] && site_in(first[DETAIL]) == site_in(second[DETAIL]);
    // It may have ended in between. An end that is gone was that of another call.
    let is_end_same =
        first[ENDED] == 0 || (first[ENDED], first[DETAIL]) == (second[ENDED], second[DETAIL]);
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

/// Where a call was made, and for how many ticks it has combined numbers: for some hours at most.
fn detail(site: u16, combined: u64) -> u64 {
    combined << u16::BITS | u64::from(site)
}

/// Where a call was made: the number of a site from 1, or 0.
pub(super) fn site_in(word: u64) -> u16 {
    word as u16
}

/// For how many ticks a call that has ended has combined numbers.
pub(super) fn combined_in(word: u64) -> u64 {
    word >> u16::BITS
}

pub(super) const NUMBER: usize = 0;
pub(super) const CALL: usize = 1;
pub(super) const QUEUED: usize = 3;
pub(super) const BEGAN: usize = 4;
pub(super) const ENDED: usize = 5;
pub(super) const AWAITED: usize = 6;
pub(super) const DETAIL: usize = 7;
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

    #[test]
    fn what_belongs_to_another_end_is_not_believed() {
        let call = |ended, site, combined| [4, 1, 2, 0, 10, ended, 0, detail(site, combined)];
        assert_eq!(agree(&call(0, 3, 0), &call(40, 3, 9)), Some(call(0, 3, 0)));
        assert_eq!(agree(&call(40, 3, 0), &call(40, 3, 9)), None);
        assert_eq!(agree(&call(0, 3, 0), &call(0, 4, 0)), None);
        let word = detail(u16::MAX, 1 << 40);
        assert_eq!((site_in(word), combined_in(word)), (u16::MAX, 1 << 40));
    }
}
