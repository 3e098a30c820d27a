//! Lists of memory that is sent or filled in one go.

use std::ops::Range;

use consort_sys::socket::MOST;
use consort_sys::view::{Source, Target};

/// A few parts, as many as a socket takes at once.
#[derive(Debug)]
pub(super) struct Parts<T> {
    parts: [T; MOST],
    len: usize,
}

impl<'a> Parts<Source<'a>> {
    pub(super) fn starting_with(first: Source<'a>) -> Self {
        Self { parts: [first; MOST], len: 1 }
    }

    /// Adds what is beyond the first `skip` bytes of these, and of a last one behind them.
    pub(super) fn extend_from(&mut self, parts: &[Source<'a>], last: Source<'a>, mut skip: usize) {
        for part in parts.iter().chain([&last]) {
            let cut = skip.min(part.len());
            skip -= cut;
            if cut < part.len() && !self.push_part(part.slice(cut..part.len())) {
                return;
            }
        }
    }
}

impl<'a> Parts<Target<'a>> {
    /// What is beyond the first `skip` bytes of these.
    pub(super) fn of_targets(parts: &[Target<'a>], mut skip: usize) -> Self {
        let none = Target::from(&mut [0_u8; 0][..]);
        let mut list = Self { parts: [none; MOST], len: 0 };
        for part in parts {
            let cut = skip.min(part.len());
            skip -= cut;
            if cut < part.len() && !list.push_part(part.slice(cut..part.len())) {
                break;
            }
        }
        list
    }

    /// Adds a last part, if all others are in.
    pub(super) fn push(&mut self, last: Target<'a>) {
        self.push_part(last);
    }
}

impl<T> Parts<T> {
    pub(super) fn as_slice(&self) -> &[T] {
        &self.parts[..self.len]
    }

    fn push_part(&mut self, part: T) -> bool {
        let fits = self.len < MOST;
        if fits {
            self.parts[self.len] = part;
            self.len += 1;
        }
        fits
    }
}

/// How many bytes these parts have.
pub(super) fn total(parts: &[Target<'_>]) -> usize {
    parts.iter().map(|part| part.len()).sum()
}

/// Writes into the parts from a place on.
pub(super) fn fill(parts: &[Target<'_>], at: usize, data: Source<'_>) {
    let (mut skip, mut used) = (at, 0);
    for part in parts {
        let cut = skip.min(part.len());
        skip -= cut;
        let len = (part.len() - cut).min(data.len() - used);
        part.slice(cut..cut + len).copy_from(data.slice(used..used + len));
        used += len;
    }
}

/// The checksum of some of the parts' bytes, behind those whose checksum is given.
pub(super) fn checksum(parts: &[Target<'_>], range: Range<usize>, before: u32) -> u32 {
    let sources = parts.iter().map(|&part| Source::from(part));
    checksum_of(sources, range, before)
}

/// The checksum of all bytes of these parts.
pub(crate) fn checksum_of_all(parts: &[Source<'_>]) -> u32 {
    checksum_of(parts.iter().copied(), 0..usize::MAX, 0)
}

fn checksum_of<'a>(
    parts: impl Iterator<Item = Source<'a>>,
    range: Range<usize>,
    mut sum: u32,
) -> u32 {
    let (mut skip, mut left) = (range.start, range.len());
    let mut block = [0; 4096];
    for part in parts {
        let cut = skip.min(part.len());
        skip -= cut;
        let (mut at, end) = (cut, part.len().min(cut.saturating_add(left)));
        left -= end - cut;
        while at < end {
            let len = block.len().min(end - at);
            Target::from(&mut block[..len]).copy_from(part.slice(at..at + len));
            sum = crc32c::crc32c_append(sum, &block[..len]);
            at += len;
        }
    }
    sum
}
