//! Ranks and launchers that are killed or interrupted.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::launch::{Launch, wait_until};
use super::{checks, run, start, summary};

/// Long enough not to be over before somebody does something to it.
const LONG: &str = "-n 2 --steps 100000 --batch 8";

#[test]
fn the_others_name_the_rank_that_is_killed_and_finish_without_it() {
    for (ranks, left) in [(3, 2), (2, 1)] {
        let run = run(&format!("-n {ranks} --kill-a-rank --steps 20 --batch 9 --json"));
        assert_eq!(run.code, 0, "{run:?}");
        let summary = summary(&run);
        let failure = &summary["failure"];
        let killed = failure["rank"].as_u64().unwrap();
        assert_eq!(failure["survivors"].as_array().unwrap().len(), left, "{failure}");
        assert!(
            !failure["survivors"].as_array().unwrap().contains(&Value::from(killed)),
            "{failure}"
        );
        let noticed = failure["noticed"].as_array().unwrap();
        assert_eq!(noticed.len(), left, "{failure}");
        for one in noticed {
            let error = one["error"].as_str().unwrap();
            assert!(error.contains(&format!("rank {killed} is gone")), "{error}");
            assert!(
                one["after_ms"].as_f64().unwrap() <= failure["resumed_after_ms"].as_f64().unwrap()
            );
        }
        assert_eq!(checks(&summary).len(), 4, "{summary}");
        // One that goes on sees the same batches as all did before, so that the losses stay the same.
        assert!(checks(&summary).iter().all(|(_, passed)| *passed), "{summary}");
        for part in [
            format!("rank {killed} is killed after step"),
            "noticed".to_owned(),
            "went on".to_owned(),
        ] {
            assert!(run.stderr.contains(&part), "{part}: {run:?}");
        }
    }
}

#[test]
fn three_ranks_are_started_if_one_is_to_be_killed() {
    let run = run("--kill-a-rank --steps 8 --batch 6 --no-compare");
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.stdout.contains("3 ranks"), "{run:?}");
    assert!(run.stdout.contains("2 ranks went on"), "{run:?}");
}

#[test]
fn an_interrupt_leaves_nothing() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let launch = start(LONG);
        launch.await_notice("step 1 of");
        launch.signal(signal);
        let run = launch.finish_cleanly();
        assert_eq!((run.code, &run.stdout[..]), (code, ""), "{run:?}");
    }
}

#[test]
fn an_interrupt_is_heard_before_the_first_step() {
    let launch = start(LONG);
    launch.await_notice("learn to read digits");
    launch.signal(Signal::INT);
    assert_eq!(launch.finish_cleanly().code, 130);
}

#[test]
fn ranks_die_with_a_demo_that_is_killed() {
    let mut launch = start(LONG);
    launch.await_notice("step 1 of");
    launch.signal(Signal::KILL);
    launch.await_nothing_left();
    assert_eq!(launch.wait().code, 128 + 9);
}

#[test]
fn a_rank_that_somebody_else_kills_is_a_failure() {
    let launch = start(LONG);
    launch.await_notice("step 1 of");
    let ranks = ranks_of(&launch);
    assert_eq!(ranks.len(), 2);
    kill_process(ranks[0], Signal::KILL).unwrap();
    let run = launch.finish_cleanly();
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.stderr.contains("has ended by itself"), "{run:?}");
}

fn ranks_of(launch: &Launch) -> Vec<Pid> {
    let is_rank = |pid: &Pid| {
        let line = fs::read_to_string(format!("/proc/{}/cmdline", pid.as_raw_pid()));
        line.is_ok_and(|line| line.contains("__demo_rank"))
    };
    wait_until("two ranks", || {
        let ranks: Vec<Pid> = launch.processes().into_iter().filter(is_rank).collect();
        (ranks.len() == 2).then_some(ranks)
    })
}
