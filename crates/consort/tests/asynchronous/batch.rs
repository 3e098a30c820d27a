//! Calls that are carried out as one.

use consort::{Error, ReduceOp};
use consort_testkit::{Ranks, ranks};

use crate::meet::{LARGE, alone, late, meet, mine};

#[test]
fn calls_that_are_noted_together_are_carried_out_together() {
    ranks(2, |ctx| {
        let group = meet(ctx);
        for helped in [true, false] {
            let first = group.calls() + 1;
            let work = group.coalesced(|calls| {
                let small: Result<Vec<_>, _> =
                    (1..4).map(|len| calls.all_reduce(mine(&group, len), ReduceOp::Sum)).collect();
                let large = calls.all_reduce(mine(&group, LARGE), ReduceOp::Max)?;
                let sent = calls.broadcast(vec![ctx.rank(); 3], 1)?;
                let gathered = calls.all_gather(vec![ctx.rank()], vec![9; 2])?;
                let together = calls.barrier();
                Ok((small?, large, (sent, gathered), together))
            });
            let work = work.unwrap();
            assert_eq!((work.operation(), work.number()), ("coalesced", first));
            assert_eq!(group.calls(), first + 6);
            let (small, large, (sent, (_, gathered)), ()) = match helped {
                true => work.wait().unwrap(),
                false => work.wait_until(late()).expect("there is time").unwrap(),
            };
            assert_eq!(small, [vec![3.0], vec![3.0; 2], vec![3.0; 3]]);
            assert_eq!((large, sent, gathered), (vec![2.0; LARGE], vec![1; 3], vec![0, 1]));
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

#[test]
fn a_failure_gives_all_buffers_back() {
    let mut job = Ranks::new(2).start(|ctx| {
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
