//! Runs from their beginning to their end.

use std::process::{Command, Stdio};

use serde_json::Value;

use super::{checks, run, summary};

#[test]
fn ranks_learn_what_one_process_does_and_end_with_the_same_parameters() {
    let run = run("-n 2 --steps 12 --batch 9 --json");
    assert_eq!(run.code, 0, "{run:?}");
    let summary = summary(&run);
    for (field, value) in [("ranks", 2), ("steps", 12), ("batch", 9), ("seed", 1)] {
        assert_eq!(summary[field], value, "{field} of {summary}");
    }
    let names: Vec<(&str, bool)> = checks(&summary);
    assert_eq!(
        names,
        [
            ("parameters are the same on all ranks, bit by bit", true),
            ("the loss is that of one process", true),
            ("pictures that were kept back are read", true),
        ]
    );
    let figure = |of: &str, name: &str| summary[of][name].as_f64().unwrap();
    for of in ["distributed", "alone"] {
        assert!(figure(of, "seconds") > 0.0 && figure(of, "samples_per_second") > 0.0, "{summary}");
        assert!((0.0..=1.0).contains(&figure(of, "test_accuracy")), "{summary}");
        assert!(
            (1.5..4.0).contains(&figure(of, "first_loss")),
            "nothing is learned yet: {summary}"
        );
    }
    let expected = figure("alone", "seconds") / figure("distributed", "seconds");
    assert!((summary["speedup"].as_f64().unwrap() - expected).abs() < 1e-9, "{summary}");
    let traffic = |name: &str| figure("traffic", name);
    assert!(traffic("buckets") > 1.0, "there is something to hide: {summary}");
    // Every gradient begins with a cache line.
    let [numbers, parameters] =
        ["numbers", "parameters"].map(|what| summary["model"][what].as_f64().unwrap());
    let room = traffic("bytes") - numbers * 4.0;
    assert!((0.0..parameters * 64.0).contains(&room), "{summary}");
    assert!(traffic("hidden_ms") <= traffic("communication_ms"), "{summary}");
    let sum = traffic("hidden_ms") + traffic("exposed_ms");
    assert!((sum - traffic("communication_ms")).abs() < 1e-6, "{summary}");
}

#[test]
fn the_first_steps_differ_from_those_of_one_process_by_rounding_only() {
    // Shares of 3, 3 and 4 pictures.
    let summary = summary(&run("-n 3 --steps 3 --batch 10 --json"));
    let most = summary["loss_difference"]["most"].as_f64().unwrap();
    assert!(most < 1e-5, "{summary}");
}

#[test]
fn the_same_seed_comes_to_the_same_result_and_another_to_another() {
    let losses = |seed: u32| -> Vec<Value> {
        let line = format!("-n 2 --steps 4 --batch 8 --no-compare --json --seed {seed}");
        let summary = summary(&run(&line));
        assert!(summary["alone"].is_null() && summary["speedup"].is_null(), "{summary}");
        let names = ["first_loss", "last_loss", "test_loss", "test_accuracy"];
        names.map(|name| summary["distributed"][name].clone()).to_vec()
    };
    assert_eq!(losses(5), losses(5));
    assert_ne!(losses(5), losses(6));
}

#[test]
fn one_rank_is_a_group_too() {
    let summary = summary(&run("-n 1 --steps 3 --batch 4 --json"));
    assert!(summary["traffic"].is_null(), "it has nobody to talk to: {summary}");
    assert!(checks(&summary).iter().all(|(_, passed)| *passed), "{summary}");
}

#[test]
fn people_get_a_table_and_checks_in_words() {
    let run = run("-n 2 --steps 4 --batch 8");
    assert_eq!(run.code, 0, "{run:?}");
    for part in [
        "2 ranks   one process",
        "samples/s",
        "speed-up",
        "gradients: ",
        "  hidden behind backward",
    ] {
        assert!(run.stdout.contains(part), "{part:?} in {}", run.stdout);
    }
    assert_eq!(run.stdout.matches("✓ ").count(), 3, "{}", run.stdout);
}

#[test]
fn what_makes_no_sense_is_one_line_before_anything_starts() {
    for (line, part) in [
        ("-n 1 --kill-a-rank", "consort: --kill-a-rank needs somebody who goes on"),
        ("--kill-a-rank --steps 2", "consort: 2 steps are over before"),
        ("-n 5 --batch 4", "consort: a batch of 4 is too small for 5 ranks"),
        ("--report /nonexistent/x.html", "consort: cannot write /nonexistent/x.html: No such file"),
    ] {
        let run = run(line);
        assert_eq!((run.code, run.stderr.lines().count()), (2, 1), "{line}: {run:?}");
        assert!(run.stderr.starts_with(part), "{line}: {run:?}");
        assert_eq!(run.stdout, "", "{line}");
    }
    for (line, part) in [
        ("-n 0", "'0' for '--ranks <N>'"),
        ("-n many", "'many' for '--ranks <N>'"),
        ("--steps 0", "0 is not in 1..=1000000"),
        ("--batch 0", "0 is not in 1..=20000"),
        ("--batch 20001", "20001 is not in 1..=20000"),
        ("--seed half", "'half' for '--seed <S>'"),
        ("--speed", "'--speed'"),
    ] {
        let run = run(line);
        assert_eq!((run.code, &run.stdout[..]), (2, ""), "{line}: {run:?}");
        assert!(run.stderr.contains(part), "{line}: {run:?}");
    }
}

#[test]
fn the_help_explains_the_words() {
    let run = run("--help");
    assert_eq!(run.code, 0);
    for word in ["--kill-a-rank", "speed-up", "hidden", "bus GB/s", "Exit code"] {
        assert!(run.stdout.contains(word), "{word}: {}", run.stdout);
    }
}

#[test]
fn what_cannot_be_written_is_no_success() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_consort"));
    command.args(["demo", "-n", "1", "--steps", "1", "--batch", "1", "--no-compare", "--json"]);
    let output = command.stdin(Stdio::null()).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("cannot write what was found"), "{said}");
}
