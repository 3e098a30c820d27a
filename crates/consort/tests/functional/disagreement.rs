//! Ranks that call different things: an error on every rank, never wrong data.

use consort::functional::{
    Array, Collective, Pending, all_reduce, all_reduce_coalesced, coalesced, permute, start,
};
use consort::{Error, ErrorKind, Group, ReduceOp, Result};
use consort_testkit::{Case, conformance};

use crate::meet::{SOON, array, coded, meet};

conformance! { [shm tcp mixed in_process mpi]
    about_a_shape_or_a_dimension_is_told_on_every_rank
    about_the_call_or_the_kind_of_numbers_is_told_on_every_rank
    about_what_is_called_at_once_is_told_on_every_rank
    about_sizes_that_only_two_ranks_know_is_told_on_every_rank
    about_who_sends_to_whom_never_gives_a_wrong_value
    a_row_meets_a_slice
}

const SUM: ReduceOp = ReduceOp::Sum;

fn about_a_shape_or_a_dimension_is_told_on_every_rank(case: Case) {
    case.run(3, |ctx| {
        let world = meet(ctx);
        let (one, other) = (coded(0, &[6, 9]), coded(0, &[9, 6]));
        let root = 2.into();
        for call in [
            Collective::AllReduce { op: SUM },
            Collective::Broadcast { root },
            Collective::Reduce { op: SUM, root },
            Collective::AllGather { dim: 0 },
            Collective::AllGather { dim: 1 },
            Collective::ReduceScatter { op: SUM, dim: 0 },
            Collective::ReduceScatter { op: SUM, dim: 1 },
            Collective::AllToAll,
        ] {
            disagree(&world, |group| run(&call, &one, group), |group| run(&call, &other, group));
            // A dimension more, and one that changes nothing but the shape.
            let row = array(&[54], one.numbers().to_vec());
            let thin = array(&[6, 9, 1], one.numbers().to_vec());
            if !matches!(
                call,
                Collective::AllGather { dim: 1 } | Collective::ReduceScatter { dim: 1, .. }
            ) {
                disagree(&world, |group| run(&call, &one, group), |group| run(&call, &row, group));
            }
            disagree(&world, |group| run(&call, &one, group), |group| run(&call, &thin, group));
        }
        let square = coded(0, &[6, 6]);
        for dims in [
            [Collective::AllGather { dim: 0 }, Collective::AllGather { dim: 1 }],
            [0, 1].map(|dim| Collective::ReduceScatter { op: SUM, dim }),
        ] {
            let [one, other] = dims.each_ref().map(|call| {
                let square = &square;
                move |group: &Group| run(call, square, group)
            });
            disagree(&world, one, other);
        }
    });
}

fn about_the_call_or_the_kind_of_numbers_is_told_on_every_rank(case: Case) {
    case.run(3, |ctx| {
        let world = meet(ctx);
        let x = array(&[3, 4], vec![1.0_f32; 12]);
        let sum = |group: &Group| run(&Collective::AllReduce { op: SUM }, &x, group);
        for other in [
            Collective::AllReduce { op: ReduceOp::Max },
            Collective::AllReduce { op: ReduceOp::PremulSum(1.0) },
            Collective::Reduce { op: SUM, root: 0.into() },
            Collective::Broadcast { root: 0.into() },
            Collective::AllGather { dim: 0 },
            Collective::ReduceScatter { op: SUM, dim: 0 },
            Collective::AllToAll,
        ] {
            disagree(&world, sum, |group| run(&other, &x, group));
        }
        let integers = array(&[3, 4], vec![1_i32; 12]);
        for call in [
            Collective::AllReduce { op: SUM },
            Collective::AllGather { dim: 1 },
            Collective::AllToAll,
        ] {
            disagree(&world, |it| run(&call, &x, it), |it| run(&call, &integers, it));
        }
        let factor = |factor: f64| {
            let x = &x;
            move |it: &Group| run(&Collective::AllReduce { op: ReduceOp::PremulSum(factor) }, x, it)
        };
        disagree(&world, factor(0.5), factor(0.25));
    });
}

fn about_what_is_called_at_once_is_told_on_every_rank(case: Case) {
    case.run(3, |ctx| {
        let world = meet(ctx);
        let shapes = |shapes: &'static [&'static [usize]]| {
            move |group: &Group| {
                let values: Vec<_> = shapes.iter().map(|shape| coded(0, shape)).collect();
                let values: Vec<&Array<i64>> = values.iter().collect();
                all_reduce_coalesced(&values, SUM, group)?.wait().map(drop)
            }
        };
        disagree(&world, shapes(&[&[2, 3], &[4]]), shapes(&[&[3, 2], &[4]]));
        disagree(&world, shapes(&[&[2, 3], &[4]]), shapes(&[&[4], &[2, 3]]));
        disagree(&world, shapes(&[&[2, 3], &[4]]), shapes(&[&[2, 3], &[2, 2]]));
        disagree(&world, shapes(&[&[2, 3], &[4]]), shapes(&[&[2, 3]]));
        let x = coded(0, &[3, 3]);
        let order = |calls: [Collective; 2]| {
            let x = &x;
            move |group: &Group| {
                coalesced(&calls.clone().map(|it| (it, x)), group)?.wait().map(drop)
            }
        };
        let (one, other) = (Collective::AllReduce { op: SUM }, Collective::AllGather { dim: 1 });
        disagree(&world, order([one.clone(), other.clone()]), order([other, one]));
    });
}

