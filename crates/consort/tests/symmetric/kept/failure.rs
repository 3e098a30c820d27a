//! What becomes of kept windows when calls on them fail.

use std::thread;
use std::time::Duration;

use consort::symm::Kept;
use consort::{Deadline, Error, ErrorKind, Group, ReduceOp, Work};
use consort_testkit::{Outcome, Ranks, ranks};

use crate::{LIMIT, coded, meet};

/// Calls on so many kept windows, of numbers that tell whose they are.
fn begin(group: &Group, windows: usize) -> Vec<Work<Kept<u64>>> {
    let me = group.rank().index();
    let begin = |window| {
        let mut kept = group.symmetric::<u64>(LARGE).unwrap().keep().unwrap();
        kept.iter_mut().enumerate().for_each(|(at, it)| *it = coded(me, window, at));
        kept
    };
    let kept: Vec<Kept<u64>> = (0..windows).map(begin).collect();
    kept.into_iter().map(|it| group.all_reduce_async(it, ReduceOp::Sum).unwrap()).collect()
}

#[test]
fn a_killed_rank_ends_all_calls_and_the_windows_come_back() {
    let mut job = Ranks::new(3).start(|ctx| {
        let group = meet(ctx);
        let works = match ctx.rank() {
            2 => {
                (0..6).for_each(|_| drop(group.symmetric::<u64>(LARGE).unwrap()));
                ctx.reach("here");
                let _: bool = ctx.told("never");
                unreachable!("it is killed");
            }
            _ => begin(&group, 6),
        };
        ctx.reach("here");
        let mut errors = Vec::new();
        for (index, work) in works.into_iter().enumerate() {
            // Some are left to the progress thread.
            let failed = match index % 2 {
                0 => work.wait_until(Deadline::after(LIMIT)).expect("there is time").unwrap_err(),
                _ => work.wait().unwrap_err(),
            };
            assert_eq!(failed.error.kind(), ErrorKind::PeerGone);
            errors.push(failed.error.to_string());
            // It is this rank's alone, and can be filled, moved and dropped.
            let mut window = failed.buffer;
            window.fill(index as u64);
            assert!(window.iter().all(|&it| it == index as u64));
            let memory = window.memory().clone();
            let refused = group.all_reduce_async(window, ReduceOp::Sum).unwrap().wait();
            thread::spawn(move || drop(refused.unwrap_err().buffer)).join().unwrap();
            let error = memory.keep().unwrap_err();
            assert!(matches!(error, Error::PeerLost { rank: 2, .. }), "{error}");
        }
        errors
    });
    for rank in 0..3 {
        job.await_point(rank, "here");
    }
    // Let them fall asleep.
    thread::sleep(Duration::from_millis(100));
    job.kill(2);
    let outcomes = job.wait();
    assert_eq!(outcomes[2], Outcome::Signalled(9));
    for outcome in &outcomes[..2] {
        let Outcome::Done(errors) = outcome else { panic!("{outcome:?}") };
        assert!(errors.iter().all(|error| error.contains("rank 2 is gone")), "{errors:?}");
    }
}

#[test]
fn a_window_that_a_killed_rank_kept_names_it() {
    let mut job = Ranks::new(2).start(|ctx| {
        let memory = meet(ctx).symmetric::<u8>(1).unwrap();
        let kept = (ctx.rank() == 1).then(|| memory.keep().unwrap());
        memory.barrier(0).unwrap();
        ctx.reach("here");
        match kept {
            Some(_kept) => {
                let _: bool = ctx.told("never");
                unreachable!("it is killed");
            }
            None => memory.put(1, 0, &[1]).unwrap_err().to_string(),
        }
    });
    job.await_point(0, "here");
    job.await_point(1, "here");
    thread::sleep(Duration::from_millis(100));
    job.kill(1);
    let outcomes = job.wait();
    let Outcome::Done(error) = &outcomes[0] else { panic!("{outcomes:?}") };
    assert!(error.contains("rank 1 is gone"), "{error}");
    assert!(error.contains("a wait for the window of rank 1 of symmetric memory 1"), "{error}");
}

#[test]
fn a_rank_that_comes_late_changes_nothing_in_windows_that_came_back() {
    let mut job = Ranks::new(2).start(|ctx| {
        let group = meet(ctx);
        let mut kept = group.symmetric::<u64>(16 * LARGE).unwrap().keep().unwrap();
        kept.fill(1);
        group.barrier().unwrap();
        ctx.reach("ready");
        let patience = if ctx.rank() == 0 { Duration::from_millis(500) } else { LIMIT };
        let group = group.within(patience);
        let mut kept = loop {
            match group.all_reduce_async(kept, ReduceOp::Max).unwrap().wait() {
                Ok(again) => kept = again,
                Err(failed) => break failed.buffer,
            }
        };
        if ctx.rank() == 1 {
            ctx.reach("over");
            return true;
        }
        kept.fill(7);
        ctx.reach("given up");
        let _: bool = ctx.told("gone on");
        kept.iter().all(|&number| number == 7)
    });
    job.await_point(0, "ready");
    job.await_point(1, "ready");
    // Most likely in the middle of a call.
    thread::sleep(Duration::from_millis(200));
    job.stop(1);
    job.await_point(0, "given up");
    job.cont(1);
    job.await_point(1, "over");
    job.tell("gone on", &true);
    assert_eq!(job.expect_all(), [true, true]);
}

#[test]
fn a_call_that_makes_no_sense_gives_the_kept_window_back() {
    ranks(2, |ctx| {
        let group = meet(ctx);
        let mut kept = group.symmetric::<u64>(5).unwrap().keep().unwrap();
        let words = format!("the window of rank {} in symmetric memory 1, 5 elements", ctx.rank());
        assert_eq!(format!("{kept:?}"), words);
        kept[4] = 7;
        let failed = group.broadcast_async(kept, 2).unwrap_err();
        assert!(matches!(failed.error, Error::Argument(_)), "{failed}");
        let sums = group.all_reduce_async(failed.buffer, ReduceOp::Sum).unwrap().wait().unwrap();
        assert_eq!(sums[..], [0, 0, 0, 0, 14]);
    });
}

/// So many take a while.
const LARGE: usize = 1 << 18;
