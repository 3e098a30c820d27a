//! Everything once more in calls that own their buffers.

use consort::Group;

use super::exercise::Caller;
use super::meet::{Digest, in_worlds};
use super::moves::move_everything;
use super::reductions::reduce_everything;
use super::sizes::every_way;

in_worlds! { every_reduction:
    reductions_are_right_in_a_world_of_2 2 [shm tcp mixed in_process mpi]
    reductions_are_right_in_a_world_of_5 5 [shm]
}

in_worlds! { every_move:
    moves_are_right_in_a_world_of_2 2 [shm tcp mixed in_process mpi]
    moves_are_right_in_a_world_of_5 5 [shm tcp]
}

fn every_reduction(group: &Group, digest: &mut Digest) {
    let counts = |dtype| every_way(dtype, group.world());
    reduce_everything(&Caller::in_background(group), digest, counts);
}

fn every_move(group: &Group, digest: &mut Digest) {
    let counts = |dtype| every_way(dtype, group.world());
    move_everything(&Caller::in_background(group), digest, counts);
}
