//! Ranks that fail, and what the user learns about it.

use std::process::Command;

use super::launch::Launch;

#[test]
fn a_failure_ends_the_others_and_is_reported_with_its_last_lines() {
    let script = "[ $RANK = 1 ] && echo no data >&2 && exit 7; sleep 600";
    let run = Launch::script(&["-n", "3"], script).finish_cleanly();
    assert_eq!(run.code, 7, "{run:?}");
    for words in
        ["rank 1 failed: exit code 7", "local rank 1", "│ no data", "ranks 0 and 2 were ended"]
    {
        assert!(run.stderr.contains(words), "{words:?} in {}", run.stderr);
    }
}

#[test]
fn a_signal_is_named_and_becomes_the_exit_code() {
    let script = "[ $RANK = 0 ] && kill -SEGV $$; sleep 600";
    let run = Launch::script(&["-n", "2"], script).finish_cleanly();
    assert_eq!(run.code, 128 + 11, "{run:?}");
    assert!(
        run.stderr.contains("rank 0 failed: killed by SIGSEGV (segmentation fault)"),
        "{run:?}"
    );
}

#[test]
fn the_first_failure_is_reported_when_others_follow() {
    // Ranks 0 and 2 fail as soon as rank 1's end breaks their connection to it.
    let script = "
        if [ $RANK = 1 ]; then exec 3>pipe0 4>pipe2; sleep 0.1; exit 3; fi
        read line <pipe$RANK; exit 1";
    for round in 0..10 {
        let launch = Launch::script(
            &["-n", "3"],
            &format!("until [ -e go ]; do sleep 0.01; done; {script}"),
        );
        for name in ["pipe0", "pipe2"] {
            let path = launch.directory().join(name);
            rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).unwrap();
        }
        launch.touch("go");
        let run = launch.finish_cleanly();
        assert_eq!(run.code, 3, "round {round}: {run:?}");
        assert!(run.stderr.contains("rank 1 failed: exit code 3"), "round {round}: {run:?}");
    }
}

#[test]
fn ranks_that_finished_are_told_apart_from_those_that_were_ended() {
    let script = "case $RANK in 0) exit 0;; 1) sleep 0.5; exit 9;; *) sleep 600;; esac";
    let run = Launch::script(&["-n", "3"], script).finish_cleanly();
    assert_eq!(run.code, 9);
    assert!(run.stderr.contains("rank 0 had finished"), "{run:?}");
    assert!(run.stderr.contains("rank 2 was ended"), "{run:?}");
}

#[test]
fn a_program_that_does_not_exist_is_127() {
    let run = Launch::new(["-n", "2", "./no-such-program"]).finish_cleanly();
    assert_eq!(run.code, 127, "{run:?}");
    assert!(run.stderr.contains("cannot run ./no-such-program: there is no such"), "{run:?}");
    assert!(
        run.stderr
            .contains("exit code 127 (the program, or a library that it needs, was not found)"),
        "{run:?}"
    );
}

#[test]
fn a_file_that_is_no_program_is_126() {
    let run = Launch::new(["-n", "2", "/etc/passwd"]).finish_cleanly();
    assert_eq!(run.code, 126, "{run:?}");
    assert!(run.stderr.contains("cannot run /etc/passwd: it may not be executed"), "{run:?}");
}

#[test]
fn all_ranks_start_again_after_a_failure() {
    let script = "echo start $TORCHELASTIC_RESTART_COUNT epoch $CONSORT_EPOCH; \
                  [ $TORCHELASTIC_RESTART_COUNT = 2 ] && exit 0; [ $RANK = 1 ] && exit 5; sleep 600";
    let run = Launch::script(&["-n", "2", "--max-restarts", "3"], script).finish_cleanly();
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.stderr.contains("rank 1 failed: exit code 5; starting again (1 of 3)"), "{run:?}");
    assert!(run.stderr.contains("(2 of 3)"), "{run:?}");
    assert!(!run.stderr.contains("(3 of 3)"), "{run:?}");
    for line in ["[0] start 2 epoch 2", "[1] start 2 epoch 2"] {
        assert!(run.stdout.contains(line), "{run:?}");
    }
}

#[test]
fn a_job_whose_restarts_are_used_up_fails() {
    let run = Launch::script(&["-n", "2", "--max-restarts", "1"], "exit 5").finish_cleanly();
    assert_eq!(run.code, 5, "{run:?}");
    assert!(run.stderr.contains("after 1 restart"), "{run:?}");
}

#[test]
fn a_limit_that_stops_the_start_is_named_and_nothing_runs_on() {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 100; exec \"$0\" run -n 64 -- sleep 600"]);
    command.arg(env!("CARGO_BIN_EXE_consort"));
    let run = Launch::command(command).finish_cleanly();
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.stderr.contains("cannot start 64 ranks"), "{run:?}");
    assert!(run.stderr.contains("`ulimit -n` raises the limit"), "{run:?}");
}

#[test]
fn as_many_ranks_as_the_limit_of_files_allows_do_start() {
    let limited = |ranks: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -n 92; exec \"$0\" run -n $1 -- true"]);
        command.arg(env!("CARGO_BIN_EXE_consort")).arg(ranks);
        Launch::command(command).finish_cleanly()
    };
    let most = limited("12");
    assert_eq!(most.code, 0, "{most:?}");
    let more = limited("13");
    assert!(more.stderr.contains("allows 12 here"), "{more:?}");
}

#[test]
fn wrong_usage_is_2_with_one_clear_message() {
    for (line, words) in [
        ("-n 0 true", "whole number from 1 upwards"),
        ("-n", "value"),
        ("", "PROGRAM"),
        ("--nnodes 2 true", "needs --rdzv"),
        ("--nnodes 3:2 --rdzv tcp://h:1 true", "more than the most"),
        ("--rdzv h:1 true", "tcp://host:port"),
        ("--rdzv tcp://h:0 true", "port 0"),
        ("--nnodes 2 --rdzv tcp://h:1 true", "--secret-file"),
        ("--node-rank 1 true", "beyond the last host"),
        ("--grace 10 true", "500ms, 10s, 5m or 2h"),
        ("--max-restart 1 true", "--max-restarts"),
        ("--transport udp true", "auto, shm or tcp"),
        ("--algorithm rings true", "auto, flat, ring"),
    ] {
        let run = Launch::new(line.split_whitespace()).finish_cleanly();
        assert_eq!(run.code, 2, "{line}: {run:?}");
        assert!(run.stderr.contains(words), "{line}: {run:?}");
        assert_eq!(run.stdout, "", "{line}");
    }
}

#[test]
fn a_variable_that_every_rank_would_refuse_is_wrong_usage() {
    for (name, value) in
        [("CONSORT_TIMEOUT", "5"), ("CONSORT_LIVENES", "5s"), ("CONSORT_TRANSPORT", "udp")]
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_consort"));
        command.args(["run", "-n", "2", "echo", "started"]).env(name, value);
        let run = Launch::command(command).finish_cleanly();
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{run:?}");
        assert!(run.stderr.contains(name), "{run:?}");
    }
}

#[test]
fn help_teaches_by_example() {
    let run = Launch::new(["--help"]).finish_cleanly();
    assert_eq!(run.code, 0);
    assert!(run.stdout.contains("consort run -n 4 -- python train.py"), "{run:?}");
}
