//! `consort bench ddp` with real ranks, with PyTorch, and with peers that are scripts.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and so do its parts")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use consort_testkit::{Skip, skip};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn ddp(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_consort"));
    command.args(["bench", "ddp"]).args(line.split_ascii_whitespace()).stdin(Stdio::null());
    command
}

fn run(line: &str) -> Output {
    ddp(line).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn records(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{output:?}");
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What the figures of a record have to be, however fast anything is.
fn assert_sound(record: &Value) {
    let figure = |name: &str| record[name].as_f64().unwrap_or_else(|| panic!("{name}: {record}"));
    let times = ["step_ms", "alone_ms", "step_min_ms", "alone_min_ms", "first_ms", "tenth_ms"];
    for name in times.iter().chain(&["step_cpu_ms", "alone_cpu_ms"]) {
        assert!(figure(name) > 0.0, "{name}: {record}");
    }
    assert!(figure("step_min_ms") <= figure("step_ms"), "{record}");
    assert!(figure("alone_min_ms") <= figure("alone_ms"), "{record}");
    let difference = figure("step_ms") - figure("alone_ms");
    assert!((figure("exposed_ms") - difference).abs() < 1e-3, "{record}");
    assert!(figure("communication_ms") > 0.0, "{record}");
    assert!(figure("hidden_ms") <= figure("communication_ms"), "{record}");
}

/// A peer whose steps take 3 ms together and 1 ms alone, all of which it computes, with as many answers as it is allowed to give.
fn fake_peer(folder: &Path, name: &str, answers: u32) {
    let script = format!(
        r#"#!/bin/sh
echo "{{\"ready\":\"{name} $*\"}}"
left={answers}
while [ $left -gt 0 ] && read steps; do
    left=$((left - 1))
    together='[0,3000000,3000000]' alone='[0,1000000,1000000]'
    while [ $steps -gt 1 ]; do
        steps=$((steps - 1)) together="$together,[0,3000000,3000000]" alone="$alone,[0,1000000,1000000]"
    done
    echo "{{\"ranks\":[{{\"together\":[$together],\"alone\":[$alone]}}]}}"
done
"#
    );
    program(folder, name, &script);
}

fn program(folder: &Path, name: &str, script: &str) {
    let path = folder.join(name);
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn what_communication_adds_is_measured_for_both_models() {
    let records = records(&run(&format!("{TINY} --json")));
    let told: Vec<String> = records
        .iter()
        .map(|it| {
            let [model, name, transport] = ["model", "impl", "transport"].map(|key| &it[key]);
            format!("{model} {name} {transport} {} {}", it["tensors"], it["parameters"])
        })
        .collect();
    let expected = [
        r#""mlp" "consort" "shm" 6 816"#, // 3 layers of 16 x 16 and 16
        r#""small" "consort" "shm" 10 20800"#,
    ];
    assert_eq!(told, expected);
    for record in &records {
        assert_sound(record);
        assert_eq!((&record["op"], &record["ranks"]), (&"ddp".into(), &2.into()), "{record}");
        // Two rounds of three steps, of which the first does not count.
        assert_eq!((&record["batch"], &record["steps"]), (&4.into(), &4.into()), "{record}");
    }
}

#[test]
fn a_table_says_what_was_trained_and_how_long_it_took() {
    let output = run(&format!("mlp --threads 1 {TINY}"));
    assert!(output.status.success(), "{output:?}");
    let table = text(&output.stdout);
    let lines: Vec<&str> = table.trim_start().lines().collect();
    let heading = "mlp: 6 tensors of 816 parameters, batch 4; 2 ranks with 1 thread each, shm; ms";
    assert_eq!(lines[0], heading);
    let columns: Vec<&str> = lines[1].split_whitespace().collect();
    assert_eq!(columns, ["step", "alone", "exposed", "cpu", "hidden", "first", "tenth"]);
    let row: Vec<&str> = lines[2].split_whitespace().collect();
    assert_eq!((row[0], lines.len()), ("consort", 3));
    assert!(row[1].parse::<f64>().unwrap() > 0.0, "{table}");
    assert!(!table.contains('\x1b') && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn three_ranks_train_over_tcp() {
    let records = records(&run(&format!("small -n 3 --transport tcp --json {TINY}")));
    assert_eq!(records.len(), 1);
    assert_eq!((&records[0]["ranks"], &records[0]["transport"]), (&3.into(), &"tcp".into()));
    assert_sound(&records[0]);
}

#[test]
fn pytorch_trains_the_same_model_in_turn() {
    if let Err(reason) = torch() {
        return skip(reason);
    }
    let records = records(&run(&format!("small --against torch,torch-views --json {TINY}")));
    let names: Vec<&str> = records.iter().map(|it| it["impl"].as_str().unwrap()).collect();
    assert_eq!(names, ["consort", "torch", "torch-views"]);
    records.iter().for_each(assert_sound);
    for field in ["model", "tensors", "parameters", "batch", "ranks", "threads", "steps"] {
        assert!(records.iter().all(|it| it[field] == records[0][field]), "{field} of {records:?}");
    }
}

#[test]
fn a_peer_is_told_what_to_train_and_compared() {
    let folder = tempfile::tempdir().unwrap();
    fake_peer(folder.path(), "fake", 100);
    let mut command = ddp(&format!("mlp -n 3 --threads 2 {TINY} --against fake --peers"));
    let output = command.arg(folder.path()).env("CONSORT_LOG", "info").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let (table, log) = (text(&output.stdout), text(&output.stderr));
    assert!(log.contains("fake 3 2 3 16 4"), "{log}");
    let row: Vec<&str> = table.lines().last().unwrap().split_whitespace().collect();
    assert_eq!(row[..8], ["fake", "3.00", "1.00", "2.00", "2.00", "–", "3.00", "3.00"], "{table}");
    assert!(table.contains("ratio"), "{table}");
}

#[test]
fn a_peer_that_ends_is_left_out_and_ours_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    fake_peer(folder.path(), "brief", 2);
    program(folder.path(), "unready", "#!/bin/sh\necho run bench/setup torch >&2; exit 3\n");
    let mut command = ddp(&format!("mlp {TINY} --json --against brief,unready --peers"));
    let output = command.arg(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let (lines, errors) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(lines.lines().count(), 1, "{lines}");
    assert!(lines.contains(r#""impl":"consort""#), "{lines}");
    let unready = "mlp: unready: ended with exit status: 3\n    run bench/setup torch";
    assert!(errors.contains(unready), "{errors}");
    assert!(errors.contains("mlp: brief: ended with exit status: 0"), "{errors}");
}

#[test]
fn a_peer_whose_ranks_differ_is_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    let answer =
        r#"{"ranks":[{"together":[[0,1,1]],"alone":[[0,1,1]]},{"together":[],"alone":[]}]}"#;
    let script =
        format!("#!/bin/sh\necho '{{\"ready\":\"x\"}}'\nwhile read n; do echo '{answer}'; done\n");
    program(folder.path(), "odd", &script);
    let mut command = ddp(&format!("mlp {TINY} --against odd --peers"));
    let output = command.arg(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let errors = text(&output.stderr);
    assert!(errors.contains("odd: the ranks have not made the same steps"), "{errors}");
}

#[test]
fn a_rank_that_dies_is_named() {
    let mut command = ddp(&TINY.replace("--steps 3", "--steps 100000"));
    command.env("CONSORT_LOG", "info").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut bench = command.spawn().unwrap();
    let mut log = BufReader::new(bench.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("round 1 of") {
        line.clear();
        assert!(log.read_line(&mut line).unwrap() > 0, "it ended before it had begun");
    }
    let ranks = ranks_of(bench.id());
    assert_eq!(ranks.len(), 2);
    // Between questions it sleeps, so now it trains.
    let before = ticks(ranks[1]);
    while ticks(ranks[1]) < before + 5 {
        thread::sleep(Duration::from_millis(1));
    }
    kill_process(ranks[1], Signal::KILL).unwrap();

    let mut errors = String::new();
    log.read_to_string(&mut errors).unwrap();
    assert_eq!(bench.wait().unwrap().code(), Some(1), "{errors}");
    let killed = [0, 1].map(|rank| errors.contains(&format!("rank {rank}: ended with signal: 9")));
    let [dead, survivor] = if killed[0] { [0, 1] } else { [1, 0] };
    assert!(killed[dead] && !killed[survivor], "{errors}");
    // Its last words are why it could not go on.
    let words = errors.split(&format!("rank {survivor}: ended with exit status: 1")).nth(1);
    assert!(words.is_some_and(|words| words.contains(&format!("rank {dead}"))), "{errors}");
    assert!(ranks_of(bench.id()).is_empty(), "a rank was left behind");
}

/// The ranks that a process has started.
fn ranks_of(parent: u32) -> Vec<Pid> {
    let is_rank = |pid: &Pid| {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline"));
        let its_parent = stat(*pid).map(|fields| fields[1] == parent.to_string());
        its_parent.unwrap_or(false) && line.is_ok_and(|it| it.contains("__bench_ddp_rank"))
    };
    let numbers = fs::read_dir("/proc").unwrap();
    let numbers = numbers.filter_map(|it| it.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let mut ranks: Vec<Pid> = numbers.filter_map(Pid::from_raw).filter(is_rank).collect();
    ranks.sort_unstable_by_key(|rank| rank.as_raw_pid());
    ranks
}

/// How long a process has computed.
fn ticks(process: Pid) -> u64 {
    stat(process).unwrap()[11].parse().unwrap()
}

/// What the kernel says of a process, behind its name.
fn stat(process: Pid) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let fields = stat.rsplit(')').next()?.split_whitespace();
    Some(fields.map(str::to_owned).collect())
}

#[test]
fn wrong_usage_is_exit_code_2_before_anything_starts() {
    for (line, part) in [
        ("large", "possible values: mlp, small"),
        ("--tensors 3", "an even number"),
        ("--steps 1", "1 is not in 2..=100000"),
        ("--batch 0", "0 is not in 1..=65536"),
        ("--against nosuch", "there is no peer \"nosuch\""),
        ("--against torch --peers /nonexistent", "/nonexistent: No such file"),
        ("--bytes 8", "unexpected argument '--bytes'"),
    ] {
        let output = run(line);
        assert_eq!(output.status.code(), Some(2), "{line}: {output:?}");
        assert!(text(&output.stderr).contains(part), "{line}: {output:?}");
        assert!(output.stdout.is_empty(), "{line}: {output:?}");
    }
}

#[test]
fn the_help_says_what_is_measured_and_how_to_get_peers() {
    let help = text(&run("--help").stdout);
    for part in ["bench/setup torch", "exposed", "earliest start", "hidden_ms", "--tensors"] {
        assert!(help.contains(part), "{part} in {help}");
    }
    let bench = Command::new(env!("CARGO_BIN_EXE_consort")).args(["bench", "--help"]).output();
    assert!(text(&bench.unwrap().stdout).contains("consort bench ddp"));
}

/// PyTorch under `target/`, installed if it is not there yet. What cannot be had on somebody's own
/// machine is skipped; where the tests decide, it has to be there.
fn torch() -> Result<(), Skip> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let made = Command::new(root.join("tools/torch")).output();
    let made = made.unwrap();
    if made.status.success() {
        return Ok(());
    }
    let reason = String::from_utf8_lossy(&made.stderr).into_owned();
    assert!(std::env::var_os("CI").is_none(), "torch could not be installed: {reason}");
    Err(Skip::new(format!("torch could not be installed: {reason}")))
}

/// Models that even a debug build trains in a moment.
const TINY: &str = "--layers 3 --width 16 --tensors 10 --batch 4 --steps 3 --rounds 2";
