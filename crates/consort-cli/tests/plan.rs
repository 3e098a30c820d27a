//! `consort plan`, as its users meet it.

use std::fs;
use std::process::{Command, Output};

fn plan(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_consort"));
    command.arg("plan").args(line.split_whitespace()).env_remove("CONSORT_ALGORITHM");
    command
}

fn run(line: &str) -> Output {
    plan(line).output().expect("the program starts")
}

fn good(line: &str) -> String {
    let output = run(line);
    assert!(output.status.success(), "{line}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

fn refused(line: &str) -> String {
    let output = run(line);
    assert_eq!(output.status.code(), Some(2), "{line}: {output:?}");
    String::from_utf8(output.stderr).expect("text")
}

#[test]
fn a_schedule_is_shown_for_all_ranks() {
    insta::assert_snapshot!(good("show all_reduce --algorithm halving -n 4"));
}

#[test]
fn one_rank_is_shown_step_by_step() {
    insta::assert_snapshot!(good("show broadcast --algorithm double_tree -n 6 --root 2 --rank 3"));
}

#[test]
fn a_schedule_is_drawn_into_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("lanes.svg");
    let output = plan("show all_reduce -a hierarchical -n 8 --hosts 2 --svg")
        .arg(&path)
        .output()
        .expect("the program starts");
    assert!(output.status.success(), "{output:?}");
    let svg = fs::read_to_string(path).expect("a drawing");
    assert!(svg.contains("rank 7") && svg.contains("all_reduce by hierarchical"), "{svg}");
    let nowhere = run("show all_reduce --svg /nonexistent/lanes.svg");
    assert_eq!(nowhere.status.code(), Some(1), "{nowhere:?}");
}

#[test]
fn every_schedule_is_checked() {
    let text = good("check --all");
    let count: u32 = text.split(' ').next().and_then(|it| it.parse().ok()).expect("a number");
    assert!(count > 3000, "{text}");
    assert!(text.ends_with("schedules between 1 to 64 ranks are right\n"), "{text}");
}

#[test]
fn one_schedule_is_described_when_it_is_checked() {
    insta::assert_snapshot!(good("check all_reduce --algorithm ring -n 100"), @"
    all_reduce by ring between 100 ranks: 198 rounds, 19800 messages, a rank sends up to 198 chunks, up to 100 messages under way between two ranks, combined in the order of ranks, beginning anywhere
    one schedule between 100 ranks is right
    ");
}

#[test]
fn times_are_predicted_for_thousands_of_ranks() {
    insta::assert_snapshot!(good(
        "simulate all_reduce --ranks 4096 --hosts 512 --alpha 5us --beta 25Gbit \
         --bytes 8,1MiB -a doubling,halving,binomial,shares"
    ));
}

#[test]
fn a_late_rank_and_a_slow_link_cost_time() {
    let seconds = |more: &str| {
        let text = good(&format!("simulate all_reduce -n 8 --bytes 1MiB -a ring --json {more}"));
        let value: serde_json::Value = serde_json::from_str(text.trim()).expect("one object");
        value["predicted_us"].as_f64().expect("a number")
    };
    let usual = seconds("");
    assert!(seconds("--straggler 3:20ms") > usual + 15_000.0);
    assert!(seconds("--slow-link 2:3:10") > 3.0 * usual);
    assert!((seconds("--slow-link 2:5:10") - usual).abs() < 1e-6, "a ring does not use that link");
}

#[test]
fn predictions_over_ranks_are_drawn() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("scaling.svg");
    let output = plan("simulate all_reduce barrier -n 2,16,64 --per-host 2 --bytes 1KiB --svg")
        .arg(&path)
        .output()
        .expect("the program starts");
    assert!(output.status.success(), "{output:?}");
    let svg = fs::read_to_string(path).expect("a drawing");
    assert!(svg.contains("all_reduce, 1 KiB, over ranks") && svg.contains("barrier over ranks"));
}

#[test]
fn a_choice_has_a_reason_and_runners_up() {
    insta::assert_snapshot!(good("choose all_reduce --bytes 1MiB -n 12 --hosts 3"));
}

#[test]
fn a_choice_can_be_made_by_the_environment() {
    let output = plan("choose all_reduce --bytes 8 -n 8")
        .env("CONSORT_ALGORITHM", "ring")
        .output()
        .expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains("8 hosts: ring\n  because it was asked for; otherwise doubling"),
        "{text}"
    );
}

#[test]
fn what_does_not_exist_is_refused_with_what_does() {
    let cases = [
        ("show allreduce", "choose all_reduce, reduce_scatter"),
        ("show all_reduce --algorithm rings", "choose flat, ring, pairwise"),
        ("show gather --algorithm ring", "these do: flat, binomial"),
        ("show gather --root 4 -n 4", "give --root from 0 to 3"),
        ("show gather --rank 4 -n 4", "give --rank from 0 to 3"),
        ("show gather -n 100", "show one of them with --rank"),
        ("show gather -n 4 --hosts 5", "give --hosts from 1 to 4"),
        ("check gather --algorithm ring", "these do: flat, binomial"),
        ("simulate --network 56g", "choose 25g, 100g"),
        ("simulate --alpha 5", "as in 5us"),
        ("simulate --beta 25", "as in 25Gbit"),
        ("simulate --slow-link 1:2", "as in 0:5:10"),
        ("simulate --slow-link 1:9:2", "numbered from 0 to 7"),
        ("simulate --straggler 8:1ms", "numbered from 0 to 7"),
        ("choose barriers", "choose all_reduce"),
    ];
    for (line, hint) in cases {
        let text = refused(line);
        assert!(text.contains(hint), "{line}: {text}");
    }
}
