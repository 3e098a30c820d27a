//! How many elements are moved.

use consort::Dtype;

use super::edges::{CHUNK, DIRECT, INLINE, ONE_SHOT, STAGES, WINDOW, one_shot_limit, slot};

/// None, one, an odd number, and as many as just fit in front of every edge, one less and one more.
pub(crate) fn every_edge(dtype: Dtype, world: usize) -> Vec<usize> {
    let around = edges(dtype, world).into_iter().flat_map(|bytes| around(bytes, dtype));
    sorted([0, 1, 7].into_iter().chain(around))
}

/// So many that every way to carry out a call is taken once.
pub(crate) fn every_way(dtype: Dtype, world: usize) -> Vec<usize> {
    let beyond = edges(dtype, world).map(|bytes| bytes / dtype.size() + 1);
    sorted(beyond.into_iter().chain([1, long(dtype)]))
}

/// An odd number, so large that every stage is used again.
pub(crate) fn long(dtype: Dtype) -> usize {
    ((STAGES * CHUNK + CHUNK / 8) / dtype.size()) | 1
}

fn edges(dtype: Dtype, world: usize) -> [usize; 7] {
    let one_shot_limit = one_shot_limit(world, dtype.size());
    [INLINE, WINDOW, one_shot_limit, slot(world), ONE_SHOT, DIRECT, CHUNK]
}

/// As many as fit into so many bytes, one less and one more.
fn around(bytes: usize, dtype: Dtype) -> [usize; 3] {
    let count = bytes / dtype.size();
    [count - 1, count, count + 1]
}

fn sorted(counts: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut counts: Vec<usize> = counts.collect();
    counts.sort_unstable();
    counts.dedup();
    counts
}
