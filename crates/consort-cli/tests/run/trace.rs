//! `consort trace` and `consort top` on jobs that run, stand still or have died.

use std::fs;
use std::process::{self, Command, Output};

use consort::{Group, ReduceOp};
use rustix::process::{Signal, getpid, kill_process};
use serde_json::Value;

use super::launch::{Launch, RECORDS, wait_until};
use super::program::program;

#[test]
fn a_job_that_stands_still_says_for_whom() {
    let program = program(|| {
        let group = consort::init().unwrap();
        make_calls(&group, 5);
        if group.rank() == 1 {
            wait_until("the test to have seen it", || fs::exists("go").unwrap().then_some(()));
        }
        let work = || group.all_reduce_async(vec![1.0_f32; 4], ReduceOp::Sum).unwrap();
        let works = [work(), work(), work()];
        works.into_iter().for_each(|work| drop(work.wait().unwrap()));
    });
    let launch = launch(&["-n", "3"], &program);
    let behind = "behind: rank 1 did not come to call 6 of world (all_reduce(sum) of 4 f32), where \
                  ranks 0, 2 came; last call: rank 1 at 5";
    let text = trace_until(&launch, &["2 more queued", "waits for rank 1", behind]);
    assert!(text.contains("3 ranks, 3 alive here"), "{text}");
    assert!(text.contains("rank 1    alive  call 5 of world ended "), "{text}");
    assert!(text.contains("all_reduce(sum) of 4 f32; waits for rank 1"), "{text}");
    assert!(text.contains("others waited for"), "{text}");

    let job = job_of(&launch);
    let list = told(&consort(&launch, &["trace"]));
    assert!(list.contains(&format!("  {job}  running")), "{list}");
    let found: Value =
        serde_json::from_str(&told(&consort(&launch, &["trace", &job, "--json"]))).unwrap();
    assert_eq!(found["findings"][0]["missing"][0]["rank"], 1, "{found}");
    assert_eq!(found["ranks"][0]["groups"][0]["last"]["waits_for"], 1, "{found}");

    let top = told(&consort(&launch, &["top", &job[..6], "--once", "--interval", "200ms"]));
    let lines: Vec<&str> = top.lines().collect();
    assert!(lines[0].contains("running: 3 of 3 ranks alive here"), "{top}");
    assert!(lines[3].trim_start().starts_with("1 "), "who is awaited comes first: {top}");
    assert!(lines[4].contains("in call 6 of world for "), "{top}");

    let told = consort(&launch, &["trace", &job, "--perfetto", "calls.json"]);
    assert!(told.status.success(), "{told:?}");
    let events = fs::read(launch.directory().join("calls.json")).unwrap();
    check_slices(&serde_json::from_slice(&events).unwrap());

    launch.touch("go");
    let records = launch.directory().join(RECORDS);
    let left = || fs::read_dir(&records).unwrap().count() == 0;
    wait_until("the records to be removed", || left().then_some(()));
    assert_eq!(launch.finish_cleanly().code, 0);
}

