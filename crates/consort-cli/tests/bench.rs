//! `consort bench` with real ranks, and with peers that are scripts.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and so do its parts")]

use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use consort_sys::dtype::Dtype;
use serde_json::Value;

fn bench(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_consort"));
    command.arg("bench").args(line.split_ascii_whitespace()).stdin(Stdio::null());
    command
}

fn run(line: &str) -> Output {
    bench(line).output().unwrap()
}

fn records(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{output:?}");
    let lines = std::str::from_utf8(&output.stdout).unwrap().lines();
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A peer that takes `micros` for everything, with as many answers as it is allowed to give.
fn fake_peer(folder: &Path, name: &str, micros: f64, answers: u32) {
    let script = format!(
        r#"#!/bin/sh
echo '{{"ready":"{name}"}}'
left={answers}
while [ $left -gt 0 ] && read op dtype reduce bytes seconds place; do
    left=$((left - 1))
    printf '{{"impl":"{name}","transport":"shm","op":"%s","dtype":"%s","ranks":%s,"bytes":%s,' \
        $op $dtype $1 $bytes
    echo '"p50_us":{micros},"p99_us":1,"min_us":1,"algbw_GBs":1,"busbw_GBs":1}}'
done
"#
    );
    let path = folder.join(name);
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
}

/// Everything there is, in the order of the operations.
#[test]
fn every_operation_is_measured_and_checked() {
    let settings =
        [(2, "", &[][..]), (3, "--in-place", &["in_place"]), (2, "--symmetric", &["symmetric"])];
    for (ranks, more, told) in settings {
        let line = format!("all -n {ranks} --bytes 8,1KiB,100000 --seconds 0.01 --json {more}");
        let records = records(&run(&line));
        let mut ops: Vec<&str> = records.iter().map(|it| it["op"].as_str().unwrap()).collect();
        ops.dedup();
        assert_eq!(ops.join(" "), OPS);
        assert_eq!(records.len(), 9 * 3 + 1);
        for record in &records {
            assert_eq!(record["impl"], "consort");
            assert_eq!(record["transport"], "shm");
            assert_eq!(record["ranks"], ranks);
            let time = |figure: &str| record[figure].as_f64().unwrap();
            assert!(0.0 < time("min_us") && time("min_us") <= time("p50_us"), "{record}");
            assert!(time("p99_us") > 0.0, "{record}");
            let fixed =
                ["broadcast", "send_recv", "barrier"].contains(&record["op"].as_str().unwrap());
            for field in ["in_place", "symmetric", "huge_pages", "reduce"] {
                let is_told = told.contains(&field) && !(fixed && field == "in_place");
                assert_eq!(record.get(field).is_some(), is_told, "{field} of {record}");
            }
        }
    }
}

#[test]
fn every_dtype_can_be_measured() {
    let all = Dtype::ALL.map(|dtype| dtype.to_string()).join(",");
    let output = run(&format!("--bytes 1000 --dtype {all} --op max --seconds 0.01 --json"));
    let told = text(&output.stderr);
    // Complex numbers have no greatest.
    assert_eq!(told.matches("consort: no all_reduce of c").count(), 2, "{told}");
    assert_eq!(text(&output.stdout).matches(r#""reduce":"max""#).count(), 15, "{output:?}");

    let output = run(&format!("--bytes 1000 --dtype {all} --seconds 0.01 --json"));
    assert_eq!(records(&output).len(), Dtype::ALL.len());
}

#[test]
fn every_way_to_combine_can_be_measured() {
    for op in ["avg", "product", "min", "premul_sum:0.5"] {
        let records = records(&run(&format!("--bytes 1000 --op {op} --seconds 0.01 --json")));
        assert_eq!(records[0]["reduce"], op);
    }
    for op in ["bit_and", "bit_or", "bit_xor"] {
        let line = format!("--bytes 1000 --op {op} --dtype u8,bool --seconds 0.01 --json");
        assert_eq!(records(&run(&line)).len(), 2);
    }
}

#[test]
fn what_a_dtype_does_not_have_is_said_and_the_rest_is_measured() {
    let output = run("--bytes 64 --dtype c64,f32 --op max --seconds 0.01 --json");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no all_reduce of c64: c64 has no max"), "{output:?}");
    assert!(text(&output.stdout).contains(r#""dtype":"f32""#), "{output:?}");
}

#[test]
fn peers_are_measured_in_turn_and_compared() {
    let folder = tempfile::tempdir().unwrap();
    fake_peer(folder.path(), "slow", 5e6, 100);
    fake_peer(folder.path(), "slower", 9e6, 100);
    let svg = folder.path().join("plot.svg");
    let output = bench("all_reduce barrier --bytes 8,1KiB --seconds 0.01 --rounds 2")
        .args(["--against", "slow,slower", "--peers"])
        .arg(folder.path())
        .arg("--plot")
        .arg(&svg)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let table = text(&output.stdout);
    for part in ["all_reduce f32 sum, 2 ranks, shm", "5,000,000", "9,000,000", "ratio", "c consort"]
    {
        assert!(table.contains(part), "{part} in {table}");
    }
    assert!(!table.contains('\x1b'), "colours are for terminals");
    assert!(fs::read_to_string(svg).unwrap().contains("all_reduce f32, 2 ranks: median"));
}

#[test]
fn a_peer_that_ends_is_left_out_and_the_rest_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    fake_peer(folder.path(), "brief", 7.0, 1);
    let unready = folder.path().join("unready");
    fs::write(&unready, "#!/bin/sh\necho run bench/setup >&2; exit 1\n").unwrap();
    fs::set_permissions(&unready, fs::Permissions::from_mode(0o700)).unwrap();
    let output =
        bench("--bytes 8,64,1KiB --seconds 0.01 --rounds 1 --json --against brief,unready")
            .arg("--peers")
            .arg(folder.path())
            .output()
            .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let (lines, errors) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(lines.matches(r#""impl":"brief""#).count(), 1, "{lines}");
    assert_eq!(lines.matches(r#""impl":"consort""#).count(), 3, "{lines}");
    assert!(errors.contains("unready: ended with exit status: 1\n    run bench/setup"), "{errors}");
    assert!(errors.contains("brief: ended with exit status: 0"), "{errors}");
}

/// One of the two processes that show what sockets can do.
struct End {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl End {
    fn start(port: &Value) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_consort"));
        command.arg("__bench_raw").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut end = Self { process, lines };
        end.tell(&serde_json::json!({ "port": port, "asker": std::process::id() }));
        end
    }

    fn tell(&mut self, what: &Value) {
        writeln!(self.process.stdin.as_mut().unwrap(), "{what}").unwrap();
    }

    fn hear(&mut self) -> Value {
        serde_json::from_str(&self.lines.next().unwrap().unwrap()).unwrap()
    }
}

#[test]
fn bare_sockets_are_timed_over_any_number_of_streams() {
    let mut first = End::start(&Value::Null);
    let port = first.hear()["port"].clone();
    let mut ends = [first, End::start(&port)];
    ends.iter_mut().for_each(|end| assert_eq!(end.hear()["port"], port));
    for (streams, bytes) in [(1, 0), (4, 8), (1, 1 << 20), (4, 1_000_003)] {
        let task = serde_json::json!({ "streams": streams, "bytes": bytes, "seconds": 0.01 });
        ends.iter_mut().for_each(|end| end.tell(&task));
        let [one, other] = ends.each_mut().map(End::hear);
        assert_eq!(one["calls"], other["calls"]);
        let blocks = |samples: &Value| samples["blocks"].as_array().unwrap().len();
        assert!(blocks(&one) >= 5 && blocks(&one) == blocks(&other), "{one}");
    }
    for mut end in ends {
        drop(end.process.stdin.take());
        assert!(end.process.wait().unwrap().success());
    }
}

#[test]
fn over_tcp_every_operation_is_measured_beside_bare_sockets() {
    let records = records(&run("all -n 2 --transport tcp --bytes 1000 --seconds 0.01 --json"));
    let of =
        |name: &str| -> Vec<&Value> { records.iter().filter(|it| it["impl"] == name).collect() };
    let ours = of("consort");
    for op in OPS.split_ascii_whitespace() {
        assert!(ours.iter().any(|it| it["op"] == op), "{op} was not measured");
    }
    for record in &records {
        assert_eq!(record["transport"], "tcp", "{record}");
        assert!(record["p50_us"].as_f64().unwrap() > 0.0, "{record}");
    }
    assert!(records.len() > ours.len(), "nobody measured the sockets themselves");
}

#[test]
fn ranks_on_several_hosts_are_compared_with_tcp_between_all_of_them() {
    let output = run("all_reduce barrier -n 4 --hosts 2 --bytes 1KiB --seconds 0.02 --json");
    if text(&output.stderr).contains("--hosts needs root") {
        return consort_testkit::skip(text(&output.stderr));
    }
    let records = records(&output);
    let names = |op: &str| -> Vec<&str> {
        let of_op = records.iter().filter(|it| it["op"] == op);
        of_op.map(|it| it["impl"].as_str().unwrap()).collect()
    };
    for op in ["all_reduce", "barrier"] {
        let names = names(op);
        assert_eq!(names.len(), 2, "{names:?}");
        assert_ne!(names[0], names[1]);
    }
    assert!(records.iter().all(|it| it["hosts"] == 2 && it["ranks"] == 4), "{records:?}");
}

#[test]
fn hosts_that_make_no_sense_are_refused() {
    for (line, part) in [
        ("-n 1 --hosts 2", "1 ranks are too few for 2 hosts"),
        ("-n 2 --hosts 2 --transport shm", "hosts share no memory"),
        ("-n 2 --hosts 2 --against gloo", "peers stay on this host"),
    ] {
        let output = run(line);
        assert_eq!(output.status.code(), Some(2), "{line}: {output:?}");
        assert!(text(&output.stderr).contains(part), "{line}: {output:?}");
    }
}

#[test]
fn wrong_usage_is_exit_code_2() {
    let output = run("allreduce");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("choose some of all_reduce"), "{output:?}");
}

#[test]
fn what_makes_no_sense_is_one_line_before_anything_starts() {
    for (line, part) in [
        ("--transport tcp --symmetric", "consort: symmetric memory is that of one host"),
        ("--op bit_xor", "consort: no all_reduce of f32: f32 has no bit_xor"),
        ("--plot /nonexistent/x.svg", "consort: cannot write /nonexistent/x.svg: No such file"),
        ("--against nosuch", "consort: there is no peer \"nosuch\""),
    ] {
        let output = run(line);
        let told = text(&output.stderr);
        assert_eq!((output.status.code(), told.lines().count()), (Some(2), 1), "{line}: {told}");
        assert!(told.starts_with(part), "{line}: {told}");
        assert!(output.stdout.is_empty(), "{line}: {output:?}");
    }
}

#[test]
fn what_is_measured_otherwise_is_said() {
    let output = run("broadcast --bytes 7 --op max --seconds 0.01");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let told = text(&output.stderr);
    assert!(told.contains("consort: --op max is ignored"), "{told}");
    assert!(told.contains("7 B to 4 B (broadcast f32)"), "{told}");
}

#[test]
fn what_cannot_be_written_is_no_success() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output =
        bench("--json all_reduce -n 1 --bytes 8 --seconds 0.01").stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("cannot write what was measured"), "{said}");
}

#[test]
fn more_ranks_than_cores_finish_promptly() {
    let records = records(&run("all_reduce barrier -n 8 --bytes 1KiB --seconds 0.05 --json"));
    assert_eq!(records.len(), 2);
}

const OPS: &str = "all_reduce broadcast reduce all_gather reduce_scatter gather scatter all_to_all \
                   send_recv barrier";
