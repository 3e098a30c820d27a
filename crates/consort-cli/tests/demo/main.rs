//! `consort demo`: real ranks that learn, real kills, and its page in a real browser.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and so do its parts")]

mod browser;
mod failures;
#[path = "../run/launch.rs"]
#[allow(dead_code, reason = "it is made for another command, and not all of it is needed here")]
mod launch;
mod page;
mod runs;
mod terminal;

use std::ffi::OsStr;
use std::process::Command;

use serde_json::Value;

use launch::{Finished, Launch};

/// Starts `consort demo LINE`.
fn start(line: &str) -> Launch {
    start_with(line, [""; 0])
}

/// The same, with arguments that are not words of a line.
fn start_with(line: &str, more: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Launch {
    let mut command = Command::new(env!("CARGO_BIN_EXE_consort"));
    command.arg("demo").args(line.split_ascii_whitespace()).args(more);
    Launch::command(command)
}

/// Runs `consort demo LINE`, and wants nothing to be left.
fn run(line: &str) -> Finished {
    start(line).finish_cleanly()
}

/// The one object that it has printed.
fn summary(run: &Finished) -> Value {
    assert_eq!(run.stdout.lines().count(), 1, "{run:?}");
    serde_json::from_str(&run.stdout).unwrap()
}

/// All checks by their names, and whether they hold.
fn checks(summary: &Value) -> Vec<(&str, bool)> {
    let checks = summary["checks"].as_array().unwrap().iter();
    checks
        .map(|check| (check["name"].as_str().unwrap(), check["passed"].as_bool().unwrap()))
        .collect()
}