#[test]
fn a_trace_in_detail_says_where_calls_are_made_and_how_long_they_reduce() {
    let program = program(|| {
        let group = consort::init().unwrap();
        group.all_reduce(&mut vec![1.0_f32; 1 << 18], ReduceOp::Sum).unwrap();
        if group.rank() == 1 {
            wait_until("the test to have seen it", || fs::exists("go").unwrap().then_some(()));
        }
        group.barrier().unwrap();
    });
    let launch = launch(&["-n", "2", "--debug", "detail"], &program);
    launch.await_notices(2, "group world is formed: rank ");
    let behind = "behind: rank 1 did not come to call 2 of world (barrier at ";
    let text = trace_until(&launch, &["in call 2 of world for ", "waits for rank 1", behind]);
    assert!(text.contains("all_reduce(sum) of 262144 f32 at "), "{text}");
    assert_eq!(text.matches("tests/run/trace.rs:").count(), 3, "{text}");
    let job = job_of(&launch);
    let found: Value =
        serde_json::from_str(&told(&consort(&launch, &["trace", &job, "--json"]))).unwrap();
    let of_rank = &found["ranks"][1]["groups"][0];
    assert!(of_rank["last"]["site"].as_str().unwrap().contains("trace.rs:"), "{found}");
    let [busy, reducing] = ["busy_ns", "reducing_ns"].map(|name| of_rank[name].as_u64().unwrap());
    assert!(reducing > 0 && reducing <= busy, "{found}");
    told(&consort(&launch, &["trace", &job, "--perfetto", "calls.json"]));
    let events = fs::read_to_string(launch.directory().join("calls.json")).unwrap();
    assert_eq!(events.matches(r#""name":"reducing""#).count(), 2, "{events}");
    launch.touch("go");
    assert_eq!(launch.finish_cleanly().code, 0);
}

#[test]
fn a_killed_rank_is_behind_and_what_it_did_last_is_known() {
    let program = program(|| {
        let group = consort::init().unwrap();
        make_calls(&group, 7);
        if group.rank() == 2 {
            wait_until("the test to have seen it", || fs::exists("go").unwrap().then_some(()));
            kill_process(getpid(), Signal::KILL).unwrap();
        }
        group.barrier().unwrap_err();
        process::exit(3);
    });
    let mut launch = launch(&["-n", "3", "--transport", "tcp"], &program);
    let behind = "behind: rank 2 did not come to call 8 of world (barrier), where ranks 0-1 came";
    trace_until(&launch, &[behind, "waits for rank 2"]);
    launch.touch("go");
    let finished = launch.wait();
    assert_eq!(finished.code, 128 + 9, "{finished:?}");
    let line = finished.stderr.lines().find(|line| line.starts_with("consort: consort trace "));
    let line = line.unwrap_or_else(|| panic!("{finished:?}"));
    let job = line.split(' ').nth(3).unwrap();
    let text = told(&consort(&launch, &["trace", job]));
    assert!(text.contains("3 ranks, 0 alive here; last word "), "{text}");
    assert!(text.contains("rank 2    dead   call 7 of world ended "), "{text}");
    assert!(text.contains(behind), "{text}");
    let list = told(&consort(&launch, &["trace"]));
    assert!(list.contains(&format!("  {job}  ended")), "{list}");
}

#[test]
fn a_rank_that_skips_a_call_is_shown_beside_the_others() {
    let program = program(|| {
        let group = consort::init().unwrap();
        make_calls(&group, 2);
        let skips = group.rank() == 1;
        let failed =
            (!skips).then(|| group.broadcast(&mut [1_u8; 3], 0)).is_some_and(|it| it.is_err());
        assert!(failed || group.barrier().is_err());
        process::exit(4);
    });
    let mut launch = launch(&["-n", "3"], &program);
    assert_eq!(launch.wait().code, 4);
    let text = told(&consort(&launch, &["trace", &job_of(&launch)]));
    let differs = "differs: call 3 of world is the first that differs\n  rank";
    assert!(text.contains(differs), "{text}");
    assert!(text.contains("rank 1: barrier\n"), "{text}");
    assert!(text.contains(": broadcast of 3 u8, root 0\n"), "{text}");
}

#[test]
fn a_wrong_name_is_told_what_there_is() {
    let scratch = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_consort"));
        command.args(args).env("CONSORT_TRACE_DIR", scratch.path()).output().unwrap()
    };
    for subcommand in ["trace", "top"] {
        let refused = run(&[subcommand, "nosuch"]);
        let words = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{words}");
        assert!(
            words.contains("there is no job, folder or file nosuch\nno job of yours"),
            "{words}"
        );
    }
    fs::write(scratch.path().join("rank-0"), "rubbish").unwrap();
    let refused = run(&["trace", scratch.path().to_str().unwrap()]);
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(words.contains("rank-0: it is not the record of a rank"), "{words}");
    assert_eq!(refused.status.code(), Some(1));
}

fn launch(options: &[&str], program: &[String]) -> Launch {
    let program = program.iter().map(String::as_str);
    Launch::new(options.iter().copied().chain(["--"]).chain(program))
}

fn make_calls(group: &Group, count: usize) {
    for _ in 0..count {
        group.all_reduce(&mut [1.0_f32; 4], ReduceOp::Sum).unwrap();
    }
}

/// Runs another subcommand as the user of this launch would.
fn consort(launch: &Launch, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_consort"));
    command.args(args).current_dir(launch.directory());
    command.env("CONSORT_TRACE_DIR", launch.directory().join(RECORDS)).output().unwrap()
}

fn told(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// What is said of the job once it has all these parts.
fn trace_until(launch: &Launch, parts: &[&str]) -> String {
    wait_until(&parts.join(" and "), || {
        let folders = fs::read_dir(launch.directory().join(RECORDS)).ok()?;
        folders.flatten().next()?;
        let output = consort(launch, &["trace", &job_of(launch)]);
        let text = String::from_utf8(output.stdout).unwrap();
        parts.iter().all(|part| text.contains(part)).then_some(text)
    })
}

/// The name of the only job that has left something.
fn job_of(launch: &Launch) -> String {
    let mut folders = fs::read_dir(launch.directory().join(RECORDS)).unwrap();
    let name = folders.next().unwrap().unwrap().file_name().into_string().unwrap();
    name.rsplit_once('-').unwrap().1.to_owned()
}

/// On each line every slice is within another or beside it, and calls have their parts.
fn check_slices(events: &Value) {
    let slices = events["traceEvents"].as_array().unwrap().iter().filter(|it| it["ph"] == "X");
    let mut lines = std::collections::BTreeMap::<String, Vec<(f64, f64)>>::new();
    let mut names = Vec::new();
    for slice in slices {
        let (start, length) = (slice["ts"].as_f64().unwrap(), slice["dur"].as_f64().unwrap());
        let line = format!("{}.{}", slice["pid"], slice["tid"]);
        lines.entry(line).or_default().push((start, start + length));
        names.push(slice["name"].as_str().unwrap().to_owned());
    }
    assert_eq!(lines.len(), 3, "{events}");
    for spans in lines.values() {
        for (index, one) in spans.iter().enumerate() {
            for other in &spans[index + 1..] {
                // Times are written in microseconds, which may round.
                let beside = one.1 <= other.0 + 0.002 || other.1 <= one.0 + 0.002;
                let inside = one.0 <= other.0 + 0.002 && other.1 <= one.1 + 0.002;
                assert!(beside || inside, "{one:?} {other:?}");
            }
        }
    }
    for name in ["all_reduce", "waiting for rank 1", "moving"] {
        assert!(names.iter().any(|it| it == name), "{name} in {names:?}");
    }
}
