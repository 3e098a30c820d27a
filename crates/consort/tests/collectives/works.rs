//! Whether a group is of use.

use consort::{Dtype, Group, ReduceOp};

use super::data::Tile;
use super::exercise::Caller;
use super::meet::Digest;
use super::moves::Moves;
use super::reductions::Reduction;

/// The group carries out calls of all kinds, small and large. Of numbers whose sums are the same in any
/// order: many ranks that do not share memory combine them on the way.
pub(crate) fn works(group: &Group) {
    let data = Tile::new(Dtype::I32);
    let caller = Caller::here(group);
    let reduction = Reduction::new(&caller, Dtype::I32, ReduceOp::Sum, &data);
    let moves = Moves { caller: &caller, dtype: Dtype::I32, data: &data };
    for (call, count) in [5, 40_000].into_iter().enumerate() {
        reduction.all_reduce(count, call);
        reduction.reduce(count, call);
        reduction.reduce_scatter(count / group.world(), call);
        moves.all(count / group.world(), group.world() - 1, &mut Digest::default());
    }
}
