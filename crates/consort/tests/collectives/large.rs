//! Megabytes, which take many chunks, and results that are written past the caches.

use consort::{Dtype, Group, ReduceOp};

use super::data::Tile;
use super::edges::PAST_CACHES;
use super::exercise::Caller;
use super::meet::{Digest, in_worlds};
use super::moves::Moves;
use super::reductions::Reduction;

in_worlds! { every_operation:
    buffers_are_right_in_a_world_of_1 1 [shm tcp]
    buffers_are_right_in_a_world_of_2 2 [shm tcp in_process mpi]
    buffers_are_right_in_a_world_of_3 3 [shm tcp mixed mpi]
    buffers_are_right_in_a_world_of_4 4 [shm in_process]
    buffers_are_right_in_a_world_of_5 5 [shm]
    buffers_are_right_in_a_world_of_8 8 [shm]
}

fn every_operation(group: &Group, digest: &mut Digest) {
    let caller = Caller::here(group);
    for (turn, (dtype, op)) in KINDS.into_iter().enumerate() {
        let data = Tile::new(dtype);
        let reduction = Reduction::new(&caller, dtype, op, &data);
        // A part for each rank has a share of the bytes.
        let (count, share) = (BYTES / dtype.size() + turn, BYTES / dtype.size() / group.world());
        digest.add(&reduction.all_reduce(count, turn));
        reduction.reduce(count, turn);
        reduction.reduce_scatter(share + turn, turn);
        let moves = Moves { caller: &caller, dtype, data: &data };
        moves.all(share + turn, turn % group.world(), digest);
    }
}

in_worlds! { on_both_sides_of_the_edge:
    results_take_their_way_past_the_caches_of_2_ranks 2 [shm]
    results_take_their_way_past_the_caches_of_5_ranks 5 [shm]
}

/// Just too few bytes to go past the caches, and just enough: in place and elsewhere, beginning at
/// places of all kinds.
fn on_both_sides_of_the_edge(group: &Group, digest: &mut Digest) {
    let (caller, world) = (Caller::here(group), group.world());
    let mut call = 0;
    for (dtype, op) in KINDS {
        let data = Tile::new(dtype);
        let reduction = Reduction::new(&caller, dtype, op, &data);
        let moves = Moves { caller: &caller, dtype, data: &data };
        // As much on every rank, or a part of it from each.
        let whole = PAST_CACHES.div_ceil(world).div_ceil(dtype.size());
        let part = whole.div_ceil(world);
        for fewer in [1, 0] {
            call += 1;
            let (whole, part, root) = (whole - fewer, part - fewer, call % world);
            // In place and elsewhere.
            (0..2).for_each(|turn| digest.add(&reduction.all_reduce(whole, call + turn)));
            (0..4).for_each(|turn| reduction.reduce(whole, call + turn));
            reduction.reduce_scatter(part, call);
            digest.add(&moves.broadcast(whole, root, call));
            digest.add(&moves.all_gather(part, call + 1));
            digest.add(&moves.all_gather_in_place(part, call + 2));
            moves.gather(whole, root, call + 3);
            moves.scatter(whole, root, call + 4);
            moves.all_to_all(part, call + 5);
            moves.all_to_all_in_place(part, call + 6);
        }
    }
}

const KINDS: [(Dtype, ReduceOp); 5] = [
    (Dtype::F32, ReduceOp::Sum),
    (Dtype::Bf16, ReduceOp::Avg),
    (Dtype::U8, ReduceOp::Max),
    (Dtype::C128, ReduceOp::Product),
    (Dtype::Bool, ReduceOp::BitXor),
];

const BYTES: usize = 2 << 20;
