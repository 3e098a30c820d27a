//! `consort soak`, for a while.
#![allow(clippy::unwrap_used, reason = "a test ends with the first surprise")]

use std::process::{Command, Output};

fn soak(options: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_consort")).arg("soak").args(options).output().unwrap()
}

fn survives(options: &[&str]) {
    let output = soak(options);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(output.status.success(), "{output:?}");
    let last = text.lines().last().unwrap();
    let number = |after: &str| -> u32 {
        let (before, _) = last.split_once(after).unwrap_or_else(|| panic!("{after}: {last}"));
        before.rsplit(' ').next().unwrap().parse().unwrap()
    };
    assert!(number(" were killed") > 3 && number(" came") > 3, "{last}");
    assert!(number(" results were right") > 10, "{last}");
    assert!(last.contains("groups became smaller"), "{last}");
}

#[test]
fn ranks_that_share_memory_survive_half_a_minute() {
    survives(&["--for", "30s", "--seed", "11"]);
}

#[test]
fn ranks_with_connections_survive_half_a_minute() {
    survives(&["--for", "30s", "--seed", "12", "--transport", "tcp"]);
}

#[test]
fn what_makes_no_sense_is_refused() {
    for options in [&["-n", "0"][..], &["--for", "soon"], &["--transport", "pigeon"]] {
        assert_eq!(soak(options).status.code(), Some(2), "{options:?}");
    }
}
