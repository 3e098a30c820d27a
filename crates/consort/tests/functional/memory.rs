//! Whose memory results are in.

use consort::functional::{
    Array, Collective, all_gather_out, all_reduce_in_place, broadcast_in_place, reduce_scatter_out,
};
use consort::{Error, Group, ReduceOp};
use consort_testkit::{Case, conformance};

use crate::exercise::assert_same;
use crate::meet::{LARGE, coded, meet, mine, sum};
use crate::numbers::Number;
use crate::oracle::{made, result};

conformance! { [shm tcp mixed in_process]
    what_is_given_away_is_replaced_where_it_is
    results_go_to_the_memory_that_is_given_for_them
    room_of_another_shape_is_refused_and_the_group_goes_on
}

fn what_is_given_away_is_replaced_where_it_is(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        for len in [0, 3, LARGE] {
            let given = mine(&group, len);
            let place = given.as_ptr();
            let sums = all_reduce_in_place(given, ReduceOp::Sum, &group).unwrap().wait().unwrap();
            assert_eq!((sums.as_ptr(), &sums), (place, &sum(&group, len)));

            let given = Array::new([len, 1], mine(&group, len)).unwrap();
            let place = given.numbers().as_ptr();
            let first = broadcast_in_place(given, 1, &group).unwrap().wait().unwrap();
            assert_eq!((first.shape(), first.numbers().as_ptr()), (&[len, 1][..], place));
            assert_eq!(first.into_numbers(), vec![2.0; len]);
        }
    });
}

fn results_go_to_the_memory_that_is_given_for_them(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let me = group.rank().index();
        for (shape, dim) in
            [(&[2, 3][..], 0), (&[2, 3], 1), (&[1, 2, 2], 1), (&[4, 0], 0), (&[], 0)]
        {
            let call = Collective::AllGather { dim };
            let room = room_for(&call, shape, me);
            let place = room.numbers().as_ptr();
            let all = all_gather_out(&coded(me, shape), dim, room, &group).unwrap();
            let all = all.wait().unwrap();
            assert_eq!(all.numbers().as_ptr(), place, "along {dim} of {shape:?}");
            assert_same(&all, &right(&call, shape, me), &format!("along {dim} of {shape:?}"));
        }
        for (shape, dim) in [(&[6, 2][..], 0), (&[2, 9], 1), (&[2, 3, 4], 1), (&[0], 0)] {
            let op = ReduceOp::Sum;
            let call = Collective::ReduceScatter { op, dim };
            let room = room_for(&call, shape, me);
            let place = room.numbers().as_ptr();
            let part = reduce_scatter_out(&coded(me, shape), op, dim, room, &group).unwrap();
            let part = part.wait().unwrap();
            assert_eq!(part.numbers().as_ptr(), place, "along {dim} of {shape:?}");
            assert_same(&part, &right(&call, shape, me), &format!("along {dim} of {shape:?}"));
        }
    });
}

/// What rank `me` of three gets.
fn right(call: &Collective, shape: &[usize], me: usize) -> Array<i64> {
    let everyones: Vec<_> = (0..3).map(|rank| coded(rank, shape)).collect();
    result(me, &vec![call.clone(); 3], &everyones, i64::combine)
}

/// Memory for that, with something else in it.
fn room_for(call: &Collective, shape: &[usize], me: usize) -> Array<i64> {
    made(right(call, shape, me).shape(), |_| -1)
}

fn room_of_another_shape_is_refused_and_the_group_goes_on(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let x = coded(0, &[2, 3]);
        let refused = |result: Result<_, Error>, words: &str| {
            let error: Error = Result::err(result.map(|_: consort::functional::Pending<_>| ())).unwrap();
            assert!(matches!(error, Error::Argument(_)), "{error}");
            assert_eq!(error.to_string(), words);
        };
        // As many numbers in another shape, too few, and too many.
        for shape in [&[2, 6][..], &[3, 4], &[12], &[2, 3], &[8, 3]] {
            refused(
                all_gather_out(&x, 0, coded(0, shape), &group),
                &format!("all_gather: what comes out is i64 [4, 3], and there is room for i64 {shape:?}"),
            );
        }
        refused(
            reduce_scatter_out(&x, ReduceOp::Sum, 0, coded(0, &[3]), &group),
            "reduce_scatter: what comes out is i64 [1, 3], and there is room for i64 [3]",
        );
        refused(
            reduce_scatter_out(&x, ReduceOp::Sum, 1, coded(0, &[2, 1]), &group),
            "reduce_scatter: dimension 1 of i64 [2, 3] has 3 rows, which 2 ranks cannot share equally",
        );
        assert_eq!(group.calls(), 0);
        works(&group);
    });
}

fn works(group: &Group) {
    let sums = all_reduce_in_place(mine(group, 4), ReduceOp::Sum, group).unwrap();
    assert_eq!(sums.wait().unwrap(), sum(group, 4));
}
