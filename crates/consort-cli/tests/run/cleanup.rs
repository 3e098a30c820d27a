//! Nothing is left behind, whatever ends the job.

use std::fs;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use super::launch::Launch;

#[test]
fn what_ranks_left_running_ends_with_a_job_that_went_well() {
    let run = Launch::script(&["-n", "2"], "sleep 600 & echo left $!").finish_cleanly();
    assert_eq!((run.code, run.stdout.lines().count()), (0, 2), "{run:?}");
}

#[test]
fn what_ranks_started_ends_with_a_job_that_failed() {
    let script = "(sleep 600; true) & (trap '' TERM; sleep 600; true) & \
                  [ $RANK = 1 ] && exit 7; wait";
    let run = Launch::script(&["-n", "3", "--grace", "300ms"], script).finish_cleanly();
    assert_eq!(run.code, 7, "{run:?}");
}

#[test]
fn ranks_and_what_they_started_die_with_a_killed_launcher() {
    let script = "(trap '' TERM HUP; sleep 600; true) & echo ready; wait";
    let mut launch = Launch::script(&["-n", "3"], script);
    launch.await_lines(3, "ready");
    assert!(launch.processes().len() > 3 * 3, "launcher, guard, and three processes a rank");
    launch.signal(Signal::KILL);
    launch.await_nothing_left();
    assert_eq!(launch.wait().code, 128 + 9);
}

#[test]
fn a_launcher_killed_while_its_ranks_begin_leaves_nothing() {
    for _ in 0..20 {
        let launch = Launch::script(&["-n", "32"], "sleep 600 & echo ready; wait");
        launch.await_lines(1, "ready");
        launch.signal(Signal::KILL);
        launch.await_nothing_left();
    }
}

#[test]
fn ranks_die_with_the_launcher_even_without_a_guard() {
    let launch = Launch::script(&["-n", "2"], "echo ready; exec sleep 600");
    launch.await_lines(2, "ready");
    kill_guard_of(&launch);
    launch.signal(Signal::KILL);
    launch.await_nothing_left();
}

#[test]
fn a_job_ends_well_without_its_guard() {
    let script = "echo ready; until [ -e go ]; do sleep 0.05; done";
    let launch = Launch::script(&["-n", "2"], script);
    launch.await_lines(2, "ready");
    kill_guard_of(&launch);
    launch.touch("go");
    let run = launch.finish_cleanly();
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.stderr.contains("the guard is gone"), "{run:?}");
}

#[test]
fn a_process_that_left_the_job_cannot_hold_up_the_launcher() {
    // It keeps the rank's streams, but is in a session of its own.
    let mut launch = Launch::script(&["-n", "2"], "setsid sleep 20 & echo done");
    let before = std::time::Instant::now();
    assert_eq!(launch.wait().code, 0);
    assert!(before.elapsed().as_secs() < 15, "{:?}", before.elapsed());
}

/// Returns when it has ended, which it has not yet when it is only sent the signal.
fn kill_guard_of(launch: &Launch) {
    let guard = guard_of(launch);
    let descriptor = pidfd_open(guard, PidfdFlags::empty()).unwrap();
    kill_process(guard, Signal::KILL).unwrap();
    poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], None).unwrap();
}

fn guard_of(launch: &Launch) -> Pid {
    let is_guard = |pid: &Pid| {
        let line = fs::read_to_string(format!("/proc/{}/cmdline", pid.as_raw_pid()));
        line.is_ok_and(|line| line.contains("__guard"))
    };
    launch.processes().into_iter().find(is_guard).expect("a launcher has a guard")
}
