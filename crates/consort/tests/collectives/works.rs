//! Whether a group is of use.

use consort::{Dtype, Group, ReduceOp};

use super::data::Tile;
use super::exercise::Caller;
use super::meet::Digest;
use super::moves::Moves;
use super::reductions::Reduction;

/// The group carries out calls of all kinds, small and large.
pub(crate) fn works(group: &Group) {
    let data = Tile::new(Dtype::F32);
    let caller = Caller::here(group);
    let reduction = Reduction::new(&caller, Dtype::F32, ReduceOp::Sum, &data);
    let moves = Moves { caller: &caller, dtype: Dtype::F32, data: &data };
    for (call, count) in [5, 40_000].into_iter().enumerate() {
        reduction.all_reduce(count, call);
        reduction.reduce(count, call);
        reduction.reduce_scatter(count / group.world(), call);
        moves.all(count / group.world(), group.world() - 1, &mut Digest::default());
    }
}
