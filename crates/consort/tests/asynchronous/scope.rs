//! Calls on borrowed buffers.

use std::panic::{AssertUnwindSafe, catch_unwind};

use consort::{Error, ReduceOp};
use consort_testkit::ranks;

use crate::meet::{LARGE, alone, meet, mine};

#[test]
fn borrowed_buffers_hold_the_results_when_the_scope_ends() {
    ranks(2, |ctx| {
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

#[test]
fn a_panic_in_a_scope_waits_for_its_calls() {
    ranks(2, |ctx| {
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

#[test]
fn the_first_error_of_a_scope_is_returned() {
    ranks(2, |ctx| {
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
        assert!(matches!(error, Error::Mismatch { .. } | Error::Aborted { .. }), "{error}");
    });
}

#[test]
fn an_empty_scope_is_nothing() {
    let group = alone();
    assert_eq!(group.scope(|_| Ok(7)).unwrap(), 7);
    assert_eq!(group.calls(), 0);
}
