//! Calls that are carried out as one.

use consort::{Error, ReduceOp};
use consort_testkit::{Case, conformance};

use crate::meet::{LARGE, alone, code, coded, late, meet, mine};

conformance! { [shm tcp mixed in_process]
    calls_that_are_noted_together_are_carried_out_together
    parts_and_roots_are_the_right_ones
}
conformance! { [shm tcp mixed] a_failure_gives_all_buffers_back }

fn calls_that_are_noted_together_are_carried_out_together(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        for helped in [true, false] {
            let first = group.calls() + 1;
            let work = group.coalesced(|calls| {
                let small: Result<Vec<_>, _> =
                    (1..4).map(|len| calls.all_reduce(mine(&group, len), ReduceOp::Sum)).collect();
                let large = calls.all_reduce(mine(&group, LARGE), ReduceOp::Max)?;
                let sent = calls.broadcast(vec![ctx.rank(); 3], 1)?;
                let gathered = calls.all_gather(vec![ctx.rank()], vec![9; 2])?;
                calls.barrier();
                Ok((small?, large, (sent, gathered)))
            });
            let work = work.unwrap();
            assert_eq!((work.operation(), work.number()), ("coalesced", first));
            assert_eq!(group.calls(), first + 6);
            let (small, large, (sent, (_, gathered))) = match helped {
                true => work.wait().unwrap(),
                false => work.wait_until(late()).expect("there is time").unwrap(),
            };
            assert_eq!(small, [vec![3.0], vec![3.0; 2], vec![3.0; 3]]);
            assert_eq!((large, sent, gathered), (vec![2.0; LARGE], vec![1; 3], vec![0, 1]));
        }
    });
}

fn parts_and_roots_are_the_right_ones(case: Case) {
    case.run(3, |ctx| {
        let group = meet(ctx);
        let me = ctx.rank() as usize;
        for len in [1, 7, 50_001] {
            let work = group.coalesced(|calls| {
                let reduced = calls.reduce(coded(me, len), ReduceOp::Sum, 2)?;
                let parts =
                    calls.reduce_scatter(coded(me, 3 * len), vec![0.0; len], ReduceOp::Max)?;
                let exchanged = calls.all_to_all(coded(me, 3 * len), vec![0.0; 3 * len])?;
                Ok((reduced, parts, exchanged))
            });
            let (reduced, (input, part), (_, exchanged)) = work.unwrap().wait().unwrap();
            let sum = |at: usize| (0..3).map(|rank| code(rank, at)).sum();
            let sums: Vec<f32> = (0..len).map(sum).collect();
            assert_eq!(reduced, if me == 2 { sums } else { coded(me, len) });
            let largest = |at: usize| (0..3).map(|rank| code(rank, at)).fold(0.0, f32::max);
            assert!(part.into_iter().eq((me * len..(me + 1) * len).map(largest)));
            assert_eq!(input, coded(me, 3 * len));
            let from = |rank: usize| (me * len..(me + 1) * len).map(move |at| code(rank, at));
            assert!(exchanged.into_iter().eq((0..3).flat_map(from)));
        }
    });
}

#[test]
fn a_mistake_while_noting_makes_no_call_at_all() {
    let group = alone();
    let refused = group.coalesced(|calls| {
        let one = calls.all_reduce(vec![1_u8], ReduceOp::Sum)?;
        let two = calls.broadcast(vec![1_u8], 3)?;
        Ok((one, two))
    });
    assert!(matches!(refused.unwrap_err(), Error::Argument(_)));
    assert_eq!(group.calls(), 0);
}

#[test]
fn nothing_noted_is_done_at_once() {
    let work = alone().coalesced(|_| Ok(())).unwrap();
    work.wait_until(late()).expect("there is time").unwrap();
}

#[test]
fn a_ticket_of_other_calls_is_refused() {
    let group = alone();
    let mut stray = None;
    let first = group.coalesced(|calls| {
        stray = Some(calls.all_reduce(vec![1_u8], ReduceOp::Sum)?);
        Ok(())
    });
    first.unwrap().wait().unwrap();
    let refused = group.coalesced(|_| Ok(stray.take().unwrap()));
    assert!(refused.unwrap_err().to_string().contains("a ticket is from other calls"));
}

fn a_failure_gives_all_buffers_back(case: Case) {
    let mut job = case.of(2).start(|ctx| {
        let group = meet(ctx);
        if ctx.rank() == 1 {
            group.all_reduce(&mut mine(&group, 10), ReduceOp::Sum).unwrap();
            ctx.reach("here");
            let _: bool = ctx.told("never");
        }
        let note = || {
            group.coalesced(|calls| {
                let one = calls.all_reduce(mine(&group, 10), ReduceOp::Sum)?;
                Ok((one, calls.all_reduce(mine(&group, LARGE), ReduceOp::Sum)?))
            })
        };
        let failed = note().unwrap().wait().unwrap_err();
        assert!(matches!(failed.error, Error::PeerLost { rank: 1, number: 2, .. }), "{failed}");
        assert_eq!(failed.buffer.0, vec![3.0; 10]);
        assert_eq!(failed.buffer.1.len(), LARGE);
    });
    job.await_point(1, "here");
    job.kill(1);
    assert!(matches!(job.wait()[0], consort_testkit::Outcome::Done(())));
}
