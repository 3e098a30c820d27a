//! Signals to the launcher.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;

use super::launch::Launch;

/// A rank that says `ready`, and `saved` when SIG comes, before it ends.
fn saves_on(signal: &str) -> String {
    format!("trap 'echo saved; exit 0' {signal}; echo ready; while :; do sleep 0.05; done")
}

#[test]
fn a_request_to_end_reaches_every_rank() {
    for (signal, name, code) in
        [(Signal::TERM, "TERM", 143), (Signal::INT, "INT", 130), (Signal::HUP, "HUP", 129)]
    {
        let launch = Launch::script(&["-n", "3"], &saves_on(name));
        launch.await_lines(3, "ready");
        launch.signal(signal);
        let run = launch.finish_cleanly();
        assert_eq!(run.code, code, "{run:?}");
        assert_eq!(run.stdout.matches("saved").count(), 3, "{run:?}");
        assert!(!run.stderr.contains("failed"), "{run:?}");
    }
}

#[test]
fn a_request_to_end_is_heard_while_ranks_are_being_started() {
    // A rank's parent is the launcher, and a rank's files are made just before it is started.
    let script = "[ $RANK = 0 ] && kill -TERM $PPID; exec sleep 600";
    let logs = tempfile::tempdir().unwrap();
    let options = ["-n", "400", "--log-dir", logs.path().to_str().unwrap()];
    let run = Launch::script(&options, script).finish_cleanly();
    assert_eq!(run.code, 143, "{run:?}");
    let entries = |folder: &Path| -> Vec<PathBuf> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    let [job] = &entries(logs.path())[..] else { panic!("one job") };
    let started = entries(&job.join("attempt_0")).len();
    assert!((1..400).contains(&started), "{started} were started");
}

#[test]
fn ranks_that_ignore_the_request_are_killed_after_the_grace() {
    let script = "trap '' TERM INT; echo ready; while :; do sleep 0.05; done";
    let launch = Launch::script(&["-n", "2", "--grace", "300ms"], script);
    launch.await_lines(2, "ready");
    launch.signal(Signal::TERM);
    assert_eq!(launch.finish_cleanly().code, 143);
}

#[test]
fn ranks_that_outlive_a_failed_one_are_killed_after_the_grace() {
    let script = "trap '' TERM; echo ready; [ $RANK = 0 ] && sleep 0.5 && exit 4; \
                  while :; do sleep 0.05; done";
    let run = Launch::script(&["-n", "2", "--grace", "300ms"], script).finish_cleanly();
    assert_eq!(run.code, 4);
    assert!(run.stderr.contains("rank 1 was ended"), "{run:?}");
}

#[test]
fn a_second_interrupt_does_not_wait_for_the_grace() {
    let script = "trap 'echo asked' INT; echo ready; while :; do sleep 0.05; done";
    let launch = Launch::script(&["-n", "2", "--grace", "1h"], script);
    launch.await_lines(2, "ready");
    launch.signal(Signal::INT);
    launch.await_lines(2, "asked");
    launch.signal(Signal::INT);
    assert_eq!(launch.finish_cleanly().code, 130);
}

#[test]
fn an_interrupt_during_the_grace_after_a_failure_prevents_the_restart() {
    let script = "trap 'echo asked' TERM; echo ready; [ $RANK = 0 ] && sleep 0.5 && exit 4; \
                  while :; do sleep 0.05; done";
    let options = ["-n", "2", "--grace", "1h", "--max-restarts", "5"];
    let launch = Launch::script(&options, script);
    launch.await_lines(1, "asked");
    launch.signal(Signal::INT);
    let run = launch.finish_cleanly();
    assert_eq!(run.code, 4, "{run:?}");
    assert!(!run.stderr.contains("starting again"), "{run:?}");
}

#[test]
fn what_a_rank_started_has_the_grace_too() {
    // The shell that leads the group ends at once; its child wants to save its work.
    let script = "sh -c 'trap \"sleep 0.3; echo saved; exit 0\" TERM; echo ready; \
                  while :; do sleep 0.05; done'; true";
    let launch = Launch::script(&["-n", "2"], script);
    launch.await_lines(2, "ready");
    launch.signal(Signal::TERM);
    let run = launch.finish_cleanly();
    assert_eq!((run.code, run.stdout.matches("saved").count()), (143, 2), "{run:?}");
}

#[test]
fn a_stopped_rank_can_end_well() {
    let script = "trap 'echo saved; exit 0' TERM; echo ready; kill -STOP $$; sleep 600";
    let launch = Launch::script(&["-n", "1", "--grace", "1h"], script);
    launch.await_lines(1, "ready");
    launch.signal(Signal::TERM);
    let run = launch.finish_cleanly();
    assert_eq!((run.code, run.stdout.contains("saved")), (143, true), "{run:?}");
}

#[test]
fn a_users_signal_is_passed_on_and_the_job_goes_on() {
    let script = "trap 'echo noted; go=1' USR1; echo ready; \
                  while [ -z $go ]; do sleep 0.05; done; echo done";
    let launch = Launch::script(&["-n", "2"], script);
    launch.await_lines(2, "ready");
    launch.signal(Signal::USR1);
    let run = launch.finish_cleanly();
    assert_eq!((run.code, run.stdout.matches("done").count()), (0, 2), "{run:?}");
}

#[test]
fn a_job_under_nohup_survives_the_hangup() {
    let mut command = Command::new("sh");
    let script = "echo ready; until [ -e go ]; do sleep 0.05; done; echo done";
    command.args(["-c", "trap '' HUP; exec \"$0\" run -n 2 -- sh -c \"$1\""]);
    command.args([env!("CARGO_BIN_EXE_consort"), script]);
    let launch = Launch::command(command);
    launch.await_lines(2, "ready");
    launch.signal(Signal::HUP);
    launch.touch("go");
    let run = launch.finish_cleanly();
    assert_eq!((run.code, run.stdout.matches("done").count()), (0, 2), "{run:?}");
}
