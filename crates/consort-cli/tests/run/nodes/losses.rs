//! Hosts that go: killed, cut off, stopped or asked to.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};
use std::{env, process, thread};

use rustix::process::Signal;

use super::UNTIL_DONE;
use crate::cluster::Cluster;
use crate::launch::{Launch, wait_until};
use crate::program::program;

#[test]
fn a_killed_host_is_gone_on_without_and_a_new_one_taken_in() {
    let Some(cluster) = Cluster::new(2) else { return };
    let [a, mut b] = elastic(&cluster);
    b.signal(Signal::KILL);
    b.await_nothing_left();
    assert_eq!(b.wait().code, 128 + 9);
    a.await_lines(1, "up 0/1");
    let new = cluster.launch(1, &ELASTIC, UNTIL_DONE);
    a.await_lines(2, "up 0/2");
    new.await_lines(1, "up 1/2");
    cluster.touch("done");
    let (a, new) = (a.finish_cleanly(), new.finish_cleanly());
    assert_eq!((a.code, new.code), (0, 0), "{a:?} {new:?}");
    let silent = format!("{} has not been heard of for", cluster.shown(1));
    assert!(a.stderr.contains(&silent), "{a:?}");
}

#[test]
fn a_host_that_is_cut_off_is_gone_on_without_and_ends() {
    let Some(cluster) = Cluster::new(2) else { return };
    let [a, b] = elastic(&cluster);
    cluster.hosts.cut(1);
    let cut = Instant::now();
    a.await_lines(1, "up 0/1");
    assert!(cut.elapsed() < Duration::from_secs(20), "{:?}", cut.elapsed());
    let b = b.finish_cleanly();
    assert!(cut.elapsed() < Duration::from_secs(20), "{:?}", cut.elapsed());
    assert_eq!(b.code, 1, "{b:?}");
    let lost = format!("lost the store at {}", cluster.meeting());
    assert!(b.stderr.contains(&lost), "{b:?}");
    cluster.touch("done");
    assert_eq!(a.finish_cleanly().code, 0);
}

#[test]
fn a_cable_that_is_mended_in_time_changes_nothing() {
    let Some(cluster) = Cluster::new(2) else { return };
    let options = ["--nnodes", "2", "--liveness", "10s"];
    let runs = [0, 1].map(|host| cluster.launch(host, &options, UNTIL_DONE));
    runs[0].await_lines(1, "up 0/2");
    runs[1].await_lines(1, "up 1/2");
    cluster.hosts.cut(1);
    // The longer it takes, the longer the systems wait before they try again.
    thread::sleep(Duration::from_secs(3));
    cluster.hosts.mend(1);
    cluster.touch("done");
    for run in runs.map(Launch::finish_cleanly) {
        assert_eq!(run.code, 0, "{run:?}");
        assert_eq!(run.stdout.lines().count(), 1, "{run:?}");
    }
}

#[test]
fn a_host_that_is_asked_to_end_leaves_in_order() {
    let Some(cluster) = Cluster::new(2) else { return };
    let [a, b] = elastic(&cluster);
    b.signal(Signal::TERM);
    assert_eq!(b.finish_cleanly().code, 143);
    a.await_lines(1, "up 0/1");
    cluster.touch("done");
    let a = a.finish_cleanly();
    assert_eq!(a.code, 0, "{a:?}");
    let left = format!("{} left; starting again", cluster.shown(1));
    assert!(a.stderr.contains(&left), "{a:?}");
}

#[test]
fn ranks_that_fail_because_a_host_leaves_are_not_blamed() {
    let program = program(|| {
        let variable = |name: &str| env::var(name).unwrap();
        println!("up {}/{}", variable("RANK"), variable("WORLD_SIZE"));
        let place = format!("{}:{}", variable("MASTER_ADDR"), variable("MASTER_PORT"));
        match (variable("WORLD_SIZE").as_str(), variable("RANK").as_str()) {
            ("1", _) => {}
            (_, "0") => {
                let (mut peer, _) = TcpListener::bind(place).unwrap().accept().unwrap();
                println!("connected");
                let _ = peer.read(&mut [0]);
                process::exit(1);
            }
            _ => {
                let _peer = wait_until("rank 0", || TcpStream::connect(&place).ok());
                thread::sleep(Duration::from_secs(600));
            }
        }
    });
    let Some(cluster) = Cluster::new(2) else { return };
    let [a, b] = [0, 1].map(|host| cluster.launch_program(host, &ELASTIC, &program));
    a.await_lines(1, "connected");
    b.signal(Signal::TERM);
    let (a, b) = (a.finish_cleanly(), b.finish_cleanly());
    assert_eq!((a.code, b.code), (0, 143), "{a:?} {b:?}");
    assert!(a.stdout.contains("up 0/1") && !a.stderr.contains("failed"), "{a:?}");
}

#[test]
fn a_job_that_needs_the_host_that_left_ends_and_names_it() {
    let Some(cluster) = Cluster::new(2) else { return };
    let runs = [0, 1].map(|host| cluster.launch(host, &["--nnodes", "2"], UNTIL_DONE));
    let [a, b] = runs;
    a.await_lines(1, "up 0/2");
    b.await_lines(1, "up 1/2");
    b.signal(Signal::TERM);
    let (a, b) = (a.finish_cleanly(), b.finish_cleanly());
    assert_eq!((a.code, b.code), (1, 143), "{a:?} {b:?}");
    let left = format!("{} left, and too few hosts are left to go on", cluster.shown(1));
    assert!(a.stderr.contains(&left), "{a:?}");
}

