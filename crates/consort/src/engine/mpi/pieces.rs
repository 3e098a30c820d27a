//! Much data goes in pieces, so that what MPI works on stays in the caches, and little is left to it when a call is
//! given up.

use std::ops::Range;

use consort_sys::view::{Source, Target};

use crate::call::{Inputs, Outputs};

/// The pieces of so many bytes, each of at most so many; one that is empty, if there are none: ranks that have nothing
/// to move still agree on it.
pub(super) fn pieces(bytes: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    let count = bytes.div_ceil(most).max(1);
    (0..count).map(move |at| at * most..((at + 1) * most).min(bytes))
}

/// How much of each of `world` parts goes at once: whole cache lines.
pub(super) fn piece_of_part(world: usize) -> usize {
    (PIECE / world).max(LINE) & !(LINE - 1)
}

/// What of a part so long is in a piece of all parts.
pub(super) fn clip(piece: &Range<usize>, len: usize) -> Range<usize> {
    piece.start.min(len)..piece.end.min(len)
}

/// Copies parts, one behind the other.
pub(super) fn pack<'a>(to: &mut [u8], parts: impl Iterator<Item = Source<'a>>) {
    let mut rest = to;
    for part in parts {
        let (place, after) = std::mem::take(&mut rest).split_at_mut(part.len());
        Target::from(place).copy_from(part);
        rest = after;
    }
}

/// A piece of every rank's part.
pub(super) fn piece_of<'a>(
    inputs: Inputs<'a>,
    world: usize,
    piece: &Range<usize>,
) -> impl Iterator<Item = Source<'a>> {
    (0..world).map(move |rank| {
        let part = inputs.part(rank, world);
        part.slice(clip(piece, part.len()))
    })
}

/// Copies pieces that lie one behind the other to where they belong in every rank's part.
pub(super) fn unpack(from: &[u8], outputs: Outputs<'_>, world: usize, piece: &Range<usize>) {
    let mut rest = from;
    for rank in 0..world {
        let part = outputs.part(rank, world);
        let part = part.slice(clip(piece, part.len()));
        let (bytes, after) = rest.split_at(part.len());
        part.copy_from(Source::from(bytes));
        rest = after;
    }
}

/// How many bytes go at once: with four times as many, what MPI works on leaves the nearer caches, and 16 MiB were
/// measured to take three times as long; with half, waits are a part of the time that counts.
pub(super) const PIECE: usize = 1 << 20;
const LINE: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_everything_once() {
        let all = |bytes, most| pieces(bytes, most).collect::<Vec<_>>();
        assert_eq!(all(10, 4), [0..4, 4..8, 8..10]);
        assert_eq!(all(8, 4), [0..4, 4..8]);
        assert_eq!(all(0, 4), vec![0..0; 1]);
    }

    #[test]
    fn parts_are_cut_alike_however_long_they_are() {
        let bytes = [1_u8, 2, 3, 4, 5, 6];
        let parts = [Source::from(&bytes[..1]), Source::from(&bytes[1..6])];
        let mut packed = [0; 4];
        pack(&mut packed[..3], piece_of(Inputs::List(&parts), 2, &(0..2)));
        assert_eq!(packed, [1, 2, 3, 0]);
        pack(&mut packed[..2], piece_of(Inputs::List(&parts), 2, &(2..4)));
        assert_eq!(packed, [4, 5, 3, 0]);
        let mut room = [0_u8; 6];
        let (first, second) = room.split_at_mut(1);
        let parts = [Target::from(first), Target::from(second)];
        unpack(&[1, 2, 3], Outputs::List(&parts), 2, &(0..2));
        unpack(&[4, 5], Outputs::List(&parts), 2, &(2..4));
        assert_eq!(room, [1, 2, 3, 4, 5, 0]);
    }

    #[test]
    fn a_piece_of_a_part_is_whole_lines() {
        assert_eq!(piece_of_part(1), PIECE);
        assert_eq!(piece_of_part(3) % LINE, 0);
        assert_eq!(piece_of_part(1 << 30), LINE);
    }
}
