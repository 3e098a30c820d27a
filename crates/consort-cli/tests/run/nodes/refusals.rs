//! Hosts that do not meet, and what they learn.

use consort_store::Secret;
use rustix::process::Signal;

use super::UNTIL_DONE;
use crate::cluster::Cluster;
use crate::launch::Launch;

#[test]
fn a_host_with_another_secret_is_turned_away_and_disturbs_nobody() {
    let Some(cluster) = Cluster::new(2) else { return };
    let a = cluster.launch(0, &["--nnodes", "2"], "true");
    a.await_notice("made the job's secret");
    let other = cluster.path("other");
    Secret::generate().unwrap().write_new(&other).unwrap();
    let stranger = cluster.launch_with_secret(1, &other).finish_cleanly();
    assert_eq!(stranger.code, 1, "{stranger:?}");
    assert!(stranger.stderr.contains("the secrets differ"), "{stranger:?}");
    let b = cluster.launch(1, &["--nnodes", "2"], "true");
    assert_eq!((a.finish_cleanly().code, b.finish_cleanly().code), (0, 0));
}

#[test]
fn too_few_hosts_are_named_by_all_who_came() {
    let Some(cluster) = Cluster::new(2) else { return };
    let a = cluster.launch(0, &["--nnodes", "3", "--join-timeout", "2s"], "true");
    a.await_notice("made the job's secret");
    let b = cluster.launch(1, &["--nnodes", "3", "--join-timeout", "1h"], "true");
    let (a, b) = (a.finish_cleanly(), b.finish_cleanly());
    assert_eq!((a.code, b.code), (1, 1), "{a:?} {b:?}");
    let who = format!(
        "only 2 of at least 3 hosts came within 2s: {}, {}",
        cluster.shown(0),
        cluster.shown(1)
    );
    assert!(a.stderr.contains(&who), "{a:?}");
    let ended = format!("{}, which holds the meeting, has ended the job: {who}", cluster.shown(0));
    assert!(b.stderr.contains(&ended), "{b:?}");
}

#[test]
fn a_host_that_nobody_answers_gives_up_in_time() {
    let Some(cluster) = Cluster::new(2) else { return };
    Secret::generate().unwrap().write_new(cluster.secret()).unwrap();
    let b = cluster.launch(1, &["--nnodes", "2", "--join-timeout", "1s"], "true").finish_cleanly();
    assert_eq!(b.code, 1, "{b:?}");
    assert!(b.stderr.contains("waiting for the host that holds the meeting"), "{b:?}");
    assert!(b.stderr.contains("cannot reach the store at"), "{b:?}");
}

#[test]
fn a_place_that_is_taken_is_refused() {
    let Some(cluster) = Cluster::new(2) else { return };
    let options = ["--nnodes", "2", "--node-rank", "0"];
    let a = cluster.launch(0, &options, "true");
    a.await_notice("waiting for hosts: 1 of 2 are here");
    let b = cluster.launch(1, &options, "true").finish_cleanly();
    assert_eq!(b.code, 1, "{b:?}");
    let taken = format!("node rank 0 is taken by {}", cluster.shown(0));
    assert!(b.stderr.contains(&taken), "{b:?}");
    let b = cluster.launch(1, &["--nnodes", "2", "--node-rank", "1"], "true");
    assert_eq!((a.finish_cleanly().code, b.finish_cleanly().code), (0, 0));
}

#[test]
fn a_host_started_differently_is_shown_the_difference() {
    let Some(cluster) = Cluster::new(2) else { return };
    let a = cluster.launch(0, &["--nnodes", "2", "--max-restarts", "3"], "true");
    a.await_notice("waiting for hosts: 1 of 2 are here");
    let b = cluster.launch(1, &["--nnodes", "2"], "true").finish_cleanly();
    assert_eq!(b.code, 1, "{b:?}");
    assert!(b.stderr.contains("max restarts 0 here, 3 in the job"), "{b:?}");
}

#[test]
fn an_interrupt_ends_the_wait_for_the_secret_and_for_the_meeting() {
    let Some(cluster) = Cluster::new(2) else { return };
    let b = cluster.launch(1, &["--nnodes", "2"], "true");
    b.await_notice("copy it from");
    b.signal(Signal::INT);
    assert_eq!(b.finish_cleanly().code, 130);
    Secret::generate().unwrap().write_new(cluster.secret()).unwrap();
    let b = cluster.launch(1, &["--nnodes", "2"], "true");
    b.await_notice(&format!("waiting for the host that holds the meeting, {}", cluster.meeting()));
    b.signal(Signal::INT);
    assert_eq!(b.finish_cleanly().code, 130);
}

#[test]
fn a_name_that_cannot_be_looked_up_is_told_at_once() {
    // There is nobody there to ask for names.
    let Some(cluster) = Cluster::new(2) else { return };
    Secret::generate().unwrap().write_new(cluster.secret()).unwrap();
    let mut command = cluster.command(1);
    command.args(["--nnodes", "2", "--rdzv", "tcp://host.invalid:29400"]);
    command.arg("--secret-file").arg(cluster.secret()).args(["--", "true"]);
    let run = Launch::command(command);
    run.await_notice("host.invalid cannot be looked up so far: ");
    run.signal(Signal::INT);
    assert_eq!(run.finish_cleanly().code, 130);
}

#[test]
fn an_interrupt_ends_the_wait_for_hosts_and_the_others_wait_on() {
    let Some(cluster) = Cluster::new(2) else { return };
    let a = cluster.launch(0, &["--nnodes", "3"], "true");
    a.await_notice("waiting for hosts: 1 of 3 are here");
    let b = cluster.launch(1, &["--nnodes", "3"], "true");
    a.await_notice("waiting for hosts: 2 of 3 are here");
    b.signal(Signal::INT);
    assert_eq!(b.finish_cleanly().code, 130);
    a.await_notices(2, "waiting for hosts: 1 of 3 are here");
    a.signal(Signal::INT);
    assert_eq!(a.finish_cleanly().code, 130);
}

#[test]
fn an_interrupt_where_the_meeting_is_held_ends_it_for_all() {
    let Some(cluster) = Cluster::new(2) else { return };
    let a = cluster.launch(0, &["--nnodes", "3"], "true");
    a.await_notice("made the job's secret");
    let b = cluster.launch(1, &["--nnodes", "3"], "true");
    b.await_notice("waiting for hosts: 2 of 3 are here");
    a.signal(Signal::INT);
    let (a, b) = (a.finish_cleanly(), b.finish_cleanly());
    assert_eq!((a.code, b.code), (130, 1), "{a:?} {b:?}");
    let ended = format!("{}, which holds the meeting, has ended the job", cluster.shown(0));
    assert!(b.stderr.contains(&ended) && b.stderr.contains("SIGINT"), "{b:?}");
}

#[test]
fn a_host_that_died_while_hosts_are_awaited_is_not_counted() {
    let Some(cluster) = Cluster::new(2) else { return };
    let options = ["--nnodes", "3", "--liveness", "1s"];
    let a = cluster.launch(0, &options, UNTIL_DONE);
    a.await_notice("waiting for hosts: 1 of 3 are here");
    let dead = cluster.launch(1, &options, UNTIL_DONE);
    a.await_notice("waiting for hosts: 2 of 3 are here");
    dead.signal(Signal::KILL);
    a.await_notices(2, "waiting for hosts: 1 of 3 are here");
    a.signal(Signal::INT);
    assert_eq!(a.finish_cleanly().code, 130);
}
