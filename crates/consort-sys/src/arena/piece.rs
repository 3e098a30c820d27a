//! A part of an arena.

use std::fmt;
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};

use super::{Arena, ArenaError, commit, size};
use crate::view::Target;

/// A part of this rank's arena, for as long as it lives. Dropping it gives its memory and its
/// place back; whoever still looks at it sees zeroes, or what comes next. It keeps the arena.
pub struct Piece {
    arena: Arena,
    offset: usize,
    len: usize,
    /// Whole pages.
    room: usize,
    committed: Mutex<bool>,
    abandoned: bool,
}

impl Piece {
    pub(super) fn take(arena: &Arena, len: usize, align: usize) -> Result<Self, ArenaError> {
        if !align.is_power_of_two() {
            return Err(ArenaError::Alignment(align));
        }
        let page = size::page();
        // Where the kernel has huge pages, a large piece is made of whole ones.
        let unit = if len >= size::STEP { size::STEP } else { page };
        let align = align.max(unit);
        let room = len.max(1).checked_next_multiple_of(page);
        let taken = arena.with_space(|space| {
            let place = room.and_then(|room| Some((space.take(room, align)?, room)));
            place.ok_or_else(|| space.longest())
        });
        match taken {
            None => Err(ArenaError::NotOwner),
            Some(Err(longest)) => {
                Err(ArenaError::NoRoom { asked: len, longest, size: arena.size() })
            }
            Some(Ok((offset, room))) => {
                let (arena, committed) = (arena.clone(), Mutex::new(false));
                Ok(Self { arena, offset, len, room, committed, abandoned: false })
            }
        }
    }

    /// Where it begins in the arena; a peer reaches it there.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// How many bytes were asked for.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none were asked for.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The arena it is a part of.
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Its bytes.
    pub fn view(&self) -> Target<'_> {
        self.arena.view(self.offset, self.len).expect("a piece is within its arena")
    }

    /// Takes memory for all of it. Does nothing the second time.
    ///
    /// # Errors
    /// When there is not enough. The piece holds nothing but zeroes then, and it can be tried
    /// again.
    pub fn commit(&self) -> Result<(), ArenaError> {
        let mut committed = self.committed.lock().unwrap_or_else(PoisonError::into_inner);
        if !*committed {
            self.arena.commit(self.offset, self.room)?;
            *committed = true;
        }
        Ok(())
    }

    /// Commits it, and lets this process use it without a fault for each page.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub fn populate(&self) -> Result<(), ArenaError> {
        self.commit()?;
        self.arena.populate(self.offset, self.room)
    }

    /// Leaves it as it is to whoever still looks at it: its memory is given back with the arena,
    /// and its place is not used again.
    pub fn abandon(mut self) {
        self.abandoned = true;
    }
}

impl fmt::Debug for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {} of an arena", self.len, self.offset)
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        // A place that could not be emptied is never used again: a new piece reads as zeroes.
        let ours = !self.abandoned && self.arena.is_ours();
        if ours && commit::release(self.arena.as_fd(), self.offset, self.room) {
            self.arena.with_space(|space| space.give(self.offset, self.room));
        }
    }
}
