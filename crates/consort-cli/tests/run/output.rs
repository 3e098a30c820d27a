//! What ranks write.

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::process::Signal;

use super::launch::{Launch, sorted_lines, wait_until};

#[test]
fn lines_of_several_ranks_do_not_mix() {
    let script = "i=0; while [ $i -lt 500 ]; do \
                  printf '%s-'  $RANK $i; printf '%0100d\\n' $RANK; i=$((i + 1)); done";
    let run = Launch::script(&["-n", "4"], script).finish_cleanly();
    let expected: Vec<String> = (0..4)
        .flat_map(|rank| (0..500).map(move |i| format!("[{rank}] {rank}-{i}-{rank:0100}")))
        .collect();
    let mut found = sorted_lines(&run.stdout);
    let mut expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    expected.sort_unstable();
    found.sort_unstable();
    assert!(found == expected);
}

#[test]
fn it_is_said_once_if_nothing_will_be_computed() {
    for (backend, times) in [("fake", 1), ("host", 0)] {
        let run = Launch::script(&["--backend", backend, "-n", "2"], "true").finish_cleanly();
        let said = run.stderr.matches("nobody carries out calls").count();
        assert_eq!((run.code, said), (0, times), "{run:?}");
    }
}

#[test]
fn each_stream_stays_itself() {
    let run = Launch::script(&["-n", "2"], "echo out; echo err >&2").finish_cleanly();
    assert_eq!(sorted_lines(&run.stdout), ["[0] out", "[1] out"]);
    assert_eq!(sorted_lines(&run.stderr), ["[0] err", "[1] err"]);
}

#[test]
fn ten_megabytes_without_a_newline_come_in_pieces() {
    let script = "head -c 10000000 /dev/zero | tr '\\0' x";
    let run = Launch::script(&["-n", "1"], script).finish_cleanly();
    assert_eq!(run.code, 0);
    assert_eq!(run.stdout.bytes().filter(|&byte| byte == b'x').count(), 10_000_000);
    assert!(run.stdout.lines().all(|line| line.len() <= 65536 + 4 && line.starts_with("[0] x")));
}

#[test]
fn bytes_that_are_not_text_pass_through() {
    let mut run = Command::new(env!("CARGO_BIN_EXE_consort"));
    let output = run.args(["run", "printf", r"\377\200\n"]).output().unwrap();
    assert_eq!(output.stdout, b"[0] \xff\x80\n");
}

#[test]
fn a_reader_who_leaves_ends_the_job_quietly() {
    let mut command = Command::new("sh");
    command.args(["-c", "{ \"$0\" run -n 2 -- yes; echo code $? >&2; } | head -1"]);
    command.arg(env!("CARGO_BIN_EXE_consort"));
    let run = Launch::command(command).finish_cleanly();
    assert_eq!(run.stdout.lines().count(), 1, "{run:?}");
    assert_eq!(run.stderr, "code 141\n");
}

#[test]
fn a_failure_that_nobody_reads_ends_the_ranks_and_a_signal_ends_the_launcher() {
    let mut command = Command::new("sh");
    // What rank 0 writes fits into its own pipe, but not, with the rank before each line, into the one that nobody reads.
    let script = "if [ $RANK != 0 ]; then sleep 600 & touch begun-$RANK; wait; fi; \
                  for rank in 1 2; do until [ -e begun-$rank ]; do sleep 0.01; done; done; \
                  yes | head -c 30000; touch failing; exit 7";
    let line = "until [ -e ready ]; do sleep 0.01; done; \
                exec \"$0\" run -n 3 -- sh -c \"$1\" >pipe 2>&1";
    command.args(["-c", line, env!("CARGO_BIN_EXE_consort"), script]);
    let launch = Launch::command(command);
    let path = launch.directory().join("pipe");
    mkfifoat(CWD, &path, Mode::RWXU).unwrap();
    let _unread = fs::File::options().read(true).write(true).open(&path).unwrap();
    launch.touch("ready");
    let failing = launch.directory().join("failing");
    wait_until("the failure", || failing.exists().then_some(()));
    // The launcher and its guard.
    wait_until("the ranks to be gone", || (launch.processes().len() <= 2).then_some(()));
    launch.signal(Signal::TERM);
    assert_eq!(launch.finish_cleanly().code, 7);
}

#[test]
fn output_that_cannot_be_written_fails_the_job() {
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" run -- echo hello >/dev/full"]);
    command.arg(env!("CARGO_BIN_EXE_consort"));
    let run = Launch::command(command).finish_cleanly();
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.stderr.contains("cannot write the ranks' output: No space left"), "{run:?}");
}

#[test]
fn a_reader_who_does_not_read_cannot_keep_an_interrupted_job() {
    let mut launcher = Command::new(env!("CARGO_BIN_EXE_consort"))
        .args(["run", "-n", "2", "--", "yes"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Something arrives, so the pipe fills up from now on.
    let mut stdout = launcher.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 100]).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    let pid = rustix::process::Pid::from_child(&launcher);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let status = wait_until("the launcher to end", || launcher.try_wait().unwrap());
    assert_eq!(status.code(), Some(143));
    drop(stdout);
}

#[test]
fn a_slow_reader_gets_everything() {
    let mut command = Command::new("sh");
    let script = "head -c 300000 /dev/zero | tr '\\0' '\\n'";
    command.args(["-c", "\"$0\" run -- sh -c \"$1\" | { sleep 2; wc -l; }"]);
    command.args([env!("CARGO_BIN_EXE_consort"), script]);
    let run = Launch::command(command).finish_cleanly();
    assert_eq!(run.stdout.trim(), "300000");
}

#[test]
fn a_progress_bar_shows_its_last_state() {
    let script = "for i in 1 2 3 4 5; do printf '\\r%s of 5' $i; done; echo";
    let run = Launch::script(&[], script).finish_cleanly();
    assert_eq!(run.stdout, "[0] 1 of 5\n[0] 5 of 5\n");
}

#[test]
fn logs_are_files_by_job_attempt_and_rank() {
    let script = "echo out $RANK; echo err $RANK >&2; [ $RANK = 1 ] && exit 6; exec sleep 600";
    let launch = Launch::script(&["-n", "2", "--log-dir", "logs", "--max-restarts", "1"], script);
    let logs = launch.directory().join("logs");
    let mut launch = launch;
    let run = launch.wait();
    assert_eq!((run.code, run.stdout.as_str()), (6, ""), "{run:?}");
    let jobs: Vec<_> = fs::read_dir(&logs).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(jobs.len(), 1, "{jobs:?}");
    for attempt in ["attempt_0", "attempt_1"] {
        let directory = jobs[0].join(attempt);
        let said = format!("the ranks' output is in {}", directory.display());
        assert!(run.stderr.contains(&said), "{said} in {run:?}");
        for (file, text) in [("stdout.log", "out 1\n"), ("stderr.log", "err 1\n")] {
            assert_eq!(fs::read_to_string(directory.join("1").join(file)).unwrap(), text);
        }
    }
    assert!(run.stderr.contains("│ err 1"), "{run:?}");
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let run = Launch::script(&["--log-dir", "/proc/no"], "echo never").finish_cleanly();
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("cannot write logs to /proc/no"), "{run:?}");
}

#[test]
fn the_reason_a_pytorch_program_left_is_shown() {
    let script = r#"echo '{"message":{"message":"ValueError: bad shape","extraInfo":{}}}' \
                    >$TORCHELASTIC_ERROR_FILE; exit 1"#;
    let run = Launch::script(&["--log-dir", "logs"], script).finish_cleanly();
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("│ ValueError: bad shape"), "{run:?}");
}
