//! The process that holds the job's store is killed.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;
use std::{fs, thread};

use consort::{Builder, Deadline, ReduceOp, Secret, Transport};
use consort_store::Server;
use consort_testkit::{Context, Job, Kind, Outcome, Ranks, Skip};
use rustix::process::Signal;
use serde::de::DeserializeOwned;

use crate::life::{AT_WORK, LONG, Story, TOLD, Terms, WARM, work, work_until_it_fails};
use crate::remains::is_there;
use crate::scenario::{Scenario, faults};
use crate::verdict::Trial;

faults! { [shm tcp mixed] [blocking asynchronous scoped]
    the_host_of_the_store_is_killed
}

/// The ranks go on with the group that they have. When one of them dies the others hear of that too; only
/// a smaller group is not to be had.
fn the_host_of_the_store_is_killed(scenario: Scenario) -> Result<(), Skip> {
    let ranks = match scenario.kind() {
        Kind::Mixed => scenario.on_three_hosts(STORE + 1)?,
        _ => scenario.ranks(STORE + 1)?,
    };
    let mut job = ranks.start(|ctx| match ctx.rank() {
        STORE => hold(ctx),
        _ => outlive(ctx, scenario),
    });
    job.await_point(STORE, AT_WORK);
    let place: SocketAddr = fs::read_to_string(job.dir().join(PLACE)).unwrap().parse().unwrap();
    job.tell(PLACE, &place);
    let mut trial = Trial::watch(scenario, job, STORE + 1);
    trial.harm(|job| {
        job.kill(STORE);
        assert!(!is_there(job.pid(STORE)));
        assert!(!is_reached(job, place));
    });
    trial.job.tell(GONE, &());
    trial.await_all(&[0, 1, 2, 3], ALONE);
    trial.harm(|job| job.kill(VICTIM));
    let (end, killed) = (trial.end(), Outcome::Signalled(Signal::KILL.as_raw()));
    end.came_to(STORE, &killed).came_to(VICTIM, &killed);
    match scenario.kind() {
        // They agree in the memory that they share.
        Kind::Shm => end.were_told(&OTHERS, "PeerLost", &[VICTIM]),
        _ => end.were_each_told(&OTHERS, "PeerLost", &[VICTIM]),
    };
    end.heard_within(&OTHERS, Duration::ZERO, SOON).were_refused(&OTHERS, "lost the store at");
    Ok(())
}

/// Rank 0 gives the group up. Rank 1 cannot hear that of rank 0: before it comes something that rank 1 does
/// not ask for yet. It waits for rank 2, which has heard it.
#[test]
fn what_was_heard_is_passed_on_to_those_who_wait_for_one_that_has_ended() {
    let mut job = Ranks::new(STORE + 1).start(|ctx| match ctx.rank() {
        STORE => hold(ctx),
        3 => String::new(),
        _ => hear_without_a_store(ctx),
    });
    job.await_point(STORE, AT_WORK);
    let place: SocketAddr = fs::read_to_string(job.dir().join(PLACE)).unwrap().parse().unwrap();
    job.tell(PLACE, &place);
    (0..3).for_each(|rank| job.await_point(rank, AT_WORK));
    job.kill(STORE);
    job.tell(GONE, &());
    job.await_point(2, TOLD);
    job.await_point(1, TOLD);
    job.tell("enough", &());
    for told in &job.wait()[..3] {
        let Outcome::Done(told) = told else { panic!("{told:?}") };
        assert_eq!(told, "group world: rank 0 has ended it: enough");
    }
}

fn hear_without_a_store(ctx: &Context) -> String {
    let builder = invited(ctx, 3).transport(Transport::Tcp).timeout(Duration::from_secs(20));
    let group = builder.init().unwrap();
    let (mut numbers, me) = ([1.0_f32; 8], ctx.rank());
    // Everyone knows everyone.
    group.all_to_all(&[me; 3], &mut [0; 3]).unwrap();
    ctx.reach(AT_WORK);
    let () = ctx.told(GONE);
    let error = match me {
        0 => {
            group.reduce(&mut numbers, ReduceOp::Sum, 1).unwrap();
            group.reduce(&mut numbers, ReduceOp::Sum, 1).unwrap();
            group.abort("enough");
            group.error().unwrap()
        }
        1 => group.reduce(&mut numbers, ReduceOp::Sum, 1).unwrap_err(),
        _ => loop {
            thread::sleep(Duration::from_millis(10));
            if let Some(error) = group.error() {
                break error;
            }
        },
    };
    ctx.reach(TOLD);
    let () = ctx.told("enough");
    error.to_string()
}

fn hold<T: DeserializeOwned>(ctx: &Context) -> T {
    let own =
        ctx.address_of(STORE).map_or(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), |host| host.at(0));
    let server = Server::start(own, &secret()).unwrap();
    fs::write(ctx.dir().join(PLACE), server.address().to_string()).unwrap();
    ctx.reach(AT_WORK);
    ctx.told("never")
}

/// Works with the store and without it.
fn outlive(ctx: &Context, scenario: Scenario) -> Story {
    let builder = invited(ctx, STORE).timeout(LONG);
    let builder = match ctx.kind() {
        Kind::Tcp if ctx.address_of(0).is_none() => builder.transport(Transport::Tcp),
        _ => builder,
    };
    let (group, terms) = (builder.init().unwrap(), Terms::of(scenario.style()));
    work(&group, terms.style, 0..WARM);
    ctx.reach(AT_WORK);
    let () = ctx.told(GONE);
    work(&group, terms.style, WARM..2 * WARM);
    let error = group.store().get("anything", Deadline::after(LONG)).unwrap_err().to_string();
    assert!(error.contains("lost the store at"), "{error}");
    ctx.reach(ALONE);
    let broken = work_until_it_fails(ctx, &group, terms, 2 * WARM);
    broken.and_then(group.shrink(), terms.style)
}

/// A builder for one of so many ranks, which meet where the store is.
fn invited(ctx: &Context, world: u32) -> Builder {
    let place: SocketAddr = ctx.told(PLACE);
    let address = format!("tcp://{place}?rank={}&world={world}", ctx.rank());
    Builder::new().address(&address).unwrap().secret(secret())
}

/// Whether somebody on a rank's host can connect to the store.
fn is_reached<T>(job: &Job<T>, place: SocketAddr) -> bool {
    let connect = || TcpStream::connect_timeout(&place, Duration::from_secs(1)).is_ok();
    job.hosts().map_or_else(connect, |hosts| hosts.host(0).run(connect))
}

fn secret() -> Secret {
    "5ec2e7".repeat(16)[..64].parse().unwrap()
}

/// Four ranks, and who holds their store.
const STORE: u32 = 4;
const VICTIM: u32 = 2;
const OTHERS: [u32; 3] = [0, 1, 3];
const PLACE: &str = "place";
const GONE: &str = "the store is gone";
const ALONE: &str = "alone";
/// The end of a process is known within milliseconds, but the cores may be somebody else's.
const SOON: Duration = Duration::from_secs(15);
