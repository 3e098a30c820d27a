//! The memory that a rank shares with the other ranks of its host.
//!
//! Every rank has one arena: a memory file without a name, as large as the machine's memory but
//! empty at first, which every peer on the host maps once. Whatever ranks share later (control
//! blocks, staging buffers, rings, symmetric memory) is a [`Piece`] of an arena and is known to
//! all by its rank and offset, so sharing more passes no descriptor and asks nobody.
//!
//! Memory is taken when a piece is *committed* and given back when it is dropped. The file has no
//! name: when the last process that holds it is gone, however it went, so is the memory. It is
//! sealed against changing its size, because a peer that shortened it would kill every reader.
//!
//! # What may be done at once
//!
//! The bytes of an arena may change at any time, by any process that has mapped it. So no
//! reference to them is ever made, except to atomics, which allow for that, and under the lock of a
//! [window](crate::window), which keeps everybody else away. Plain bytes are otherwise reached
//! through views only: reading and writing the same bytes at the same time, from two processes or
//! two threads, gives a mixture of old and new. When bytes are whole is for the protocol that hands
//! them over to ensure, by a word that is written after them and read before them. Rust's memory
//! model knows no other processes; towards threads of this process that
//! protocol is what makes the accesses ordered. It also keeps the places of words and the places
//! of bytes apart: a place that some rank uses as an atomic is never viewed, nor used as an atomic
//! of another size, while that goes on.
//!
//! ```
//! use consort_sys::arena::{Agreement, Arena};
//!
//! // SAFETY: nothing else here looks at what is shared.
//! let agreement = unsafe { Agreement::keep() };
//! let arena = Arena::create(agreement, 64 << 20)?;
//! let piece = arena.alloc(5, 64)?;
//! piece.view().copy_from((&b"hello"[..]).into());
//! assert_eq!(arena.view(piece.offset(), 5).unwrap().slice(0..2).len(), 2);
//! # Ok::<(), consort_sys::arena::ArenaError>(())
//! ```

mod commit;
mod error;
mod map;
mod piece;
mod size;
mod space;
mod turns;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

pub use error::{ArenaError, Shortage, Unfit};
pub use piece::Piece;
pub use space::Space;

use crate::origin::Origin;
use crate::view::Target;
use map::Map;
use turns::Turns;

/// A promise to use arenas only as ranks have agreed.
///
/// Which place of an arena is what, ranks tell each other at run time, so no type can prove it. Whoever
/// makes arenas promises it once, for all that is done with them: the rest is safe to call.
#[derive(Clone, Copy, Debug)]
pub struct Agreement(());

impl Agreement {
    /// Promises it.
    ///
    /// # Safety
    /// In this process, as long as an arena that was made with it is mapped:
    /// - A place that is used as words, by a [board](crate::board), by [rings](crate::ring), by the
    ///   control block of a [window](crate::window) or for a [parting](crate::parting), is used for nothing else, and is viewed by nobody.
    /// - Bytes are viewed only by those whose turn it is: no thread writes what another one reads or
    ///   writes, unless both are ordered by a word.
    /// - Nobody has a slice of bytes that are viewed, except the caller who has lent it to the very call
    ///   for which it is viewed; and a window's bytes are reached only through its guards or in such a
    ///   call.
    /// - All ranks give a window's place together with that of its control block.
    pub const unsafe fn keep() -> Self {
        Self(())
    }
}

/// Every test of this crate uses what it shares as agreed, or in one thread.
#[cfg(test)]
// SAFETY: as said.
pub(crate) const AGREEMENT: Agreement = unsafe { Agreement::keep() };

/// A rank's shared memory: this rank's own, or a peer's. Clones are the same arena, which is
/// unmapped with the last of them and the last of its pieces.
#[derive(Clone, Debug)]
pub struct Arena {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    map: Map,
    owner: Option<Owner>,
}

/// What only the process that made the arena has: a peer or a forked child cannot allocate.
#[derive(Debug)]
struct Owner {
    origin: Origin,
    space: Mutex<Space>,
    /// Where it takes turns with the other ranks of its host, if there are any.
    turns: OnceLock<Turns>,
}

impl Arena {
    /// A new arena of at least so many bytes, rounded up to 2 MiB. It takes no memory yet.
    ///
    /// Where the process may not map as much, the arena is smaller, but not below 256 MiB.
    ///
    /// # Errors
    /// When the kernel has no memory files, or does not let even a small one be mapped.
    pub fn create(_: Agreement, bytes: usize) -> Result<Self, ArenaError> {
        let map = Map::create(bytes)?;
        let space = Mutex::new(Space::new(map.size()));
        let owner = Some(Owner { origin: Origin::here(), space, turns: OnceLock::new() });
        Ok(Self { shared: Arc::new(Shared { map, owner }) })
    }

