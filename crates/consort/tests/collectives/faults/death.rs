//! Ranks that are killed or panic.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use consort::{Error, Group};
use consort_testkit::{Case, Context, Job, Outcome, conformance, names_in_shared_memory};

use super::{names_the_dead, stream};
use crate::meet::meet;

conformance! { [shm tcp mixed in_process mpi] a_rank_that_panics_is_named_by_all_others }

/// Ranks are killed one after the other, from the last on. Every time those that are left have a
/// group of their own, made before.
macro_rules! kills {
    ($($name:ident $seed:literal)*) => {$(
        conformance! { [shm tcp mixed] $name }

        fn $name(case: Case) {
            let before = names_in_shared_memory();
            let job = case.of(WORLD).start(survive);
            kill_one_by_one(job, $seed);
            assert_eq!(names_in_shared_memory(), before);
        }
    )*};
}

kills! {
    a_rank_killed_at_any_moment_is_named_by_all_others_soon 1
    a_rank_killed_at_another_moment_is_named_by_all_others_soon 2
    a_rank_killed_at_a_third_moment_is_named_by_all_others_soon 3
}

fn a_rank_that_panics_is_named_by_all_others(case: Case) {
    let mut job = case.of(3).start(|ctx| {
        let group = meet(ctx);
        if ctx.rank() == 1 {
            group.barrier().unwrap();
            panic!("rank 1 has had enough");
        }
        // Unwinding has let go of the group before the process ended.
        let error = stream_after_barrier(&group);
        assert!(matches!(&error, Error::Left { ranks, .. } if ranks == &[1]), "{error}");
    });
    let outcomes = job.wait();
    assert_eq!(outcomes[0], Outcome::Done(()));
    assert_eq!(outcomes[1], Outcome::Panicked("rank 1 has had enough".to_owned()));
    assert_eq!(outcomes[2], Outcome::Done(()));
}

fn stream_after_barrier(group: &Group) -> consort::Error {
    group.barrier().unwrap();
    stream(group)
}

fn survive(ctx: &Context) -> u32 {
    let world = meet(ctx);
    let groups: Vec<Option<Group>> = (2..=WORLD)
        .rev()
        .map(|size| world.new_group(&(0..size).collect::<Vec<_>>()).unwrap())
        .collect();
    assert!(!fs::read_to_string("/proc/self/maps").unwrap().contains("/dev/shm"));
    let mut survived = 0;
    for (victim, group) in (1..WORLD).rev().zip(&groups) {
        let Some(group) = group else { break };
        ctx.reach(&format!("at work with {victim}"));
        names_the_dead(&stream(group), victim);
        let start = Instant::now();
        names_the_dead(&group.barrier().unwrap_err(), victim);
        assert!(start.elapsed() < SOON);
        ctx.reach(&format!("told of {victim}"));
        survived += 1;
    }
    survived
}

fn kill_one_by_one(mut job: Job<u32>, seed: u64) {
    for victim in (1..WORLD).rev() {
        for rank in 0..=victim {
            job.await_point(rank, &format!("at work with {victim}"));
        }
        // Between nothing and some hundred calls.
        let micros = (seed * 7919 + u64::from(victim) * 104_729) % 40_000;
        thread::sleep(Duration::from_micros(micros));
        job.kill(victim);
        let killed = Instant::now();
        for rank in 0..victim {
            job.await_point(rank, &format!("told of {victim}"));
        }
        assert!(killed.elapsed() < SOON, "it took {:?}", killed.elapsed());
    }
    for (rank, outcome) in job.wait().into_iter().enumerate() {
        match rank {
            0 => assert_eq!(outcome, Outcome::Done(WORLD - 1)),
            _ => assert_eq!(outcome, Outcome::Signalled(9)),
        }
    }
}

const WORLD: u32 = 5;
/// A dead rank is noticed within milliseconds, but the cores may be somebody else's.
const SOON: Duration = Duration::from_secs(15);
