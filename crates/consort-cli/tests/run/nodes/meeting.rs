//! Hosts that meet.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::UNTIL_DONE;
use crate::cluster::Cluster;
use crate::launch::{Launch, sorted_lines};

#[test]
fn hosts_meet_and_their_ranks_are_numbered_through() {
    let Some(cluster) = Cluster::new(2) else { return };
    let script = "echo $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE, \
                  $GROUP_RANK of $GROUP_WORLD_SIZE at $MASTER_ADDR:$MASTER_PORT in $CONSORT_JOB";
    let options = ["--nnodes", "2", "-n", "2"];
    let runs = [0, 1].map(|host| cluster.launch(host, &options, script));
    let [a, b] = runs.map(Launch::finish_cleanly);
    assert_eq!((a.code, b.code), (0, 0), "{a:?} {b:?}");
    let (_, same) = a.stdout.lines().next().unwrap().split_once(" at ").unwrap();
    assert!(same.starts_with(&format!("{}:", cluster.hosts.host(0).address())), "{same}");
    let line = |rank: u32| {
        let (local, node) = (rank % 2, rank / 2);
        format!("[{rank}] {rank} of 4, {local} of 2, {node} of 2 at {same}")
    };
    assert_eq!(sorted_lines(&a.stdout), [line(0), line(1)]);
    assert_eq!(sorted_lines(&b.stdout), [line(2), line(3)]);
}

#[test]
fn the_host_that_holds_the_meeting_makes_the_secret() {
    let Some(cluster) = Cluster::new(2) else { return };
    let a = cluster.launch(0, &["--nnodes", "2"], "true");
    a.await_notice("made the job's secret: copy ");
    assert_eq!(fs::metadata(cluster.secret()).unwrap().permissions().mode() & 0o777, 0o600);
    let b = cluster.launch(1, &["--nnodes", "2"], "true");
    assert_eq!((a.finish_cleanly().code, b.finish_cleanly().code), (0, 0));
}

#[test]
fn a_host_waits_for_its_copy_of_the_secret_and_says_where_to_get_it() {
    let Some(cluster) = Cluster::new(2) else { return };
    let a = cluster.launch(0, &["--nnodes", "2"], "true");
    a.await_notice("made the job's secret");
    let copy = cluster.path("copy");
    let b = cluster.launch_with_secret(1, &copy);
    let holder = cluster.hosts.host(0).address();
    b.await_notice(&format!("there is no file {}: copy it from {holder}", copy.display()));
    fs::copy(cluster.secret(), &copy).unwrap();
    assert_eq!((a.finish_cleanly().code, b.finish_cleanly().code), (0, 0));
}

#[test]
fn hosts_meet_over_ipv6() {
    let Some(cluster) = Cluster::new(2) else { return };
    let address = cluster.hosts.host(0).address_v6();
    let runs = [0, 1].map(|host| {
        let mut command = cluster.command(host);
        command.args(["--nnodes", "2", "--rdzv", &format!("tcp://[{address}]:29400")]);
        command.arg("--secret-file").arg(cluster.secret());
        command.args(["--", "sh", "-c", "echo $MASTER_ADDR $CONSORT_RDZV"]);
        Launch::command(command)
    });
    for (rank, run) in runs.map(Launch::finish_cleanly).iter().enumerate() {
        assert_eq!(run.code, 0, "{run:?}");
        assert_eq!(run.stdout, format!("[{rank}] {address} tcp://[{address}]:29400\n"));
    }
}

#[test]
fn hosts_have_the_places_they_ask_for() {
    let Some(cluster) = Cluster::new(2) else { return };
    let runs = [(0, "1"), (1, "0")].map(|(host, place)| {
        let options = ["--nnodes", "2", "--node-rank", place];
        cluster.launch(host, &options, "echo $GROUP_RANK at $MASTER_ADDR")
    });
    let [a, b] = runs.map(Launch::finish_cleanly);
    let master = cluster.hosts.host(1).address();
    assert_eq!(a.stdout, format!("[1] 1 at {master}\n"), "{a:?}");
    assert_eq!(b.stdout, format!("[0] 0 at {master}\n"), "{b:?}");
}

#[test]
fn hosts_may_run_different_numbers_of_ranks() {
    let Some(cluster) = Cluster::new(2) else { return };
    let runs = [(0, "3"), (1, "1")].map(|(host, ranks)| {
        cluster.launch(host, &["--nnodes", "2", "-n", ranks], "echo $RANK of $WORLD_SIZE")
    });
    let [a, b] = runs.map(Launch::finish_cleanly);
    assert_eq!(sorted_lines(&a.stdout), ["[0] 0 of 4", "[1] 1 of 4", "[2] 2 of 4"]);
    assert_eq!(b.stdout, "[3] 3 of 4\n");
}

#[test]
fn two_launchers_meet_in_a_file_which_is_gone_afterwards() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("meeting");
    let url = format!("file://{}", file.display());
    // Twice, for what the first leaves behind would be in the way of the second.
    for _ in 0..2 {
        let script = "echo $WORLD_SIZE $GROUP_WORLD_SIZE; stat -L -c %a $CONSORT_SECRET_FILE";
        let options = ["--nnodes", "2", "--rdzv", &url];
        let runs = [(); 2].map(|()| Launch::script(&options, script));
        let mut lines = String::new();
        for run in runs.map(Launch::finish_cleanly) {
            assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{run:?}");
            lines += &run.stdout;
        }
        assert_eq!(sorted_lines(&lines), ["[0] 2 2", "[0] 600", "[1] 2 2", "[1] 600"]);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}

#[test]
fn a_host_that_comes_later_is_taken_in() {
    let Some(cluster) = Cluster::new(2) else { return };
    let options = ["--nnodes", "1:2", "--last-call", "100ms"];
    let a = cluster.launch(0, &options, UNTIL_DONE);
    a.await_lines(1, "up 0/1 round 0");
    let b = cluster.launch(1, &options, UNTIL_DONE);
    a.await_lines(1, "up 0/2 round 1");
    b.await_lines(1, "up 1/2 round 1");
    cluster.touch("done");
    let (a, b) = (a.finish_cleanly(), b.finish_cleanly());
    assert_eq!((a.code, b.code), (0, 0), "{a:?} {b:?}");
    let came = format!("consort: {} came; starting again", cluster.shown(1));
    assert!(a.stderr.contains(&came), "{a:?}");
}
