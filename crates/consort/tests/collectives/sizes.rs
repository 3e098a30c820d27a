//! How many elements are moved.

use consort::Dtype;

/// Few elements: none, one, an odd number, and as many as just fit beside a step's number.
pub(crate) fn small(dtype: Dtype) -> Vec<usize> {
    let mut counts = vec![0, 1, 7];
    counts.extend(around(INLINE, dtype));
    counts.sort_unstable();
    counts.dedup();
    counts
}

/// Many elements: about as many as fit into the sizes at which something else begins (another way
/// to combine, the next chunk, the next slot of a buffer that all ranks share). Whether just as
/// many, one less or one more depends on the turn; three turns have them all.
pub(crate) fn large(dtype: Dtype, world: usize, turn: usize) -> Vec<usize> {
    let thresholds = [(16 << 10) / world, slot(world), 32 << 10, 64 << 10, 128 << 10];
    let choose = |(at, bytes): (usize, usize)| around(bytes, dtype)[(at + turn) % 3];
    thresholds.into_iter().enumerate().map(choose).collect()
}

fn around(bytes: usize, dtype: Dtype) -> [usize; 3] {
    let count = bytes / dtype.size();
    [count - 1, count, count + 1]
}

/// What each rank has of a staging buffer that holds a part for each.
fn slot(world: usize) -> usize {
    ((128 << 10) / world) & !63
}

/// How many bytes fit beside a step's number.
const INLINE: usize = 40;
