//! The harness with real ranks of consort, which needs nothing to be installed.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and so do its parts")]

use std::fs;
use std::process::{Command, Output};

use consort_testkit::{Hosts, skip};
use serde_json::Value;

fn run(line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_consort-bench-failure"));
    command.args(line.split_ascii_whitespace()).output().unwrap()
}

fn findings(line: &str) -> Vec<Value> {
    let output = run(&format!("compare --runs 1 --json {line}"));
    assert!(output.status.success(), "{output:?}");
    let lines = std::str::from_utf8(&output.stdout).unwrap().lines();
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What every rank got, if all got the same.
fn got(finding: &Value) -> (&str, u64) {
    let outcomes = finding["outcomes"].as_array().unwrap();
    assert_eq!(outcomes.len(), 1, "{finding}");
    (outcomes[0]["what"].as_str().unwrap(), outcomes[0]["count"].as_u64().unwrap())
}

#[test]
fn a_rank_that_ends_is_named_by_all_others_and_they_go_on() {
    let line = "--libraries consort,consort-tcp --scenarios kill,barrier,exit,pending";
    let findings = findings(line);
    assert_eq!(findings.len(), 8);
    for finding in &findings {
        assert_eq!(got(finding), ("PeerGone", 3), "{finding}");
        assert_eq!((&finding["named"], &finding["errors"]), (&3.into(), &3.into()), "{finding}");
        assert_eq!((&finding["went_on"], &finding["tried"]), (&1.into(), &1.into()), "{finding}");
    }
}

#[test]
fn ranks_that_differ_are_named_on_every_rank() {
    let line = "--libraries consort --scenarios count,dtype,op,operation,skip";
    for finding in &findings(line) {
        assert_eq!(got(finding), ("Mismatch", 4), "{finding}");
        assert_eq!(finding["named"], 4, "{finding}");
    }
}

#[test]
fn what_is_stopped_or_given_up_ends_the_others_wait() {
    let findings = findings("--libraries consort --scenarios stop,abort");
    assert_eq!(got(&findings[0]), ("Deadline", 3));
    assert_eq!(got(&findings[1]), ("Aborted", 3));
    let waited = findings[0]["median_ms"].as_f64().unwrap();
    assert!((2_500.0..8_000.0).contains(&waited), "its timeout is 3 s: {waited} ms");
}

#[test]
fn a_cut_between_two_hosts_is_noticed_on_both_sides() {
    if let Err(reason) = Hosts::new(2) {
        return skip(reason);
    }
    let findings = findings("--libraries consort --scenarios cut");
    assert_eq!(got(&findings[0]), ("PeerGone", 4));
    assert_eq!(findings[0]["named"], 4, "each side names one of the other: {}", findings[0]);
}

#[test]
fn what_was_measured_before_makes_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("findings");
    let output = run("compare --runs 1 --json --libraries consort --scenarios op");
    fs::write(&file, &output.stdout).unwrap();
    let table = run(&format!("table {}", file.display()));
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(table.contains("| consort | Mismatch |"), "{table}");
}

#[test]
fn a_scenario_that_does_not_exist_is_refused_with_those_that_do() {
    let output = run("compare --libraries consort --scenarios flood");
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("no scenario \"flood\"; choose kill, barrier"), "{told}");
}

/// Those who are not set up are looked for in this folder, where nobody is.
#[test]
fn a_library_that_was_asked_for_and_is_not_there_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_consort-bench-failure"));
    let output = command
        .args(["compare", "--libraries", "gloo"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("Gloo: it is not set up"), "{told}");
}
