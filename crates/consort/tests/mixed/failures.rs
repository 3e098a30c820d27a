//! What ends a group ends it for all ranks, on all hosts, for one reason.

use std::time::Duration;

use consort::ReduceOp;
use consort_testkit::Outcome;

use super::meet::{let_in, meet, meet_within, ranks};

fn all_but(killed: usize, outcomes: Vec<Outcome<String>>) -> Vec<String> {
    let others = outcomes.into_iter().enumerate().filter(|(rank, _)| *rank != killed);
    let told = others.map(|(rank, outcome)| match outcome {
        Outcome::Done(text) => text,
        other => panic!("rank {rank}: {other:?}"),
    });
    told.collect()
}

#[test]
fn a_rank_that_dies_inside_a_call_is_named_on_all_hosts() {
    let Some(ranks) = ranks(4, 2, false) else { return };
    let mut job = ranks.start(|ctx| {
        let group = meet(ctx);
        group.barrier().unwrap();
        ctx.reach("in");
        if ctx.rank() == 3 {
            let () = ctx.told("never");
        }
        let mut numbers = vec![1.0_f32; 100_000];
        group.all_reduce(&mut numbers, ReduceOp::Sum).unwrap_err().to_string()
    });
    let_in(&job);
    for rank in 0..4 {
        job.await_point(rank, "in");
    }
    std::thread::sleep(Duration::from_millis(200));
    job.kill(3);
    let told = all_but(3, job.wait());
    assert!(told[0].contains("rank 3") && told.iter().all(|it| *it == told[0]), "{told:#?}");
}

#[test]
fn a_rank_that_dies_outside_a_call_is_named_on_all_hosts() {
    let Some(ranks) = ranks(4, 2, false) else { return };
    let mut job = ranks.start(|ctx| {
        let group = meet(ctx);
        group.barrier().unwrap();
        ctx.reach("out");
        let () = ctx.told("killed");
        loop {
            if let Err(error) = group.barrier() {
                return error.to_string();
            }
        }
    });
    let_in(&job);
    for rank in 0..4 {
        job.await_point(rank, "out");
    }
    job.kill(1);
    job.tell("killed", &());
    let told = all_but(1, job.wait());
    assert!(told[0].contains("rank 1") && told.iter().all(|it| *it == told[0]), "{told:#?}");
}

/// Ranks that make another call than the others are told so, and the others too.
fn calls_differ(stranger: u32, told: &[String]) {
    let name = format!("rank {stranger}");
    assert!(told.iter().all(|it| *it == told[0]), "{told:#?}");
    assert!(told[0].contains(&name) && told[0].contains("broadcast"), "{}", told[0]);
}

#[test]
fn a_rank_that_makes_another_call_is_found_by_its_neighbour() {
    let Some(ranks) = ranks(4, 2, false) else { return };
    let job = ranks.start(|ctx| {
        let group = meet(ctx);
        group.barrier().unwrap();
        let mut numbers = [1.0_f32; 20];
        let called = match ctx.rank() {
            1 => group.broadcast(&mut numbers, 0),
            _ => group.all_reduce(&mut numbers, ReduceOp::Sum),
        };
        // Who need not wait for the others hears of it in the next call.
        called.and_then(|()| group.barrier()).unwrap_err().to_string()
    });
    let_in(&job);
    calls_differ(1, &job.expect_all());
}

#[test]
fn a_host_that_makes_another_call_is_found_by_the_other() {
    let Some(ranks) = ranks(4, 2, false) else { return };
    let job = ranks.start(|ctx| {
        let group = meet(ctx);
        group.barrier().unwrap();
        let mut numbers = [1.0_f32; 20];
        let called = match ctx.rank() {
            2 | 3 => group.broadcast(&mut numbers, 0),
            _ => group.all_reduce(&mut numbers, ReduceOp::Sum),
        };
        called.and_then(|()| group.barrier()).unwrap_err().to_string()
    });
    let_in(&job);
    let told = job.expect_all();
    assert!(told.iter().all(|it| *it == told[0]), "{told:#?}");
    assert!(told[0].contains("broadcast") && told[0].contains("all_reduce"), "{}", told[0]);
}

#[test]
fn who_does_not_come_in_time_is_missed_by_all() {
    let Some(ranks) = ranks(4, 2, false) else { return };
    let mut job = ranks.start(|ctx| {
        let group = meet_within(ctx, Duration::from_secs(2));
        group.barrier().unwrap();
        if ctx.rank() == 2 {
            ctx.reach("late");
            let () = ctx.told("over");
        }
        group.barrier().unwrap_err().to_string()
    });
    let_in(&job);
    job.await_point(2, "late");
    std::thread::sleep(Duration::from_secs(4));
    job.tell("over", &());
    let told = job.expect_all();
    assert!(told.iter().all(|it| *it == told[0]), "{told:#?}");
    assert!(told[0].contains("ranks [2]"), "{}", told[0]);
}

#[test]
fn an_abort_on_one_rank_ends_calls_on_all_hosts() {
    let Some(ranks) = ranks(4, 2, false) else { return };
    let job = ranks.start(|ctx| {
        let group = meet(ctx);
        group.barrier().unwrap();
        if ctx.rank() == 1 {
            std::thread::sleep(Duration::from_millis(300));
            group.abort("enough");
        }
        group.barrier().unwrap_err().to_string()
    });
    let_in(&job);
    let told = job.expect_all();
    assert!(told[0].contains("enough") && told.iter().all(|it| *it == told[0]), "{told:#?}");
}

#[test]
fn a_rank_that_leaves_is_named_by_those_who_go_on() {
    let Some(ranks) = ranks(4, 2, false) else { return };
    let job = ranks.start(|ctx| {
        let group = meet(ctx);
        group.barrier().unwrap();
        if ctx.rank() == 3 {
            return String::new();
        }
        group.barrier().unwrap_err().to_string()
    });
    let_in(&job);
    let told = job.expect_all();
    assert!(
        told[0].contains("ranks [3]") && told[..3].iter().all(|it| *it == told[0]),
        "{told:#?}"
    );
}