fn about_sizes_that_only_two_ranks_know_is_told_on_every_rank(case: Case) {
    case.run(3, |ctx| {
        let world = meet(ctx);
        for sent in [0, 1, 3, 50_000] {
            // Rank 0 sends rank 2 what that does not expect.
            let exchange = |group: &Group| {
                let me = group.rank().index();
                let to = if me == 0 { vec![2, 2, sent] } else { vec![2; 3] };
                let x = coded(me, &[to.iter().sum(), 3]);
                let call = Collective::AllToAllUneven { to, from: vec![2; 3] };
                let found = start(call, &x, group)?.wait()?;
                assert!(me != 2, "rank 2 has got {found:?}");
                Ok(())
            };
            fails_everywhere(&world, exchange);
        }
    });
}

fn about_who_sends_to_whom_never_gives_a_wrong_value(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let me = ctx.rank() as usize;
        let there = [(0, 1), (1, 2), (2, 0)];
        let back = [(1, 0), (2, 1), (0, 2)];
        let hasty = group.within(SOON);
        let begin = |pairs: &[(u32, u32)], round: usize| {
            permute(&coded(10 * round + me, &[5]), pairs, &hasty).unwrap()
        };
        let check = |found: Pending<Array<i64>>, pairs: &[(u32, u32)], round: usize| {
            let (from, _) = pairs.iter().find(|(_, to)| *to as usize == me).unwrap();
            match found.wait() {
                // From one who means the same.
                Ok(value) => assert_eq!(value, coded(10 * round + *from as usize, &[5])),
                Err(Error::Late { missing, .. }) => assert_eq!(missing, [*from]),
                Err(other) => panic!("{other}"),
            }
        };
        // One means something else; nobody means the same; two calls in the other order.
        let one = begin(if me == 2 { &back } else { &there }, 0);
        check(one, if me == 2 { &back } else { &there }, 0);
        let pairs = [there, back, [(0, 0), (1, 1), (2, 2)]];
        check(begin(&pairs[me], 1), &pairs[me], 1);
        let mine: [&[(u32, u32)]; 2] = if me == 0 { [&there, &back] } else { [&back, &there] };
        let two = [begin(mine[0], 2), begin(mine[1], 3)];
        let [first, second] = two;
        check(first, mine[0], 2);
        check(second, mine[1], 3);
        // What was never received is not taken for what comes now.
        let last = permute(&coded(50 + me, &[5]), &there, &group).unwrap();
        assert_eq!(last.wait().unwrap(), coded(50 + (me + 2) % 3, &[5]));
        group.barrier().unwrap();
    });
}

fn a_row_meets_a_slice(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        for shape in [&[][..], &[1]] {
            if ctx.rank() == 0 {
                let mut slice = [1.0_f32];
                group.all_reduce(&mut slice, SUM).unwrap();
                assert_eq!(slice, [3.0]);
            } else {
                let sums = all_reduce(&array(shape, vec![2.0_f32]), SUM, &group).unwrap();
                assert_eq!(sums.wait().unwrap(), array(shape, vec![3.0]));
            }
        }
    });
}

fn run<T: consort::Element>(call: &Collective, x: &Array<T>, group: &Group) -> Result<()> {
    start(call.clone(), x, group)?.wait().map(drop)
}

/// In turn each rank does something else than the others.
fn disagree(
    world: &Group,
    one: impl Fn(&Group) -> Result<()>,
    other: impl Fn(&Group) -> Result<()>,
) {
    for odd in 0..world.world() {
        fails_everywhere(world, |group| match group.rank().index() == odd {
            true => other(group),
            false => one(group),
        });
    }
}

/// In a group of its own, a call fails; or it cannot know yet, and the next one does.
fn fails_everywhere(world: &Group, call: impl Fn(&Group) -> Result<()>) {
    let group = world.split(Some(0), 0).unwrap().unwrap();
    let error = call(&group).and_then(|()| group.barrier()).unwrap_err();
    assert!(matches!(error, Error::Mismatch { .. }), "{error}");
    assert_eq!(error.kind(), ErrorKind::Mismatch);
    let later = all_reduce(&vec![1_u8], SUM, &group).unwrap().wait().unwrap_err();
    assert_eq!(later.to_string(), error.to_string());
}
