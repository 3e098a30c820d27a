//! Where in a file what is.
//!
//! Everything is a word of eight bytes, in the order of this machine's. Pages that nobody has written
//! take no memory.

use std::sync::atomic::AtomicU64;

use super::entry::{Entry, Word};

/// How many of a group's last calls are kept.
pub const CALLS: usize = 1024;

/// How many groups of a rank are kept at once. The place of one that was left goes to another only when
/// there is no other.
pub const GROUPS: usize = 256;

/// How many places in a program are told apart from which it makes calls.
pub const SITES: usize = 1024;

/// A rank's file.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Layout {
    pub(super) head: Page,
    pub(super) sites: [Site; SITES],
    pub(super) groups: [Group; GROUPS],
}

/// A place in the program: its length and its bytes, written once.
#[derive(Debug)]
#[repr(C, align(128))]
pub(super) struct Site {
    pub(super) words: [AtomicU64; SITE_WORDS],
}

/// A group of the rank.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Group {
    pub(super) head: Page,
    pub(super) ring: [Entry; CALLS],
}

impl Group {
    /// Where a call is written.
    #[inline]
    pub(super) fn entry(&self, number: u64) -> &Entry {
        &self.ring[number as usize % CALLS]
    }
}

/// As much as has memory of its own.
#[derive(Debug)]
#[repr(C, align(4096))]
pub(super) struct Page {
    pub(super) words: [AtomicU64; PAGE_WORDS],
}

impl Page {
    #[inline]
    pub(super) fn get(&self, place: usize) -> u64 {
        self.words[place].read()
    }

    #[inline]
    pub(super) fn set(&self, place: usize, value: u64) {
        self.words[place].write(value);
    }

    /// Adds to a word that nobody else writes.
    #[inline]
    pub(super) fn add(&self, place: usize, more: u64) {
        self.set(place, self.get(place).wrapping_add(more));
    }

    /// Writes a text, or as much of it as fits.
    pub(super) fn set_text(&self, place: usize, text: &str) {
        set_text(&self.words[place..place + TEXT_WORDS], text);
    }
}

/// Writes a text, its length before it, or as much of it as fits.
pub(super) fn set_text(words: &[AtomicU64], text: &str) {
    let most = (words.len() - 1) * size_of::<u64>();
    let bytes = &text.as_bytes()[..text.floor_char_boundary(most)];
    words[0].write(bytes.len() as u64);
    for (part, place) in bytes.chunks(8).zip(&words[1..]) {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        place.write(u64::from_ne_bytes(word));
    }
}

/// A text in a copy of a page.
pub(super) fn text_in(page: &[u64], place: usize) -> String {
    text_of(&page[place..place + TEXT_WORDS])
}

/// A text, its length before it, without what would disturb a terminal.
pub(super) fn text_of(words: &[u64]) -> String {
    let (length, words) = (words[0] as usize, &words[1..]);
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).take(length).collect();
    let text = String::from_utf8_lossy(&bytes);
    text.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}

/// In the head of the file: written once, unless it says otherwise.
pub(super) mod head {
    /// Written last.
    pub(in super::super) const MAGIC: usize = 0;
    pub(in super::super) const VERSION: usize = 1;
    /// The rank, and above it the world.
    pub(in super::super) const RANK: usize = 2;
    pub(in super::super) const EPOCH: usize = 3;
    pub(in super::super) const PROCESS: usize = 4;
    /// How many nanoseconds a tick takes, as the bits of a number with a point.
    pub(in super::super) const RATE: usize = 5;
    /// How many of the groups' places have ever been used. It grows.
    pub(in super::super) const USED: usize = 6;
    /// Whether the rank has left in good order.
    pub(in super::super) const LEFT: usize = 7;
    /// A moment: ticks, monotonic, wall.
    pub(in super::super) const FIRST: usize = 8;
    /// A later one, after a word that is odd while it is written and always another.
    pub(in super::super) const LATEST: usize = 11;
    /// The job's name: its length and its bytes.
    pub(in super::super) const JOB: usize = 16;
    /// How many sites are written. It grows.
    pub(in super::super) const SITES: usize = 40;
}

/// In the head of a group: written when its journal is begun, unless it says otherwise.
pub(super) mod group {
    /// Odd while the head is written, another for each group, 0 before the first.
    pub(in super::super) const STAMP: usize = 0;
    /// This rank in the group, and above it how many ranks there are.
    pub(in super::super) const RANK: usize = 1;
    /// How many ranks are listed.
    pub(in super::super) const LISTED: usize = 2;
    /// Whether this rank has left the group, which it may do later.
    pub(in super::super) const LEFT: usize = 3;
    pub(in super::super) const NAME: usize = 4;
    /// The last call that was made, if it was queued: others write it than those who carry calls out.
    pub(in super::super) const QUEUED: usize = 24;
    /// So many bytes went into calls that have ended. It grows.
    pub(in super::super) const BYTES: usize = 32;
    /// So many ticks were spent in them. It grows.
    pub(in super::super) const BUSY: usize = 33;
    /// So many calls have ended. It grows.
    pub(in super::super) const ENDED: usize = 34;
    /// So many of them have failed. It grows.
    pub(in super::super) const FAILED: usize = 35;
    /// For so many ticks they combined numbers. It grows.
    pub(in super::super) const COMBINED: usize = 36;
    /// The ranks in the world, two in a word.
    pub(in super::super) const MEMBERS: usize = 64;
    /// Of a larger group they are not listed.
    pub(in super::super) const MOST_MEMBERS: usize = (super::PAGE_WORDS - MEMBERS) * 2;
}

pub(super) const MAGIC: u64 = u64::from_ne_bytes(*b"consortR");
/// Of this layout, and of what the words of calls mean.
pub(super) const VERSION: u64 = 2;
pub(super) const PAGE_WORDS: usize = 512;
/// Longer names are cut off: a length, and 128 bytes.
const TEXT_WORDS: usize = 1 + 128 / size_of::<u64>();
pub(super) const SITE_WORDS: usize = 16;
