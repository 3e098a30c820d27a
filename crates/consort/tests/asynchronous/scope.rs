//! Calls on borrowed buffers.

use std::panic::{AssertUnwindSafe, catch_unwind};

use consort::{Error, ReduceOp};
use consort_testkit::{Case, conformance};

use crate::meet::{LARGE, alone, code, coded, meet, mine};

conformance! { [shm tcp mixed in_process]
    borrowed_buffers_hold_the_results_when_the_scope_ends
    three_ranks_get_the_parts_that_are_for_them
    a_panic_in_a_scope_waits_for_its_calls
    the_first_error_of_a_scope_is_returned
}
conformance! { [shm in_process] slices_of_windows_are_worked_on_where_they_are }

fn borrowed_buffers_hold_the_results_when_the_scope_ends(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let me = ctx.rank() as usize;
        let (mut sums, mut reduced, mut sent) =
            (mine(&group, LARGE), mine(&group, 10), mine(&group, 1000));
        let (mut gathered, mut at_root) = (vec![0.0; 20], vec![0.0; 20]);
        let (mut part, mut scattered, mut exchanged) = ([0.0; 5], [0.0; 10], [0.0; 10]);
        let input = mine(&group, 10);
        let answer = group.scope(|s| {
            s.all_reduce(&mut sums, ReduceOp::Sum)?;
            s.reduce(&mut reduced, ReduceOp::Max, 0)?;
            s.broadcast(&mut sent, 1)?;
            s.barrier()?;
            s.all_gather(&input, &mut gathered)?;
            s.gather(&input, (me == 1).then_some(&mut at_root[..]), 1)?;
            s.scatter((me == 0).then_some(&[1.0; 20][..]), &mut scattered, 0)?;
            s.reduce_scatter(&input, &mut part, ReduceOp::Sum)?;
            s.all_to_all(&input, &mut exchanged)?;
            Ok(42)
        });
        assert_eq!(answer.unwrap(), 42);
        let both = [[1.0; 10], [2.0; 10]].concat();
        assert_eq!(sums, vec![3.0; LARGE]);
        assert_eq!(reduced[0], if me == 0 { 2.0 } else { me as f32 + 1.0 });
        assert_eq!(sent, vec![2.0; 1000]);
        assert_eq!(gathered, both);
        assert_eq!(at_root, if me == 1 { both } else { vec![0.0; 20] });
        assert_eq!((scattered, part), ([1.0; 10], [3.0; 5]));
        assert_eq!(exchanged, [1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0]);
    });
}

fn three_ranks_get_the_parts_that_are_for_them(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let me = ctx.rank() as usize;
        for len in [1, 5, 40_001] {
            let (one, all) = (coded(me, len), coded(me, 3 * len));
            let (mut sums, mut at_root, mut sent) = (one.clone(), one.clone(), one.clone());
            let (mut gathered, mut collected) = (vec![0.0; 3 * len], vec![0.0; 3 * len]);
            let (mut scattered, mut part) = (vec![0.0; len], vec![0.0; len]);
            let mut exchanged = vec![0.0; 3 * len];
            group
                .scope(|s| {
                    s.all_reduce(&mut sums, ReduceOp::Sum)?;
                    s.reduce(&mut at_root, ReduceOp::Sum, 2)?;
                    s.broadcast(&mut sent, 1)?;
                    s.all_gather(&one, &mut gathered)?;
                    s.gather(&one, (me == 0).then_some(&mut collected[..]), 0)?;
                    s.scatter((me == 2).then_some(&all[..]), &mut scattered, 2)?;
                    s.reduce_scatter(&all, &mut part, ReduceOp::Sum)?;
                    s.all_to_all(&all, &mut exchanged)
                })
                .unwrap();
            let sum = |at: usize| (0..3).map(|rank| code(rank, at)).sum();
            let mine = me * len..(me + 1) * len;
            assert!(sums.iter().copied().eq((0..len).map(sum)));
            assert_eq!(at_root, if me == 2 { sums } else { one });
            assert_eq!(sent, coded(1, len));
            assert_eq!(gathered, (0..3).flat_map(|rank| coded(rank, len)).collect::<Vec<_>>());
            assert_eq!(collected, if me == 0 { gathered } else { vec![0.0; 3 * len] });
            assert_eq!(scattered, coded(2, 3 * len)[mine.clone()]);
            assert!(part.into_iter().eq(mine.clone().map(sum)));
            let from = |rank: usize| mine.clone().map(move |at| code(rank, at));
            assert!(exchanged.into_iter().eq((0..3).flat_map(from)));
        }
    });
}

fn slices_of_windows_are_worked_on_where_they_are(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let (me, len) = (ctx.rank() as usize, 20_001);
        let memory = group.symmetric::<f32>(len).unwrap();
        let mut window = memory.local().unwrap();
        window.copy_from_slice(&coded(me, len));
        let mut elsewhere = coded(me, len);
        group
            .scope(|s| {
                s.all_reduce(&mut window, ReduceOp::Sum)?;
                s.all_reduce(&mut elsewhere, ReduceOp::Sum)
            })
            .unwrap();
        let sum = |at: usize| (0..3).map(|rank| code(rank, at)).sum();
        assert!(window.iter().copied().eq((0..len).map(sum)));
        assert_eq!(window[..], elsewhere);
    });
}

fn a_panic_in_a_scope_waits_for_its_calls(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let mut buffers = [mine(&group, LARGE), mine(&group, LARGE)];
        let caught = catch_unwind(AssertUnwindSafe(|| {
            group.scope(|s| -> Result<(), Error> {
                for buffer in &mut buffers {
                    s.all_reduce(buffer, ReduceOp::Sum)?;
                }
                panic!("on purpose")
            })
        }));
        assert!(caught.is_err());
        assert_eq!(buffers, [vec![3.0; LARGE], vec![3.0; LARGE]]);
        group.barrier().unwrap();
    });
}

fn the_first_error_of_a_scope_is_returned(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let (mut one, mut two) = (mine(&group, 10), mine(&group, 10));
        let refused = group.scope(|s| {
            s.all_reduce(&mut one, ReduceOp::Sum)?;
            s.broadcast(&mut two, 5)
        });
        assert!(matches!(refused.unwrap_err(), Error::Argument(_)));
        assert_eq!(one, [3.0; 10]);

        let len = 10 - ctx.rank() as usize;
        let failed = group.scope(|s| {
            s.all_reduce(&mut one[..len], ReduceOp::Sum)?;
            s.all_reduce(&mut two, ReduceOp::Sum)?;
            Err::<(), Error>(Error::Argument("of the closure".to_owned()))
        });
        let error = failed.unwrap_err();
        assert!(matches!(error, Error::Mismatch { .. }), "{error}");
    });
}

#[test]
fn an_empty_scope_is_nothing() {
    let group = alone();
    assert_eq!(group.scope(|_| Ok(7)).unwrap(), 7);
    assert_eq!(group.calls(), 0);
}
