//! Calls that fail.

use std::time::{Duration, Instant};

use consort::{Error, ErrorKind, Group, ReduceOp, Work};
use consort_testkit::{Case, Outcome, conformance};

use crate::meet::{LARGE, LONG, late, meet, mine};

conformance! { [shm tcp mixed] a_killed_rank_ends_all_works_and_the_buffers_come_back }
conformance! { [shm tcp mixed in_process]
    a_deadline_ends_the_group_and_the_buffers_come_back
    the_timeout_counts_from_when_the_call_is_made
    the_deadline_of_a_queued_call_counts_for_those_before_it
    the_deadline_of_a_blocking_call_counts_for_those_before_it
    an_abort_ends_what_is_on_its_way_and_what_is_queued
    an_abort_from_another_thread_ends_a_blocking_call
    ranks_that_make_different_asynchronous_calls_all_hear_of_it
}

fn a_killed_rank_ends_all_works_and_the_buffers_come_back(case: Case) {
    let mut job = case.of(3).start(|ctx| {
        let group = meet(ctx);
        group.barrier().unwrap();
        if ctx.rank() == 2 {
            ctx.reach("here");
            let _: bool = ctx.told("never");
        }
        let begin = |_| group.all_reduce_async(mine(&group, LARGE), ReduceOp::Sum).unwrap();
        let works: Vec<_> = (0..6).map(begin).collect();
        ctx.reach("here");
        let mut errors = Vec::new();
        for (index, work) in works.into_iter().enumerate() {
            // Some are left to the progress thread.
            let failed = match index % 2 {
                0 => work.wait_until(late()).expect("there is time").unwrap_err(),
                _ => work.wait().unwrap_err(),
            };
            assert_eq!(failed.buffer.len(), LARGE);
            assert_eq!(failed.error.kind(), ErrorKind::PeerGone);
            errors.push(failed.error.to_string());
        }
        let failed = group.all_reduce_async(vec![1_u8], ReduceOp::Sum).unwrap().wait();
        assert_eq!(failed.unwrap_err().buffer, [1]);
        errors
    });
    for rank in 0..3 {
        job.await_point(rank, "here");
    }
    job.kill(2);
    let outcomes = job.wait();
    assert_eq!(outcomes[2], Outcome::Signalled(9));
    for outcome in &outcomes[..2] {
        let Outcome::Done(errors) = outcome else { panic!("{outcome:?}") };
        assert!(errors.iter().all(|error| error.contains("rank 2 is gone")), "{errors:?}");
    }
}

/// Rank 0 does something while rank 1 is alive but elsewhere; then rank 1 calls.
macro_rules! while_the_other_is_elsewhere {
    ($case:expr, $rank_0:expr) => {{
        let mut job = $case.of(2).start(|ctx| {
            let group = meet(ctx);
            if ctx.rank() == 0 {
                let begun = Instant::now();
                $rank_0(&group);
                assert!(begun.elapsed() < LONG / 2, "a deadline of the other calls ended it");
                ctx.reach("given up");
            } else {
                let _: bool = ctx.told("given up");
                // Between hosts, what rank 0 had sent before may be all that this needs.
                let error = group.barrier().and_then(|()| group.barrier()).unwrap_err();
                // It hears what rank 0 has found, or wanted.
                let by = match error {
                    Error::Late { ref missing, by, .. } if missing == &[1] => Some(by),
                    Error::Aborted { by, .. } => Some(by),
                    _ => None,
                };
                assert_eq!(by, Some(0), "{error}");
            }
        });
        job.await_point(0, "given up");
        job.tell("given up", &true);
        job.expect_all();
    }};
}

fn is_late(error: &Error) {
    let Error::Late { missing, number, .. } = error else { panic!("{error}") };
    assert_eq!((&missing[..], *number), (&[1][..], 1));
}

fn a_deadline_ends_the_group_and_the_buffers_come_back(case: Case) {
    while_the_other_is_elsewhere!(case, |group: &Group| {
        let hasty = group.within(SOON);
        let begin = |_| hasty.all_reduce_async(mine(group, 10), ReduceOp::Sum).unwrap();
        let works: Vec<_> = (0..3).map(begin).collect();
        for work in works {
            let failed = work.wait_until(late()).expect("there is time").unwrap_err();
            assert_eq!(failed.buffer.len(), 10);
            is_late(&failed.error);
        }
        is_late(&group.barrier().unwrap_err());
    });
}

fn the_timeout_counts_from_when_the_call_is_made(case: Case) {
    while_the_other_is_elsewhere!(case, |group: &Group| {
        let begun = Instant::now();
        let hasty = group.within(SOON * 15);
        let work = hasty.all_reduce_async(mine(group, 10), ReduceOp::Sum).unwrap();
        std::thread::sleep(SOON * 13);
        // This thread takes it over if the other has not begun.
        is_late(&work.wait().unwrap_err().error);
        assert!(begun.elapsed() < SOON * 27, "{:?}", begun.elapsed());
    });
}

fn the_deadline_of_a_queued_call_counts_for_those_before_it(case: Case) {
    while_the_other_is_elsewhere!(case, |group: &Group| {
        let patient = group.all_reduce_async(mine(group, 10), ReduceOp::Sum).unwrap();
        let hasty = group.within(SOON).barrier_async().unwrap();
        is_late(&hasty.wait_until(late()).expect("there is time").unwrap_err().error);
        is_late(&patient.wait().unwrap_err().error);
    });
}

fn the_deadline_of_a_blocking_call_counts_for_those_before_it(case: Case) {
    while_the_other_is_elsewhere!(case, |group: &Group| {
        let patient = group.all_reduce_async(mine(group, 10), ReduceOp::Sum).unwrap();
        std::thread::sleep(Duration::from_millis(10));
        is_late(&group.within(SOON).barrier().unwrap_err());
        is_late(&patient.wait().unwrap_err().error);
    });
}

fn an_abort_ends_what_is_on_its_way_and_what_is_queued(case: Case) {
    while_the_other_is_elsewhere!(case, |group: &Group| {
        let begin = |_| group.all_reduce_async(mine(group, LARGE), ReduceOp::Sum).unwrap();
        let works: Vec<_> = (0..4).map(begin).collect();
        group.abort("enough");
        let fail = |work: Work<Vec<f32>>| work.wait().unwrap_err();
        for failed in works.into_iter().map(fail) {
            assert_eq!(failed.buffer.len(), LARGE);
            let Error::Aborted { by: 0, reason, .. } = failed.error else { panic!("{failed}") };
            assert_eq!(reason, "enough");
        }
        assert!(group.barrier().is_err());
    });
}

fn an_abort_from_another_thread_ends_a_blocking_call(case: Case) {
    while_the_other_is_elsewhere!(case, |group: &Group| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(SOON);
                group.abort("enough");
            });
            let error = group.barrier().unwrap_err();
            assert!(matches!(error, Error::Aborted { by: 0, .. }), "{error}");
        });
    });
}

fn ranks_that_make_different_asynchronous_calls_all_hear_of_it(case: Case) {
    case.run(2, |ctx| {
        let group = meet(ctx);
        let len = 10 + ctx.rank() as usize;
        let work = group.all_reduce_async(mine(&group, len), ReduceOp::Sum).unwrap();
        let failed = work.wait_until(late()).expect("there is time").unwrap_err();
        assert_eq!(failed.buffer.len(), len);
        let message = failed.error.to_string();
        assert!(message.contains("10 f32") && message.contains("11 f32"), "{message}");
    });
}

const SOON: Duration = Duration::from_millis(200);
