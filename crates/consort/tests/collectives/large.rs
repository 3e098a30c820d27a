//! Megabytes, which take many chunks.

use consort::{Dtype, Group, ReduceOp};

use super::data::Tile;
use super::meet::{Digest, in_worlds};
use super::moves::Moves;
use super::reductions::Reduction;

in_worlds! { every_operation:
    buffers_are_right_in_a_world_of_1 1
    buffers_are_right_in_a_world_of_2 2
    buffers_are_right_in_a_world_of_3 3
    buffers_are_right_in_a_world_of_4 4
    buffers_are_right_in_a_world_of_5 5
    buffers_are_right_in_a_world_of_8 8
}

fn every_operation(group: &Group, digest: &mut Digest) {
    let kinds = [
        (Dtype::F32, ReduceOp::Sum),
        (Dtype::Bf16, ReduceOp::Avg),
        (Dtype::U8, ReduceOp::Max),
        (Dtype::C128, ReduceOp::Product),
    ];
    for (turn, (dtype, op)) in kinds.into_iter().enumerate() {
        let data = Tile::new(dtype);
        let reduction = Reduction::new(group, dtype, op, &data);
        // A part for each rank has a share of the bytes.
        let (count, share) = (BYTES / dtype.size() + turn, BYTES / dtype.size() / group.world());
        digest.add(&reduction.all_reduce(count, turn));
        reduction.reduce(count, turn);
        reduction.reduce_scatter(share + turn, turn);
        let moves = Moves { group, dtype, data: &data };
        moves.all(share + turn, turn % group.world(), digest);
    }
}

const BYTES: usize = 2 << 20;
