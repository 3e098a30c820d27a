//! A store that outlives the host that holds it.

use std::time::Duration;
use std::{env, thread};

use rustix::process::Signal;

use super::UNTIL_DONE;
use crate::cluster::Cluster;
use crate::launch::Launch;
use crate::program::program;

#[test]
fn a_job_goes_on_without_the_host_that_held_the_meeting() {
    let Some(cluster) = Cluster::new(3) else { return };
    let [a, b, c] = guarded(&cluster);
    a.signal(Signal::KILL);
    a.await_nothing_left();
    b.await_lines(1, "/2 round 1");
    c.await_lines(1, "/2 round 1");
    // The third host holds the next standby: the second may go, too.
    c.await_notice("this host holds a standby of the store");
    b.signal(Signal::KILL);
    b.await_nothing_left();
    c.await_lines(1, "up 0/1 round 2");
    cluster.touch("done");
    let c = c.finish_cleanly();
    assert_eq!(c.code, 0, "{c:?}");
    assert!(c.stderr.contains("its standby on this host goes on"), "{c:?}");
}

#[test]
fn a_meeting_goes_on_without_the_host_that_held_it() {
    let Some(cluster) = Cluster::new(3) else { return };
    let options = ["--nnodes", "2:4", "--liveness", "3s", "--last-call", "6s", "--standby"];
    let a = cluster.launch(0, &options, UNTIL_DONE);
    let b = cluster.launch(1, &options, UNTIL_DONE);
    b.await_notice("this host holds a standby of the store");
    let c = cluster.launch(2, &options, UNTIL_DONE);
    c.await_notice("3 of 2 to 4 are here");
    a.signal(Signal::KILL);
    a.await_nothing_left();
    b.await_lines(1, "/2");
    c.await_lines(1, "/2");
    cluster.touch("done");
    let (b, c) = (b.finish_cleanly(), c.finish_cleanly());
    assert_eq!((b.code, c.code), (0, 0), "{b:?} {c:?}");
}

#[test]
fn ranks_go_on_with_the_store_where_it_is_then() {
    let program = program(|| {
        let group = consort::init().unwrap();
        let me = env::var("RANK").unwrap();
        println!("met {me}/{}", group.world());
        let mut count = 0;
        loop {
            count += 1;
            assert_eq!(group.store().add(&format!("count {me}"), 1).unwrap(), count);
            if count % 200 == 0 {
                println!("counted in round {}", env::var("CONSORT_EPOCH").unwrap());
            }
            thread::sleep(Duration::from_millis(1));
        }
    });
    let Some(cluster) = Cluster::new(3) else { return };
    let options = ["--nnodes", "1:3", "--liveness", "12s", "--standby"];
    let a = cluster.launch_program(0, &options, &program);
    let b = cluster.launch_program(1, &options, &program);
    b.await_notice("this host holds a standby of the store");
    let c = cluster.launch_program(2, &options, &program);
    c.await_lines(1, "met 2/3");
    c.await_lines(1, "counted in round 0");
    a.signal(Signal::KILL);
    b.await_notice("its standby on this host goes on");
    // Long before the others know that the host is lost.
    c.await_lines(6, "counted in round 0");
    c.await_lines(1, "counted in round 1");
    for run in [b, c] {
        run.signal(Signal::TERM);
        let run = run.finish_cleanly();
        assert!(run.code == 143 || run.code == 1, "{run:?}");
        assert!(!run.stderr.contains("lost the store"), "{run:?}");
    }
}

#[test]
fn a_job_goes_on_without_its_standby_and_says_so() {
    let Some(cluster) = Cluster::new(3) else { return };
    let [a, b, c] = guarded(&cluster);
    b.signal(Signal::KILL);
    b.await_nothing_left();
    // The third host may take its place before the first has looked.
    a.await_notice("the store's standby at ");
    c.await_notice("this host holds a standby of the store");
    a.await_lines(1, "/2 round 1");
    cluster.touch("done");
    let (a, c) = (a.finish_cleanly(), c.finish_cleanly());
    assert_eq!((a.code, c.code), (0, 0), "{a:?} {c:?}");
    assert!(a.stderr.contains(" has ended: "), "{a:?}");
}

#[test]
fn the_host_that_holds_the_meeting_may_leave() {
    let Some(cluster) = Cluster::new(3) else { return };
    let [a, b, c] = guarded(&cluster);
    a.signal(Signal::TERM);
    assert_eq!(a.finish_cleanly().code, 143);
    b.await_lines(1, "/2 round 1");
    c.await_lines(1, "/2 round 1");
    cluster.touch("done");
    let (b, c) = (b.finish_cleanly(), c.finish_cleanly());
    assert_eq!((b.code, c.code), (0, 0), "{b:?} {c:?}");
}

#[test]
fn a_host_that_held_the_meeting_and_is_cut_off_is_gone_on_without() {
    let Some(cluster) = Cluster::new(3) else { return };
    let options = ["--nnodes", "1:3", "--liveness", "10s", "--standby"];
    let [a, b, c] = gathered(&cluster, &options);
    cluster.hosts.cut(0);
    b.await_lines(1, "/2 round 1");
    c.await_lines(1, "/2 round 1");
    cluster.touch("done");
    let (b, c) = (b.finish_cleanly(), c.finish_cleanly());
    assert_eq!((b.code, c.code), (0, 0), "{b:?} {c:?}");
    let a = a.finish_cleanly();
    assert_eq!(a.code, 1, "{a:?}");
}

/// A job of one to three hosts that ends with none of them.
fn guarded(cluster: &Cluster) -> [Launch; 3] {
    gathered(cluster, &["--nnodes", "1:3", "--liveness", "3s", "--standby"])
}

/// Three hosts, the second of which holds the standby.
fn gathered(cluster: &Cluster, options: &[&str]) -> [Launch; 3] {
    let options = &[options, &["--last-call", "3s"]].concat();
    let a = cluster.launch(0, options, UNTIL_DONE);
    let b = cluster.launch(1, options, UNTIL_DONE);
    b.await_notice("this host holds a standby of the store");
    let c = cluster.launch(2, options, UNTIL_DONE);
    for run in [&a, &b, &c] {
        run.await_lines(1, "/3 round");
    }
    [a, b, c]
}