#[test]
fn the_host_that_holds_the_meeting_tells_the_others_that_it_goes() {
    let Some(cluster) = Cluster::new(2) else { return };
    let [a, b] = elastic(&cluster);
    a.signal(Signal::TERM);
    let (a, b) = (a.finish_cleanly(), b.finish_cleanly());
    assert_eq!((a.code, b.code), (143, 1), "{a:?} {b:?}");
    let ended = format!("{}, which holds the meeting, has ended the job", cluster.shown(0));
    assert!(b.stderr.contains(&ended) && b.stderr.contains("SIGTERM"), "{b:?}");
}

#[test]
fn the_others_end_when_the_host_that_holds_the_meeting_is_killed() {
    let Some(cluster) = Cluster::new(2) else { return };
    let [a, b] = elastic(&cluster);
    a.signal(Signal::KILL);
    a.await_nothing_left();
    let b = b.finish_cleanly();
    assert_eq!(b.code, 1, "{b:?}");
    assert!(b.stderr.contains("lost the store at"), "{b:?}");
}

#[test]
fn a_spare_replaces_a_lost_host() {
    let Some(cluster) = Cluster::new(3) else { return };
    let options = ["--nnodes", "2:2", "--liveness", "2s"];
    let a = cluster.launch(0, &options, UNTIL_DONE);
    let b = cluster.launch(1, &options, UNTIL_DONE);
    a.await_lines(1, "up 0/2 round 0");
    b.await_lines(1, "up 1/2 round 0");
    let spare = cluster.launch(2, &options, UNTIL_DONE);
    spare.await_notice("this host is a spare");
    b.signal(Signal::KILL);
    b.await_nothing_left();
    a.await_lines(1, "up 0/2 round 1");
    spare.await_lines(1, "up 1/2 round 1");
    cluster.touch("done");
    let (a, spare) = (a.finish_cleanly(), spare.finish_cleanly());
    assert_eq!((a.code, spare.code), (0, 0), "{a:?} {spare:?}");
}

#[test]
fn a_spare_that_is_not_needed_ends_with_the_job() {
    let Some(cluster) = Cluster::new(3) else { return };
    let options = ["--nnodes", "2"];
    let runs = [0, 1].map(|host| cluster.launch(host, &options, UNTIL_DONE));
    runs[1].await_lines(1, "/2");
    let spare = cluster.launch(2, &options, UNTIL_DONE);
    spare.await_notice("this host is a spare");
    cluster.touch("done");
    for run in runs.map(Launch::finish_cleanly) {
        assert_eq!(run.code, 0, "{run:?}");
    }
    let spare = spare.finish_cleanly();
    assert_eq!((spare.code, spare.stdout.as_str()), (0, ""), "{spare:?}");
}

#[test]
fn a_launcher_that_was_stopped_for_too_long_ends_its_old_ranks_and_comes_back() {
    let Some(cluster) = Cluster::new(2) else { return };
    let [a, b] = elastic(&cluster);
    b.signal(Signal::STOP);
    a.await_lines(1, "up 0/1");
    b.signal(Signal::CONT);
    a.await_lines(2, "up 0/2");
    b.await_lines(2, "up 1/2");
    // Of the two starts only the second runs: `sh` once for the rank itself.
    let ranks = b.processes_called("sh");
    assert_eq!(ranks.len(), 1, "{ranks:?}");
    cluster.touch("done");
    let (a, b) = (a.finish_cleanly(), b.finish_cleanly());
    assert_eq!((a.code, b.code), (0, 0), "{a:?} {b:?}");
}

#[test]
fn a_holder_that_was_stopped_for_too_long_goes_on_without_the_others() {
    let Some(cluster) = Cluster::new(2) else { return };
    let [a, b] = elastic(&cluster);
    a.signal(Signal::STOP);
    let b = b.finish_cleanly();
    assert_eq!(b.code, 1, "{b:?}");
    let lost = format!("lost the store at {}: it has not answered for", cluster.meeting());
    assert!(b.stderr.contains(&lost), "{b:?}");
    a.signal(Signal::CONT);
    a.await_lines(1, "up 0/1");
    cluster.touch("done");
    assert_eq!(a.finish_cleanly().code, 0);
}

#[test]
fn a_holder_that_was_stopped_briefly_blames_nobody() {
    let Some(cluster) = Cluster::new(2) else { return };
    let options = ["--nnodes", "2", "--liveness", "20s"];
    let runs = [0, 1].map(|host| cluster.launch(host, &options, UNTIL_DONE));
    runs[0].await_lines(1, "up 0/2");
    runs[1].await_lines(1, "up 1/2");
    runs[0].signal(Signal::STOP);
    thread::sleep(Duration::from_secs(7));
    runs[0].signal(Signal::CONT);
    cluster.touch("done");
    for run in runs.map(Launch::finish_cleanly) {
        assert_eq!(run.code, 0, "{run:?}");
        assert_eq!(run.stdout.lines().count(), 1, "{run:?}");
    }
}

/// A job of one or two hosts, with both of them in it.
fn elastic(cluster: &Cluster) -> [Launch; 2] {
    let runs = [0, 1].map(|host| cluster.launch(host, &ELASTIC, UNTIL_DONE));
    runs[0].await_lines(1, "up 0/2");
    runs[1].await_lines(1, "up 1/2");
    runs
}

const ELASTIC: [&str; 6] = ["--nnodes", "1:2", "--liveness", "2s", "--last-call", "2s"];
