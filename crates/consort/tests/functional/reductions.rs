//! Calls that combine values.

use consort::functional::Collective;
use consort::{Group, ReduceOp};
use consort_testkit::{Case, conformance};

use crate::exercise::{Round, check_all, parts};
use crate::meet::meet;
use crate::numbers::{Number, for_every_kind};

conformance! { [shm tcp mixed in_process mpi]
    values_of_every_shape_are_combined_where_they_belong
    values_of_every_kind_are_combined_in_every_way_they_can_be
}

fn values_of_every_shape_are_combined_where_they_belong(case: Case) {
    case.run(5, |ctx| {
        for group in parts(&meet(ctx)) {
            let (world, op) = (group.world(), ReduceOp::Sum);
            let mut rounds = Vec::new();
            for shape in SHAPES {
                rounds.push(Round::alike(world, &Collective::AllReduce { op }, shape));
                rounds.extend((0..world as u32).map(|root| {
                    Round::alike(world, &Collective::Reduce { op, root: root.into() }, shape)
                }));
                for dim in 0..shape.len() {
                    let mut shape = shape.to_vec();
                    shape[dim] *= world;
                    let call = Collective::ReduceScatter { op: ReduceOp::BitXor, dim };
                    rounds.push(Round::alike(world, &call, &shape));
                }
            }
            check_all::<u32>(&rounds, u32::plain, &group);
        }
    });
}

fn values_of_every_kind_are_combined_in_every_way_they_can_be(case: Case) {
    case.run(4, |ctx| {
        for group in parts(&meet(ctx)) {
            for_every_kind!(check_operations(&group));
        }
    });
}

fn check_operations<T: Number>(group: &Group) {
    let (world, last) = (group.world(), group.world() as u32 - 1);
    let rounds = T::operations().into_iter().flat_map(|op| {
        [
            Round::alike(world, &Collective::AllReduce { op }, &[7, 5]),
            Round::alike(world, &Collective::Reduce { op, root: last.into() }, &[2, 3]),
            Round::alike(world, &Collective::ReduceScatter { op, dim: 0 }, &[2 * world, 3]),
            Round::alike(world, &Collective::ReduceScatter { op, dim: 1 }, &[3, world, 2]),
        ]
    });
    check_all::<T>(&rounds.collect::<Vec<_>>(), T::plain, group);
}

const SHAPES: &[&[usize]] = &[&[], &[0], &[1], &[6], &[3, 5], &[0, 4], &[2, 3, 5], &[1, 4, 1]];
