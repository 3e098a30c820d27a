//! PyTorch programs that know nothing of consort, under `consort run`.
#![allow(clippy::unwrap_used, reason = "a test ends with the first surprise")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use consort_testkit::{Hosts, Skip, skip};

#[test]
fn a_gloo_program_just_works() {
    let run = match run("gloo.py") {
        Ok(run) => run,
        Err(reason) => return skip(reason),
    };
    assert!(run.status.success(), "{}", text(&run));
    // 2 × 1000 × (0 + 1 + … + 999), and rank 1 adds one to each of 1000 values.
    for line in ["[0] rank 0 of 2: sum 999001000", "[1] rank 1 of 2: sum 999001000"] {
        assert!(text(&run).contains(line), "{}", text(&run));
    }
}

#[test]
fn a_gloo_program_works_across_hosts() {
    let runs = match run_on_two_hosts("gloo.py") {
        Ok(runs) => runs,
        Err(reason) => return skip(reason),
    };
    for (rank, run) in runs.iter().enumerate() {
        assert!(run.status.success(), "{}", text(run));
        let line = format!("[{rank}] rank {rank} of 2: sum 999001000");
        assert!(text(run).contains(&line), "{}", text(run));
    }
}

#[test]
fn a_rank_that_raises_on_another_host_is_reported_on_both() {
    let runs = match run_on_two_hosts("raises.py") {
        Ok(runs) => runs,
        Err(reason) => return skip(reason),
    };
    runs.iter().for_each(assert_reports_rank_1);
}

#[test]
fn a_rank_that_raises_is_reported_with_its_traceback() {
    let run = match run("raises.py") {
        Ok(run) => run,
        Err(reason) => return skip(reason),
    };
    assert_reports_rank_1(&run);
}

fn assert_reports_rank_1(run: &Output) {
    let output = text(run);
    assert_eq!(run.status.code(), Some(1), "{output}");
    let report = output.split("consort: rank ").nth(1).unwrap_or_else(|| panic!("{output}"));
    assert!(report.starts_with("1 failed: exit code 1"), "{output}");
    assert!(report.contains("ValueError: the data has a hole"), "{output}");
}

fn run(program: &str) -> Result<Output, Skip> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_consort"));
    command.args(["run", "-n", "2", "--"]).arg(python()?).arg(source(program));
    Ok(command.output().unwrap())
}

fn run_on_two_hosts(program: &str) -> Result<[Output; 2], Skip> {
    let (python, hosts) = (python()?, Hosts::new(2)?);
    let directory = tempfile::tempdir().unwrap();
    let runs = [0, 1].map(|host| {
        let mut command = hosts.host(host).command(env!("CARGO_BIN_EXE_consort"));
        let place = format!("tcp://{}:29400", hosts.host(0).address());
        command.args(["run", "--nnodes", "2", "--rdzv", &place, "--secret-file"]);
        command.arg(directory.path().join("secret")).arg("--").arg(&python).arg(source(program));
        // Gloo would look the host's name up, and such a host is in no directory.
        command.env("GLOO_SOCKET_IFNAME", "eth0");
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    });
    Ok(runs.map(|run| run.wait_with_output().unwrap()))
}

fn source(program: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(program)
}

/// A Python with torch, installed under `target/` if it is not there yet. What cannot be had on
/// somebody's own machine is skipped; where the tests decide, it has to be there.
fn python() -> Result<PathBuf, Skip> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let made = Command::new(root.join("tools/torch")).output();
    let made = made.unwrap();
    if made.status.success() {
        return Ok(root.join("target/venv-torch/bin/python"));
    }
    let reason = String::from_utf8_lossy(&made.stderr).into_owned();
    assert!(std::env::var_os("CI").is_none(), "torch could not be installed: {reason}");
    Err(Skip::new(format!("torch could not be installed: {reason}")))
}

fn text(output: &Output) -> String {
    let both = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    String::from_utf8_lossy(&both).into_owned()
}
