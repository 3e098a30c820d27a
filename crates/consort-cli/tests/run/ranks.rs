//! Ranks that do well, and what they find.

use super::launch::{Launch, sorted_lines};

#[test]
fn every_rank_says_hello() {
    let run = Launch::script(&["-n", "4"], "echo hello from $RANK of $WORLD_SIZE").finish_cleanly();
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(
        sorted_lines(&run.stdout),
        [
            "[0] hello from 0 of 4",
            "[1] hello from 1 of 4",
            "[2] hello from 2 of 4",
            "[3] hello from 3 of 4",
        ]
    );
    assert_eq!(run.stderr, "");
}

#[test]
fn one_rank_is_the_default_and_the_separator_may_be_left_out() {
    let run = Launch::new(["printenv", "WORLD_SIZE", "LOCAL_RANK"]).finish_cleanly();
    assert_eq!((run.code, run.stdout.as_str()), (0, "[0] 1\n[0] 0\n"));
}

#[test]
fn ranks_find_their_place_as_under_torchrun() {
    let script = "echo $RANK $LOCAL_RANK $LOCAL_WORLD_SIZE $GROUP_RANK $GROUP_WORLD_SIZE $ROLE_RANK \
                  $MASTER_ADDR $TORCHELASTIC_RESTART_COUNT $TORCHELASTIC_MAX_RESTARTS \
                  $TORCHELASTIC_USE_AGENT_STORE $CONSORT_TIMEOUT; \
                  [ $MASTER_PORT -gt 0 ] && [ -n $CONSORT_JOB ] && [ $CONSORT_EPOCH = 0 ]";
    let options = ["-n", "2", "--max-restarts", "3", "--timeout", "90s"];
    let run = Launch::script(&options, script).finish_cleanly();
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(
        sorted_lines(&run.stdout),
        ["[0] 0 0 2 0 1 0 127.0.0.1 0 3 False 90s", "[1] 1 1 2 0 1 1 127.0.0.1 0 3 False 90s"]
    );
}

#[test]
fn ranks_are_told_how_their_data_travels() {
    let script = "echo $CONSORT_TRANSPORT $CONSORT_ENCRYPT ${CONSORT_INTEGRITY-none} $CONSORT_PORT";
    let options = ["-n", "2", "--transport", "tcp", "--encrypt", "--data-port", "29600"];
    let run = Launch::script(&options, script).finish_cleanly();
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(sorted_lines(&run.stdout), ["[0] tcp on none 29600", "[1] tcp on none 29600"]);
}

#[test]
fn a_job_inside_a_job_does_not_see_the_outer_store() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_consort"));
    command.args([
        "run",
        "--",
        "sh",
        "-c",
        "echo ${CONSORT_RDZV-none} ${TORCHELASTIC_ERROR_FILE-none}",
    ]);
    command.env("CONSORT_RDZV", "tcp://elsewhere:1").env("TORCHELASTIC_ERROR_FILE", "/elsewhere");
    let run = Launch::command(command).finish_cleanly();
    assert!(run.stdout.starts_with("[0] tcp://127.0.0.1:"), "{run:?}");
    assert!(run.stdout.ends_with(" none\n"), "{run:?}");
}

#[test]
fn standard_input_is_empty() {
    let run = Launch::script(&["-n", "2"], "cat; echo end").finish_cleanly();
    assert_eq!((run.code, run.stdout.lines().count()), (0, 2));
}

#[test]
fn many_more_ranks_than_cores_run() {
    let run = Launch::script(&["-n", "64"], "echo $RANK; exec sleep 0.2").finish_cleanly();
    assert_eq!(run.code, 0, "{run:?}");
    let expected: Vec<_> = (0..64).map(|rank| format!("[{rank:>2}] {rank}")).collect();
    assert_eq!(sorted_lines(&run.stdout), expected);
}

#[test]
fn arguments_reach_the_program_unchanged() {
    let run = Launch::new(["printf", "<%s>", "a b", "--grace", "-n", "", "*"]).finish_cleanly();
    assert_eq!(run.stdout, "[0] <a b><--grace><-n><><*>\n");
}
