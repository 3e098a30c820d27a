//! `consort run --metrics`, asked as Prometheus does and as nobody should.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use consort::ReduceOp;

use super::launch::{Launch, wait_until};
use super::program::program;

#[test]
fn metrics_of_a_job_follow_what_its_ranks_do() {
    let program = program(|| {
        let group = consort::init().unwrap();
        group.all_reduce(&mut vec![1.0_f32; 1 << 18], ReduceOp::Sum).unwrap();
        wait_until("the test to have asked", || fs::exists("go").unwrap().then_some(()));
        for _ in 0..4 {
            group.barrier().unwrap();
        }
        if group.rank() == 1 {
            wait_until("the test to have asked again", || fs::exists("end").unwrap().then_some(()));
        }
        group.barrier().unwrap();
    });
    let launch = launch(&["-n", "2", "--metrics", "0"], &program);
    let address = address_of(&launch);
    assert!(address.ip().is_loopback(), "{address}");
    let calls =
        |rank, count| format!("consort_calls_total{{rank=\"{rank}\",group=\"world\"}} {count}");
    let text = await_lines(address, &[calls(0, 1), calls(1, 1)]);
    for line in [
        "consort_ranks 2",
        "consort_ranks_alive 2",
        "consort_restarts_total 0",
        "consort_rank_failures_total 0",
        "consort_rank_up{rank=\"0\"} 1",
        "consort_bytes_total{rank=\"1\",group=\"world\"} 1048576",
        "consort_failed_calls_total{rank=\"1\",group=\"world\"} 0",
        "# TYPE consort_calls_total counter",
    ] {
        assert!(text.lines().any(|it| it == line), "{line} is not in {text}");
    }
    let of = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(&format!("{name}{{rank=\"0\"")));
        line.unwrap().rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()
    };
    let (busy, reducing) = (of("consort_busy_seconds_total"), of("consort_reducing_seconds_total"));
    assert!(busy >= reducing && reducing > 0.0, "{busy} {reducing}");
    launch.touch("go");
    await_lines(address, &[calls(1, 5), waits_for(1)]);
    launch.touch("end");
    assert_eq!(launch.finish_cleanly().code, 0);
}

#[test]
fn who_talks_nonsense_or_nothing_holds_up_neither_the_job_nor_others() {
    let program = program(|| {
        let group = consort::init().unwrap();
        group.barrier().unwrap();
        wait_until("the test to be done", || fs::exists("go").unwrap().then_some(()));
        group.barrier().unwrap();
    });
    let launch = launch(&["-n", "2", "--metrics", "127.0.0.1:0"], &program);
    let address = address_of(&launch);
    let _silent = [0, 1].map(|_| TcpStream::connect(address).unwrap());
    assert!(ask(address, &[0x16; 9000]).starts_with("HTTP/1.1 400 "));
    assert!(ask(address, b"DELETE /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
    await_lines(address, &["consort_ranks_alive 2".to_owned()]);
    launch.touch("go");
    assert_eq!(launch.finish_cleanly().code, 0);
}

#[test]
fn failures_that_are_tolerated_and_restarts_are_counted() {
    let script = "while ! test -e go; do sleep 0.05; done; test $RANK = 0 && exit 3; \
                  while ! test -e end; do sleep 0.05; done; test $TORCHELASTIC_RESTART_COUNT = 1 || exit 4";
    let options = ["-n", "3", "--metrics", "0", "--tolerate", "1", "--max-restarts", "1"];
    let launch = Launch::script(&options, script);
    let address = address_of(&launch);
    let lines = |list: &[&str]| list.iter().map(|&line| line.to_owned()).collect::<Vec<_>>();
    await_lines(address, &lines(&["consort_ranks_alive 3", "consort_tolerated_failures_total 0"]));
    launch.touch("go");
    await_lines(address, &lines(&["consort_ranks_alive 2", "consort_tolerated_failures_total 1"]));
    fs::remove_file(launch.directory().join("go")).unwrap();
    launch.touch("end");
    let again = lines(&["consort_restarts_total 1", "consort_ranks_alive 3"]);
    let text = await_lines(address, &again);
    let failures =
        text.lines().find(|line| line.starts_with("consort_rank_failures_total ")).unwrap();
    assert_ne!(failures, "consort_rank_failures_total 1", "{text}");
    launch.touch("go");
    assert_eq!(launch.finish_cleanly().code, 0);
}

#[test]
fn a_port_that_cannot_be_had_is_refused_before_anything_starts() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let run = |port: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_consort"));
        command.args(["run", "--metrics", port, "--", "echo", "started"]).output().unwrap()
    };
    let refused = run(&port);
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(words.contains("give --metrics another port"), "{words}");
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(1), 0), "{words}");
    assert_eq!(run("everywhere:1").status.code(), Some(2));
}

fn launch(options: &[&str], program: &[String]) -> Launch {
    let program = program.iter().map(String::as_str);
    Launch::new(options.iter().copied().chain(["--"]).chain(program))
}

/// Where it says that metrics are.
fn address_of(launch: &Launch) -> SocketAddr {
    launch.await_notice("metrics are at http://");
    let text = launch.notices();
    let (_, rest) = text.split_once("metrics are at http://").unwrap();
    rest.split_once("/metrics").unwrap().0.parse().unwrap()
}

/// Asks until all these lines are there.
fn await_lines(address: SocketAddr, lines: &[String]) -> String {
    wait_until(&format!("{lines:?}"), || {
        let text = ask(address, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let has = |line: &String| text.lines().any(|it| it.starts_with(line.as_str()));
        (text.starts_with("HTTP/1.1 200 ") && lines.iter().all(has)).then_some(text)
    })
}

/// That rank 0 waits for this one.
fn waits_for(rank: u32) -> String {
    format!("consort_waiting_seconds{{rank=\"0\",group=\"world\",for=\"{rank}\"}} ")
}

fn ask(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // It may have been sent away in the meantime.
    let _ = stream.write_all(request);
    let mut told = Vec::new();
    let _ = stream.read_to_end(&mut told);
    String::from_utf8_lossy(&told).into_owned()
}
