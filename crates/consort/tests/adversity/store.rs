//! A store that is lost while its ranks have a group.

use std::time::{Duration, Instant};

use consort::{Builder, Error, Secret, Transport};
use consort_store::{Error as StoreError, Server};
use consort_testkit::{Context, Job, Ranks};

use super::meet::{LONG, works};

#[test]
fn ranks_go_on_without_the_store() {
    let mut job = start(&|| ());
    job.kill(STORE);
    live_without_it(&mut job);
    let said: Vec<String> = job.wait().into_iter().filter_map(done).collect();
    assert_eq!(said.len(), RANKS as usize);
    for said in said {
        assert!(said.contains("lost the store at"), "{said}");
    }
}

/// Nothing closes the connections of a process that stands still: it is as with a host that is gone.
#[test]
fn ranks_go_on_without_a_store_that_is_silent() {
    let mut job = start(&|| ());
    job.stop(STORE);
    live_without_it(&mut job);
    job.kill(STORE);
    let said: Vec<String> = job.wait().into_iter().filter_map(done).collect();
    assert_eq!(said.len(), RANKS as usize);
    for said in said {
        assert!(said.contains("gave up after") || said.contains("lost the store"), "{said}");
    }
}

/// Ranks that have met over TCP, and a process that holds their store.
fn start<F>(here: &F) -> Job<String> {
    let mut job = Ranks::new(RANKS + 1).named_after(here).limit(LONG).start(|ctx| {
        let secret: String = ctx.told("secret");
        if ctx.rank() == STORE { hold(ctx, &secret.parse().unwrap()) } else { live(ctx, &secret) }
    });
    job.tell("secret", &Secret::generate().unwrap().to_hex());
    job.await_point(STORE, "serves");
    let port = std::fs::read_to_string(job.dir().join("port")).unwrap();
    job.tell("port", &port);
    for rank in 0..RANKS {
        job.await_point(rank, "met");
    }
    job
}

/// Has the ranks work and leave.
fn live_without_it(job: &mut Job<String>) {
    job.tell("go on", &true);
    for rank in 0..RANKS {
        job.await_point(rank, "asked");
    }
    job.tell("end", &true);
    for rank in 0..RANKS {
        job.await_point(rank, "left");
    }
}

fn hold(ctx: &Context, secret: &Secret) -> String {
    let server = Server::start("127.0.0.1:0".parse().unwrap(), secret).unwrap();
    std::fs::write(ctx.dir().join("port"), server.address().port().to_string()).unwrap();
    ctx.reach("serves");
    ctx.told("nothing")
}

/// Works with and without the store, leaves, and gives what the store's last call said.
fn live(ctx: &Context, secret: &str) -> String {
    let port: String = ctx.told("port");
    let address = format!("tcp://127.0.0.1:{port}?rank={}&world={RANKS}", ctx.rank());
    let builder = Builder::new().address(&address).unwrap().transport(Transport::Tcp);
    let group = builder.timeout(LONG).secret(secret.parse().unwrap()).init().unwrap();
    works(&group);
    ctx.reach("met");
    let _: bool = ctx.told("go on");
    let started = Instant::now();
    for _ in 0..50 {
        works(&group);
    }
    // One comes late: the others wait, and would ask the store why.
    if ctx.rank() == 0 {
        std::thread::sleep(Duration::from_secs(3));
    }
    group.barrier().unwrap();
    let worked = started.elapsed();
    assert!(worked < Duration::from_secs(25), "{worked:?}");
    let ranks: Vec<_> = group.members().iter().map(|member| member.rank).collect();
    assert_eq!(ranks.len(), RANKS as usize);
    let error = group.store().get("nothing", soon()).unwrap_err();
    let lost = !matches!(&error, StoreError::Timeout { missing, .. } if missing.count > 0);
    assert!(lost, "{error}");
    // An abort ends what others are still in, too: a barrier that is over here.
    ctx.reach("asked");
    let _: bool = ctx.told("end");
    let aborting = Instant::now();
    if ctx.rank() == 1 {
        group.abort("it is time");
        // The store would be waited for longer.
        assert!(aborting.elapsed() < Duration::from_secs(1), "{:?}", aborting.elapsed());
    }
    let ended = group.barrier().unwrap_err();
    assert!(matches!(ended, Error::Aborted { .. }), "{ended}");
    drop(group);
    assert!(aborting.elapsed() < Duration::from_secs(20), "{:?}", aborting.elapsed());
    ctx.reach("left");
    error.to_string()
}

fn soon() -> consort::Deadline {
    consort::Deadline::after(Duration::from_secs(1))
}

fn done(outcome: consort_testkit::Outcome<String>) -> Option<String> {
    match outcome {
        consort_testkit::Outcome::Done(said) => Some(said),
        _ => None,
    }
}

const RANKS: u32 = 3;
const STORE: u32 = RANKS;
