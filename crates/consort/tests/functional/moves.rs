//! Calls that move values, bit for bit.

use consort::functional::Collective;
use consort::{Group, Rank, ReduceOp};
use consort_testkit::{Case, conformance};

use crate::exercise::{Round, check_all, parts};
use crate::meet::meet;
use crate::numbers::{Number, for_every_kind};

conformance! { [shm tcp mixed in_process mpi]
    values_of_every_shape_end_up_where_they_belong
    values_of_every_kind_end_up_where_they_belong
    large_values_end_up_where_they_belong
}

fn values_of_every_shape_end_up_where_they_belong(case: Case) {
    case.run(5, |ctx| {
        for group in parts(&meet(ctx)) {
            let world = group.world();
            let mut rounds = Vec::new();
            for shape in SHAPES {
                rounds.extend(broadcasts_and_permutations(world, shape));
                let dims = 0..shape.len().max(1);
                rounds.extend(
                    dims.map(|dim| Round::alike(world, &Collective::AllGather { dim }, shape)),
                );
            }
            for row in [&[][..], &[3], &[0, 2], &[5, 7]] {
                rounds.extend(exchanges(world, row));
            }
            check_all::<u16>(&rounds, u16::any, &group);
        }
    });
}

fn values_of_every_kind_end_up_where_they_belong(case: Case) {
    case.run(4, |ctx| {
        for group in parts(&meet(ctx)) {
            for_every_kind!(check_moves(&group));
        }
    });
}

fn check_moves<T: Number>(group: &Group) {
    let world = group.world();
    let shape = &[3, 2, 5];
    let mut rounds = broadcasts_and_permutations(world, shape);
    rounds.extend([0, 1, 2].map(|dim| Round::alike(world, &Collective::AllGather { dim }, shape)));
    rounds.extend(exchanges(world, &[7]));
    check_all::<T>(&rounds, T::any, group);
}

fn large_values_end_up_where_they_belong(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let op = ReduceOp::Sum;
        let calls = [
            Collective::AllGather { dim: 1 },
            Collective::ReduceScatter { op, dim: 1 },
            Collective::AllToAll,
            Collective::Permute { pairs: vec![(0.into(), 1.into()), (1.into(), 0.into())] },
            Collective::AllGather { dim: 0 },
        ];
        let rounds = calls.map(|call| Round::alike(2, &call, &[2, 30_002]));
        check_all::<u64>(&rounds, u64::any, &group);
    });
}

/// From every root, and in many ways from rank to rank.
fn broadcasts_and_permutations(world: usize, shape: &[usize]) -> Vec<Round> {
    let next = |rank: u32| (rank + 1) % world as u32;
    let ranks = || 0..world as u32;
    let last = world as u32 - 1;
    let permutations = [
        ranks().map(|rank| (rank, next(rank))).collect(),
        ranks().rev().map(|rank| (next(rank), rank)).collect(),
        ranks().map(|rank| (rank, last - rank)).collect(),
        ranks().map(|rank| (rank, rank)).collect(),
        ranks().skip(1).map(|rank| (rank, rank - 1)).collect(),
        vec![(last, 0)],
        vec![],
    ];
    let permutations = permutations.map(|pairs: Vec<(u32, u32)>| Collective::Permute {
        pairs: pairs.into_iter().map(|(from, to)| (from.into(), to.into())).collect(),
    });
    let roots = ranks().map(|root| Collective::Broadcast { root: Rank::from(root) });
    roots.chain(permutations).map(|call| Round::alike(world, &call, shape)).collect()
}

/// With equal parts and with others, of which some are empty.
fn exchanges(world: usize, row: &[usize]) -> Vec<Round> {
    let shape = |rows: usize| [&[rows], row].concat();
    let uneven = |rows: &dyn Fn(usize, usize) -> usize| {
        let of = |me: usize| Collective::AllToAllUneven {
            to: (0..world).map(|to| rows(me, to)).collect(),
            from: (0..world).map(|from| rows(from, me)).collect(),
        };
        let total = |me: usize| (0..world).map(|to| rows(me, to)).sum();
        Round {
            calls: (0..world).map(of).collect(),
            shapes: (0..world).map(|me| shape(total(me))).collect(),
        }
    };
    vec![
        Round::alike(world, &Collective::AllToAll, &shape(0)),
        Round::alike(world, &Collective::AllToAll, &shape(world)),
        Round::alike(world, &Collective::AllToAll, &shape(3 * world)),
        uneven(&|from, to| from + 2 * to),
        uneven(&|from, to| (from * 5 + to * 3) % 4),
        // Only the first has something, only the last gets something, and nobody does.
        uneven(&|from, to| if from == 0 { to } else { 0 }),
        uneven(&|_, to| if to + 1 == world { 2 } else { 0 }),
        uneven(&|_, _| 0),
    ]
}

const SHAPES: &[&[usize]] = &[
    &[],
    &[0],
    &[1],
    &[7],
    &[1, 1],
    &[3, 5],
    &[0, 4],
    &[4, 0],
    &[2, 3, 5],
    &[1, 3, 1],
    &[2, 0, 3],
];
