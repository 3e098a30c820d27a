//! Numbers of which each rank, each position and each call has its own.

use consort::{Dtype, F8E4m3, F8E5m2};
use half::{bf16, f16};

/// Some elements, over and over again.
///
/// The period is a prime number, so elements that end up at the wrong place show: nothing that is
/// cut into pieces is cut at its multiples.
pub(crate) struct Tile {
    element: usize,
    bytes: Vec<u8>,
}

impl Tile {
    /// What the ranks begin with.
    pub(crate) fn new(dtype: Dtype) -> Self {
        Self::made_of(dtype, (0..PERIOD as u64).flat_map(|at| element(dtype, at)).collect())
    }

    /// These elements, as many as a period has.
    pub(crate) fn made_of(dtype: Dtype, bytes: Vec<u8>) -> Self {
        assert_eq!(bytes.len(), PERIOD * dtype.size());
        Self { element: dtype.size(), bytes }
    }

    /// So many elements, from one on.
    pub(crate) fn take(&self, from: usize, count: usize) -> Vec<u8> {
        let mut taken = Vec::with_capacity(count * self.element);
        for piece in self.pieces(from, count * self.element) {
            taken.extend_from_slice(piece);
        }
        taken
    }

    /// These are the elements from one on.
    ///
    /// # Panics
    /// When they are not, with the first that is wrong.
    pub(crate) fn check(&self, from: usize, found: &[u8], what: impl FnOnce() -> String) {
        let mut rest = found;
        for piece in self.pieces(from, found.len()) {
            let (head, tail) = rest.split_at(piece.len());
            if head != piece {
                let wrong = head.iter().zip(piece).take_while(|(one, other)| one == other).count();
                let at = (found.len() - rest.len() + wrong) / self.element;
                let (found, right) = (&found[at * self.element..], self.take(from + at, 1));
                let found = &found[..self.element];
                panic!("{}: element {at} is {found:02x?} instead of {right:02x?}", what());
            }
            rest = tail;
        }
    }

    fn pieces(&self, from: usize, bytes: usize) -> impl Iterator<Item = &[u8]> {
        let (mut start, mut rest) = (from % PERIOD * self.element, bytes);
        std::iter::from_fn(move || {
            let piece = &self.bytes[start..][..rest.min(self.bytes.len() - start)];
            (start, rest) = (0, rest - piece.len());
            (!piece.is_empty()).then_some(piece)
        })
    }
}

/// From which element on a rank takes its data in a call. What belongs to another rank or is left
/// over from another call is something else.
pub(crate) fn phase(rank: usize, call: usize) -> usize {
    rank * 131 + phase_of_result(call)
}

/// From which element on results of a call are taken, if all ranks took theirs by [`phase`] and
/// the tile of results was computed for call 0.
pub(crate) fn phase_of_result(call: usize) -> usize {
    call * 13
}

/// One element in its bytes: mostly ordinary numbers, and some that are not.
fn element(dtype: Dtype, at: u64) -> Vec<u8> {
    let random = scramble(at);
    let special = at.is_multiple_of(31);
    match dtype {
        Dtype::F32 => single(random, special).to_le_bytes().into(),
        Dtype::F64 => double(random, special).to_le_bytes().into(),
        Dtype::F16 => f16::from_f32(single(random, special)).to_le_bytes().into(),
        Dtype::Bf16 => bf16::from_f32(single(random, special)).to_le_bytes().into(),
        Dtype::F8E4m3 => vec![F8E4m3::from_f32(single(random, special)).to_bits()],
        Dtype::F8E5m2 => vec![F8E5m2::from_f32(single(random, special)).to_bits()],
        Dtype::Bool => vec![(random & 1) as u8],
        Dtype::C64 => [single(random, special), single(scramble(random), false)]
            .iter()
            .flat_map(|part| part.to_le_bytes())
            .collect(),
        Dtype::C128 => [double(random, special), double(scramble(random), false)]
            .iter()
            .flat_map(|part| part.to_le_bytes())
            .collect(),
        integer => random.to_le_bytes()[..integer.size()].to_vec(),
    }
}

fn single(random: u64, special: bool) -> f32 {
    const SPECIAL: [f32; 7] =
        [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, f32::MAX, f32::MIN_POSITIVE / 3.0, 0.0];
    if special { SPECIAL[(random % 7) as usize] } else { double(random, false) as f32 }
}

/// Between -4 and 4, with a fraction that has to be rounded in every operation.
fn double(random: u64, special: bool) -> f64 {
    const SPECIAL: [f64; 7] =
        [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, f64::MAX, f64::MIN_POSITIVE / 3.0, 0.0];
    if special { SPECIAL[(random % 7) as usize] } else { random as i64 as f64 / 2_f64.powi(61) }
}

fn scramble(number: u64) -> u64 {
    let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^ (mixed >> 32)
}

/// After how many elements a tile begins anew.
pub(crate) const PERIOD: usize = 1021;
