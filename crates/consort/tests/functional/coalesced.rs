//! Several calls at once.

use consort::functional::{
    Array, Collective, Value, all_gather_coalesced, all_reduce_coalesced, coalesced,
    reduce_scatter_coalesced, start,
};
use consort::{Error, ReduceOp};
use consort_testkit::{Case, conformance};

use crate::exercise::{Round, assert_same};
use crate::meet::{alone, array, coded, meet};
use crate::numbers::Number;
use crate::oracle::result;

conformance! { [shm tcp mixed in_process mpi]
    calls_of_all_kinds_and_shapes_can_be_made_at_once
    many_values_can_be_combined_gathered_and_shared_out_at_once
    calls_made_at_once_and_calls_made_alone_can_meet_in_any_order
}

fn calls_of_all_kinds_and_shapes_can_be_made_at_once(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let (op, root) = (ReduceOp::Sum, 1.into());
        let circle = vec![(0.into(), 1.into()), (1.into(), 2.into()), (2.into(), 0.into())];
        let rounds = [
            (Collective::AllReduce { op }, &[2, 3][..]),
            (Collective::Permute { pairs: circle }, &[5]),
            (Collective::AllGather { dim: 1 }, &[2, 2, 2]),
            (Collective::Broadcast { root }, &[]),
            (Collective::Permute { pairs: vec![(2.into(), 1.into())] }, &[4, 1]),
            (Collective::ReduceScatter { op: ReduceOp::Max, dim: 1 }, &[2, 6]),
            (Collective::AllToAll, &[3, 7]),
            (Collective::Reduce { op: ReduceOp::Min, root }, &[9]),
            (Collective::AllGather { dim: 0 }, &[0, 5]),
        ]
        .map(|(call, shape)| Round::alike(3, &call, shape));
        let me = group.rank().index();
        let values: Vec<Vec<Array<i32>>> =
            rounds.iter().enumerate().map(|(seed, it)| it.values(seed, i32::any)).collect();
        let calls: Vec<_> = rounds
            .iter()
            .zip(&values)
            .map(|(round, values)| (round.calls[me].clone(), &values[me]))
            .collect();
        let found = coalesced(&calls, &group).unwrap().wait().unwrap();
        assert_eq!(found.len(), rounds.len());
        for ((found, round), values) in found.iter().zip(&rounds).zip(&values) {
            let right = &result(me, &round.calls, values, i32::combine);
            assert_same(found, right, &round.calls[me].to_string());
        }
        // All but the messages are calls of the group.
        assert_eq!(group.calls(), 7);
    });
}

fn many_values_can_be_combined_gathered_and_shared_out_at_once(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let me = group.rank().index();
        let shapes = [&[3, 2][..], &[7], &[6, 3, 2], &[0, 3]];
        let mine = shapes.map(|shape| coded(me, shape));
        let check = |found: Vec<Array<i64>>, calls: &[Collective], shapes: &[&[usize]]| {
            assert_eq!(found.len(), shapes.len());
            for ((found, call), shape) in found.iter().zip(calls).zip(shapes) {
                let everyones: Vec<_> = (0..3).map(|rank| coded(rank, shape)).collect();
                let right = &result(me, &vec![call.clone(); 3], &everyones, i64::combine);
                assert_same(found, right, &call.to_string());
            }
        };

        let op = ReduceOp::Max;
        let all = all_reduce_coalesced(&mine.each_ref(), op, &group).unwrap();
        check(all.wait().unwrap(), &[(); 4].map(|()| Collective::AllReduce { op }), &shapes);

        let dims = [1, 0, 2, 1];
        let pairs: Vec<_> = mine.iter().zip(dims).collect();
        let all = all_gather_coalesced(&pairs, &group).unwrap();
        check(all.wait().unwrap(), &dims.map(|dim| Collective::AllGather { dim }), &shapes);

        let pairs = [(&mine[0], 0), (&mine[2], 1), (&mine[3], 0)];
        let parts = reduce_scatter_coalesced(&pairs, op, &group).unwrap();
        let calls = [0, 1, 0].map(|dim| Collective::ReduceScatter { op, dim });
        check(parts.wait().unwrap(), &calls, &[shapes[0], shapes[2], shapes[3]]);
    });
}

fn calls_made_at_once_and_calls_made_alone_can_meet_in_any_order(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let (sum, x) = (Collective::AllReduce { op: ReduceOp::Sum }, vec![1_u32; 100]);
        let swap = Collective::Permute { pairs: vec![(0.into(), 1.into()), (1.into(), 0.into())] };
        let pending: Vec<_> = (0..20)
            .map(|round| {
                let alone = start(sum.clone(), &vec![round; 3], &group).unwrap();
                let both = [(sum.clone(), &x), (swap.clone(), &x), (sum.clone(), &x)];
                (alone, coalesced(&both, &group).unwrap())
            })
            .collect();
        for (round, (alone, both)) in pending.into_iter().enumerate().rev() {
            assert_eq!(both.wait().unwrap(), [vec![2; 100], vec![1; 100], vec![2; 100]]);
            assert_eq!(alone.wait().unwrap(), vec![2 * round as u32; 3]);
        }
    });
}

#[test]
fn no_calls_at_once_are_done_at_once() {
    let group = alone();
    let none = coalesced::<Vec<f32>>(&[], &group).unwrap();
    assert!(none.is_done() && none.wait().unwrap().is_empty());
    let none = all_reduce_coalesced::<Vec<f32>>(&[], ReduceOp::Sum, &group).unwrap();
    assert_eq!((none.wait().unwrap().len(), group.calls()), (0, 0));
}

#[test]
fn if_one_of_several_calls_makes_no_sense_none_is_made() {
    let group = alone();
    let (x, y) = (array(&[2], vec![1.0_f32; 2]), array(&[], vec![1.0]));
    let error = coalesced(
        &[
            (Collective::AllGather { dim: 0 }, &x),
            (Collective::Permute { pairs: vec![(0.into(), 0.into())] }, &x),
            (Collective::AllToAll, &y),
        ],
        &group,
    )
    .unwrap_err();
    let right = Collective::AllToAll.meta(&y.meta().unwrap(), 0.into(), 1).unwrap_err();
    assert!(matches!(error, Error::Argument(_)), "{error}");
    assert_eq!((error.to_string(), group.calls()), (right.to_string(), 0));
}
