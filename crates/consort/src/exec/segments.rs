//! Into how many segments the chunks of a call are cut.

use std::ops::Range;

use consort_plan::Collective;

use super::place::Buffers;
use super::recipe::Recipe;

/// Into how many segments every chunk is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) segments: usize,
}

impl Cut {
    /// So that messages are not too long, and what is under way at once stays in the caches; but for
    /// calls that are too small to be worth it.
    pub(super) fn new(recipe: Recipe, buffers: &Buffers<'_>, world: usize) -> Self {
        let sizes = || (0..world).map(|number| buffers.size(number));
        let largest = || sizes().max().unwrap_or(0);
        if sizes().sum::<usize>() <= WHOLE {
            return Self { segments: 1 };
        }
        let cached = (CACHED / world).clamp(LEAST_SEGMENT, SEGMENT);
        let (bytes, most) = match recipe {
            // It moves nothing. The recipes for small calls never come here.
            Recipe::Alone => (0, SEGMENT),
            Recipe::Plan { algorithm, op } if has_ranges(algorithm, op) => (sizes().sum(), MESSAGE),
            // Others may carry it out in place, which has a recipe of its own.
            Recipe::Plan { op: Collective::AllToAll, .. } => (largest(), cached),
            Recipe::Plan { .. } | Recipe::AllGather => (largest(), SEGMENT),
            _ => (largest(), cached),
        };
        Self { segments: bytes.div_ceil(most).max(1) }
    }

    /// The bytes of a chunk that belong to a segment. None is longer than the first.
    pub(super) fn range(self, len: usize, segment: usize) -> Range<usize> {
        if self.segments == 1 {
            return 0..len;
        }
        // Whole lines are whole elements.
        let each = len.div_ceil(self.segments).next_multiple_of(LINE);
        (segment * each).min(len)..((segment + 1) * each).min(len)
    }
}

/// Whether messages are of many chunks, possibly of all.
fn has_ranges(algorithm: &str, op: Collective) -> bool {
    use Collective::{AllGather, AllReduce, AllToAll, Gather, ReduceScatter, Scatter};
    match algorithm {
        "pairwise" => false,
        "flat" => !matches!(op, AllToAll | Gather { .. } | Scatter { .. }),
        "ring" => !matches!(op, AllGather | AllReduce | ReduceScatter),
        _ => true,
    }
}

/// Up to so many bytes are not cut: a message more costs more than what overlaps with it.
const WHOLE: usize = 1 << 20;
/// The longest message of many chunks.
const MESSAGE: usize = 256 << 10;
/// The longest message of one chunk.
const SEGMENT: usize = 128 << 10;
/// Where a segment of every rank is kept, the longest of these that all fit in here …
const CACHED: usize = 256 << 10;
/// … but no shorter ones.
const LEAST_SEGMENT: usize = 16 << 10;
/// Whole lines are whole elements of every dtype.
pub(super) const LINE: usize = 64;
