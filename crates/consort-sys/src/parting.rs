//! What a process leaves to the others of its host, for the time when it is gone.
//!
//! Whoever waits for a process that has ended wants to know why. One that was killed says nothing. One
//! that ended in good order has [taken leave](Parting::take_leave) before; and one that ended because
//! another was dead has left [word](Parting::mourn) of that. So of many who have ended, one after the
//! other, those who remain can tell who was first.
//!
//! It is in the first page of each process's [arena](crate::arena), which stays as long as anybody has
//! it mapped.
//!
//! ```
//! use consort_sys::arena::{Agreement, Arena};
//! use consort_sys::parting::Parting;
//!
//! // SAFETY: nothing else here looks at what is shared.
//! let agreement = unsafe { Agreement::keep() };
//! let arena = Arena::create(agreement, 64 << 20)?;
//! let mine = Parting::first_in(&arena)?;
//! mine.mourn(3);
//! mine.take_leave();
//! let as_others_see_it = Parting::of(&arena);
//! assert!(as_others_see_it.has_taken_leave());
//! assert_eq!(as_others_see_it.mourned(), Some(3));
//! # Ok::<(), consort_sys::arena::ArenaError>(())
//! ```

use std::sync::atomic::{AtomicU32, Ordering};

use crate::arena::{Arena, ArenaError};

/// One process's. Clones are the same.
#[derive(Clone, Debug)]
pub struct Parting {
    arena: Arena,
}

impl Parting {
    /// Sets this process's aside. It has to be the first that is taken of an arena.
    ///
    /// # Errors
    /// When there is no memory for it.
    ///
    /// # Panics
    /// If something else was taken of the arena before.
    pub fn first_in(arena: &Arena) -> Result<Self, ArenaError> {
        let piece = arena.alloc(BYTES, 1)?;
        assert_eq!(piece.offset(), 0, "it is the first piece of its arena");
        // It stays for as long as the arena does.
        piece.abandon();
        Ok(Self::of(arena))
    }

    /// That of the process that has this arena.
    pub fn of(arena: &Arena) -> Self {
        Self { arena: arena.clone() }
    }

    /// Says that this process ends in good order. What it did before is seen by whoever sees this.
    pub fn take_leave(&self) {
        self.word(LEAVE).store(1, Ordering::Release);
    }

    /// Whether it has said so.
    pub fn has_taken_leave(&self) -> bool {
        self.word(LEAVE).load(Ordering::Acquire) != 0
    }

    /// Says that this process knows of a rank that it is dead. Only the first is remembered: that others
    /// have ended too may be its consequence.
    pub fn mourn(&self, rank: u32) {
        let word = rank.saturating_add(1);
        // Somebody was first: so be it.
        let _ = self.word(MOURNED).compare_exchange(0, word, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Which rank it knew to be dead.
    pub fn mourned(&self) -> Option<u32> {
        self.word(MOURNED).load(Ordering::Acquire).checked_sub(1)
    }

    /// Says under which descriptor this process has a [recording](crate::record), which the others can read
    /// while it lives.
    pub fn show_record(&self, descriptor: u32) {
        self.word(RECORD).store(descriptor.saturating_add(1), Ordering::Release);
    }

    /// Under which descriptor it has a recording.
    pub fn record(&self) -> Option<u32> {
        self.word(RECORD).load(Ordering::Acquire).checked_sub(1)
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: the first page of an arena is used for these words alone, by everyone.
        let word = unsafe { self.arena.word(offset) };
        word.expect("no arena is smaller than a page")
    }
}

const LEAVE: usize = 0;
/// The rank and one.
const MOURNED: usize = 4;
/// The descriptor and one.
const RECORD: usize = 8;
const BYTES: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::AGREEMENT;

    fn parting() -> Parting {
        Parting::first_in(&Arena::create(AGREEMENT, 64 << 20).unwrap()).unwrap()
    }

    #[test]
    fn a_process_that_says_nothing_has_said_nothing() {
        let parting = parting();
        assert!(!parting.has_taken_leave());
        assert_eq!((parting.mourned(), parting.record()), (None, None));
    }

    #[test]
    fn the_first_of_the_dead_is_remembered() {
        let parting = parting();
        parting.show_record(0);
        parting.mourn(0);
        parting.mourn(7);
        assert_eq!(parting.record(), Some(0));
        assert_eq!(parting.mourned(), Some(0));
        assert!(!parting.has_taken_leave());
    }

    #[test]
    #[should_panic = "the first piece"]
    fn nothing_may_be_taken_before() {
        let arena = Arena::create(AGREEMENT, 64 << 20).unwrap();
        let _other = arena.alloc(1, 1).unwrap();
        let _ = Parting::first_in(&arena);
    }
}