    /// The arena of a peer that handed over this descriptor.
    ///
    /// # Errors
    /// When it is no arena, or one that its owner could still shorten.
    pub fn open(_: Agreement, fd: OwnedFd) -> Result<Self, ArenaError> {
        let map = Map::open(fd)?;
        Ok(Self { shared: Arc::new(Shared { map, owner: None }) })
    }

    /// How large to make the arenas of a host with so many ranks, of whom so many are `together` in the
    /// process that has the most: as its memory, or what this process's control group may have of it.
    /// Each rank maps the arenas of all, so where addresses are scarce it is less: half of those that
    /// are left.
    pub fn default_size(ranks: usize, together: usize) -> usize {
        size::of_machine(ranks, together)
    }

    /// How many bytes can be addressed. Far fewer may be committed.
    pub fn size(&self) -> usize {
        self.shared.map.size()
    }

    /// Takes a piece, with memory for all of it. It reads as zeroes.
    ///
    /// Pieces are whole pages. The offset is a multiple of `align`, which is a power of two; the
    /// address is too, up to the size of a page.
    ///
    /// # Errors
    /// When there is not enough memory, or no room left in the arena, or it is a peer's.
    pub fn alloc(&self, bytes: usize, align: usize) -> Result<Piece, ArenaError> {
        let piece = self.reserve(bytes, align)?;
        piece.commit()?;
        Ok(piece)
    }

    /// Takes a piece as [`alloc`](Self::alloc) does, but its memory only when it is
    /// [committed](Piece::commit).
    ///
    /// # Errors
    /// When there is no room left in the arena, or it is a peer's.
    pub fn reserve(&self, bytes: usize, align: usize) -> Result<Piece, ArenaError> {
        Piece::take(self, bytes, align)
    }

    /// Has the owners of so many arenas take memory in turn when there is little left, so that those
    /// who ask at the same moment are not given together what there is for one. `first` is one of
    /// these arenas, the same on all of them.
    ///
    /// # Errors
    /// When this process can have no more descriptors.
    pub fn take_turns(&self, first: &Self, ranks: usize) -> std::io::Result<()> {
        if let Some(owner) = &self.shared.owner {
            let turns = Turns::new(first, ranks)?;
            owner.turns.get_or_init(|| turns);
        }
        Ok(())
    }

    /// The bytes from `offset` on; `None` when they are not all in the arena.
    ///
    /// As [agreed](Agreement), they are staging buffers, a ring, or an operand that a rank has lent to
    /// the very call for which they are looked at.
    #[inline]
    pub fn view(&self, offset: usize, len: usize) -> Option<Target<'_>> {
        // SAFETY: as was agreed when the arena was made.
        unsafe { self.shared.map.view(offset, len) }
    }

    /// The word at `offset`; `None` when it is not in the arena or the offset no multiple of four.
    ///
    /// # Safety
    /// While the reference lives, this process reaches these bytes only as an atomic of this size.
    #[inline]
    pub unsafe fn word(&self, offset: usize) -> Option<&AtomicU32> {
        // SAFETY: the caller's promise is the same.
        unsafe { self.shared.map.word(offset) }
    }

    /// The word of eight bytes at `offset`; `None` when it is not in the arena or the offset no
    /// multiple of eight.
    ///
    /// # Safety
    /// While the reference lives, this process reaches these bytes only as an atomic of this size.
    #[inline]
    pub unsafe fn word64(&self, offset: usize) -> Option<&AtomicU64> {
        // SAFETY: the caller's promise is the same.
        unsafe { self.shared.map.word64(offset) }
    }

    /// Where in the arena these `len` bytes are, if all of them are.
    #[inline]
    pub fn offset_of(&self, start: *const u8, len: usize) -> Option<usize> {
        self.shared.map.offset_of(start, len)
    }

    /// Lets this process use these pages without a fault each, before it uses them otherwise. What
    /// they hold stays.
    ///
    /// # Errors
    /// When they are not in the arena, or there is no memory for those not committed.
    pub fn populate(&self, offset: usize, len: usize) -> Result<(), ArenaError> {
        self.shared.map.populate(offset, len)
    }

    /// Takes memory for all of a part, or for none of it.
    fn commit(&self, offset: usize, len: usize) -> Result<(), ArenaError> {
        let turns = self.shared.owner.as_ref().and_then(|owner| owner.turns.get());
        commit::commit(self.as_fd(), offset, len, turns)
    }

    /// Runs with the free space, if this process is the owner.
    fn with_space<T>(&self, then: impl FnOnce(&mut Space) -> T) -> Option<T> {
        let owner = self.shared.owner.as_ref().filter(|_| self.is_ours())?;
        Some(then(&mut owner.space.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Whether this very process made it. A forked child did not: it shares the memory, and the
    /// lock may be held by a thread that does not exist there.
    #[inline]
    pub(crate) fn is_ours(&self) -> bool {
        self.shared.owner.as_ref().is_some_and(|owner| owner.origin.is_here())
    }
}

impl AsFd for Arena {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.map.as_fd()
    }
}

#[cfg(test)]
mod tests;
