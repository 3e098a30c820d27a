//! Threads of one rank, of which one waits in a call for a rank that does not come.

use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use consort::{Error, Group, ReduceOp, Result};
use consort_testkit::{Case, Job, conformance};

use crate::meet::{SOON, meet, works};

conformance! { [shm tcp mixed in_process]
    what_does_not_wait_for_the_others_returns_at_once_while_a_thread_waits
    the_deadline_of_a_call_counts_while_another_thread_waits_and_ends_the_group
    threads_that_wait_for_their_turn_get_it_in_the_order_in_which_they_came
}

fn what_does_not_wait_for_the_others_returns_at_once_while_a_thread_waits(case: Case) {
    let job = case.of(2).start(|ctx| {
        let group = meet(ctx);
        if ctx.rank() == 1 {
            let _: bool = ctx.told("come");
            group.barrier().unwrap();
            return works(&group);
        }
        thread::scope(|scope| {
            let waiting = wait_in(scope, &group, 1, |group| group.barrier());
            let begun = Instant::now();
            assert_eq!(group.calls(), 1);
            let work = group.all_reduce_async(vec![1_u32; 1000], ReduceOp::Sum).unwrap();
            assert_eq!((work.number(), group.calls(), work.is_done()), (2, 2, false));
            assert!(!waiting.is_finished());
            assert!(begun.elapsed() < SOON, "it took {:?}", begun.elapsed());
            ctx.reach("called");
            assert_eq!(work.wait().unwrap(), [3; 1000]);
            waiting.join().unwrap().unwrap();
        });
    });
    come_after(job, "called");
}

fn the_deadline_of_a_call_counts_while_another_thread_waits_and_ends_the_group(case: Case) {
    let job = case.of(2).start(|ctx| {
        let group = meet(ctx);
        if ctx.rank() == 1 {
            let _: bool = ctx.told("come");
            // Between hosts, what rank 0 had sent before may be all that this needs.
            let error = group.barrier().and_then(|()| group.barrier()).unwrap_err();
            let Error::Late { missing, by: 0, number: 1, .. } = &error else { panic!("{error}") };
            assert_eq!(missing, &[1]);
            return;
        }
        thread::scope(|scope| {
            let waiting = wait_in(scope, &group, 1, |group| group.barrier());
            let begun = Instant::now();
            let hasty = group.within(HASTE).barrier().unwrap_err();
            let waited = begun.elapsed();
            assert!((HASTE..SOON).contains(&waited), "{waited:?}");
            // Both are told whom the first one waited for.
            for error in [hasty, waiting.join().unwrap().unwrap_err()] {
                let Error::Late { missing, number: 1, .. } = &error else { panic!("{error}") };
                assert_eq!(missing, &[1]);
            }
        });
        ctx.reach("late");
    });
    come_after(job, "late");
}

fn threads_that_wait_for_their_turn_get_it_in_the_order_in_which_they_came(case: Case) {
    let job = case.of(2).start(|ctx| {
        let group = meet(ctx);
        // Calls that differ: in another order they would be found to disagree.
        let sum = |group: &Group, len| {
            let mut numbers = vec![1_u32; len];
            group.all_reduce(&mut numbers, ReduceOp::Sum)?;
            assert_eq!(numbers, vec![2; len]);
            Ok(())
        };
        if ctx.rank() == 1 {
            let _: bool = ctx.told("come");
            return (1..=THREADS).for_each(|len| sum(&group, len).unwrap());
        }
        thread::scope(|scope| {
            let threads: Vec<_> = (1..=THREADS)
                .map(|len| wait_in(scope, &group, len as u64, move |group| sum(group, len)))
                .collect();
            ctx.reach("called");
            threads.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
        });
    });
    come_after(job, "called");
}

/// Has a thread make a call that is the group's call of this number, and returns when it is made.
fn wait_in<'scope>(
    scope: &'scope Scope<'scope, '_>,
    group: &'scope Group,
    number: u64,
    call: impl FnOnce(&Group) -> Result<()> + Send + 'scope,
) -> ScopedJoinHandle<'scope, Result<()>> {
    let thread = scope.spawn(move || call(group));
    while group.calls() < number {
        thread::yield_now();
    }
    // Let it fall asleep.
    thread::sleep(Duration::from_millis(30));
    thread
}

/// Lets rank 1 come after rank 0 has come to a point.
fn come_after(mut job: Job<()>, point: &str) {
    job.await_point(0, point);
    job.tell("come", &true);
    job.expect_all();
}

const HASTE: Duration = Duration::from_millis(200);
const THREADS: usize = 6;
