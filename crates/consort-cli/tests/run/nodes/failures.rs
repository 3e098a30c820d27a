//! Ranks that fail on one of several hosts.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;
use std::{env, process, thread};

use crate::cluster::Cluster;
use crate::launch::{Finished, Launch, wait_until};
use crate::program::program;

#[test]
fn a_failure_ends_every_host_and_all_report_it() {
    let Some(cluster) = Cluster::new(2) else { return };
    for failing in [0, 1] {
        let script = format!(
            "echo ready; [ $RANK = {} ] && echo last words >&2 && exit 7; exec sleep 600",
            failing * 2 + 1
        );
        let options = ["--nnodes", "2", "-n", "2"];
        let runs = [0, 1].map(|host| cluster.launch(host, &options, &script));
        for run in runs.map(Launch::finish_cleanly) {
            let rank = failing * 2 + 1;
            let said = [
                &format!("rank {rank} failed: exit code 7"),
                &format!("on host box{failing} (local rank 1)"),
                "│ last words",
            ];
            assert_reports(&run, 7, &said);
        }
    }
}

#[test]
fn the_first_failure_is_reported_when_ranks_of_other_hosts_follow() {
    let program = program(|| {
        let variable = |name: &str| env::var(name).unwrap();
        let place = format!("{}:{}", variable("MASTER_ADDR"), variable("MASTER_PORT"));
        if variable("RANK") == "0" {
            let (mut peer, _) = TcpListener::bind(place).unwrap().accept().unwrap();
            let _ = peer.read(&mut [0]);
            // No real program takes less to find out and say why it ends.
            thread::sleep(Duration::from_millis(50));
            eprintln!("lost rank 1");
            process::exit(1);
        }
        let connect = || TcpStream::connect(&place).ok();
        let _peer = wait_until("rank 0 to listen", connect);
        eprintln!("no more data");
        thread::sleep(Duration::from_millis(100));
        process::exit(3);
    });
    let Some(cluster) = Cluster::new(2) else { return };
    for _ in 0..5 {
        let runs = [0, 1].map(|host| cluster.launch_program(host, &["--nnodes", "2"], &program));
        for run in runs.map(Launch::finish_cleanly) {
            assert_reports(&run, 3, &["rank 1 failed: exit code 3", "on host box1", "│ no more"]);
        }
    }
}

#[test]
fn a_failure_on_one_host_starts_the_ranks_of_all_again() {
    let Some(cluster) = Cluster::new(2) else { return };
    // None is ended before it has begun.
    let script = "echo start $TORCHELASTIC_RESTART_COUNT round $CONSORT_EPOCH at $MASTER_PORT; \
                  [ $TORCHELASTIC_RESTART_COUNT = 1 ] && exit 0; : >$SHARED/begun-$RANK; \
                  [ $RANK = 2 ] || exec sleep 600; \
                  for rank in 0 1 3; do until [ -e $SHARED/begun-$rank ]; do sleep 0.01; done; done; \
                  exit 5";
    let options = ["--nnodes", "2", "-n", "2", "--max-restarts", "1"];
    let runs = [0, 1].map(|host| cluster.launch(host, &options, script));
    let [a, b] = runs.map(Launch::finish_cleanly);
    for (run, ranks) in [(&a, [0, 1]), (&b, [2, 3])] {
        assert_eq!(run.code, 0, "{run:?}");
        for (rank, start) in [(ranks[0], 0), (ranks[1], 0), (ranks[0], 1), (ranks[1], 1)] {
            let line = format!("[{rank}] start {start} round {start} at ");
            assert!(run.stdout.contains(&line), "{line} in {run:?}");
        }
    }
    let elsewhere = format!("a rank failed on {}; starting again", cluster.shown(1));
    assert!(a.stderr.contains(&elsewhere), "{a:?}");
    assert!(b.stderr.contains("rank 2 failed: exit code 5; starting again (1 of 1)"), "{b:?}");
}

#[test]
fn a_program_that_is_on_one_host_only_is_that_hosts_failure() {
    let Some(cluster) = Cluster::new(2) else { return };
    let runs = [(0, "sleep 600"), (1, "./no-such-program")].map(|(host, program)| {
        cluster.launch_program(host, &["--nnodes", "2"], program.split(' '))
    });
    for run in runs.map(Launch::finish_cleanly) {
        assert_reports(&run, 127, &["rank 1 failed: exit code 127", "on host box1"]);
    }
}

fn assert_reports(run: &Finished, code: i32, said: &[&str]) {
    assert_eq!(run.code, code, "{run:?}");
    assert_eq!(run.stderr.matches(" failed: ").count(), 1, "one failure is reported: {run:?}");
    for words in said {
        assert!(run.stderr.contains(words), "{words:?} in {run:?}");
    }
}
