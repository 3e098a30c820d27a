//! What ranks hear when something fails while they make an engine for their devices.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use consort::{Engine, Error};
use consort_testkit::Outcome::{Done, Signalled};
use consort_testkit::{Context, Job, Outcome, skip};

use crate::older::{can_be_made, find_older};
use crate::stage::{LONG, all_heard_of_rank_1, invited, meet, with_devices, without_nccl};
use crate::sums::next;

#[test]
fn nccl_can_be_asked_for_at_the_beginning() {
    with_devices(2)
        .start(|ctx| {
            let group = invited(ctx).engine(Engine::Nccl).init().unwrap();
            assert_eq!(next(&group, &[1.0]).unwrap(), [2.0]);
        })
        .expect_all();
}

#[test]
fn a_wish_of_the_environment_is_the_programs_and_not_that_of_what_serves_it() {
    with_devices(2)
        .env("CONSORT_BACKEND", "nccl")
        .start(|ctx| assert_eq!(next(&meet(ctx), &[1.0]).unwrap(), [2.0]))
        .expect_all();
}

#[test]
fn a_rank_that_does_not_come_to_the_first_call_is_named_with_it() {
    let mut job = with_devices(2).start(|ctx| {
        let group = meet(ctx);
        if group.rank() == 1 {
            return ctx.told("over");
        }
        let error = next(&group.within(Duration::from_millis(300)), &[1.0]).unwrap_err();
        assert!(matches!(&error, Error::Late { missing, .. } if missing[..] == [1]), "{error}");
        assert!(error.to_string().contains("in the first call on devices"), "{error}");
        ctx.reach("heard");
    });
    job.await_point(0, "heard");
    job.tell("over", &());
    job.expect_all();
}

#[test]
fn ranks_without_nccl_hear_so_at_the_beginning_if_they_ask_for_it() {
    without_nccl(2)
        .start(|ctx| {
            let error = invited(ctx).engine(Engine::Nccl).init().unwrap_err();
            let Error::PeerUnable { rank: 0, reason, .. } = &error else { panic!("{error}") };
            assert!(reason.contains("NCCL cannot be loaded"), "{error}");
        })
        .expect_all();
}

#[test]
fn one_rank_without_nccl_is_named_to_all_at_the_beginning() {
    with_devices(3)
        .start(|ctx| rank_1_lacks(ctx, "CONSORT_NCCL_LIBRARY", "NCCL cannot be loaded: /nowhere"))
        .expect_all();
}

#[test]
fn one_rank_without_a_driver_is_named_to_all_at_the_beginning() {
    with_devices(3)
        .start(|ctx| rank_1_lacks(ctx, "CONSORT_CUDA_LIBRARY", "cannot be loaded: /nowhere"))
        .expect_all();
}

/// Has a variable of rank 1 lead nowhere, of which all hear at once.
fn rank_1_lacks(ctx: &Context, variable: &str, told: &str) {
    if ctx.rank() == 1 {
        // SAFETY: the process has just begun, and no other thread of it looks at its environment.
        unsafe { std::env::set_var(variable, "/nowhere") };
    }
    let began = Instant::now();
    let error = invited(ctx).engine(Engine::Nccl).init().unwrap_err();
    let Error::PeerUnable { rank: 1, reason, .. } = &error else { panic!("{error}") };
    assert!(reason.contains(told), "{error}");
    assert!(began.elapsed() < LONG / 2, "after {:?}", began.elapsed());
}

#[test]
fn ranks_that_wait_for_one_that_gives_up_the_group_hear_of_it() {
    with_devices(3)
        .start(|ctx| {
            let group = meet(ctx);
            if group.rank() == 1 {
                thread::sleep(Duration::from_millis(100));
                group.abort("the data has run out");
            }
            let error = next(&group, &[1.0; 8]).unwrap_err();
            assert!(matches!(error, Error::Aborted { by: 1, .. }), "{error}");
            assert!(error.to_string().contains("the data has run out"), "{error}");
        })
        .expect_all();
}

#[test]
fn a_rank_whose_nccl_fails_is_named_at_once_and_the_group_goes_on_without_devices() {
    if let Err(reason) = can_be_made() {
        return skip(reason);
    }
    with_devices(3)
        .start(|ctx| {
            if ctx.rank() == 1 {
                find_older(&ctx.dir().join("libunable.so"), &["-DUNABLE"]);
            }
            let group = meet(ctx);
            let began = Instant::now();
            let error = next(&group, &[1.0; 8]).unwrap_err();
            assert!(matches!(error, Error::PeerUnable { rank: 1, .. }), "{error}");
            let told = "cannot do its part of a communicator of NCCL: ncclCommInitRank";
            assert!(error.to_string().contains(told), "{error}");
            assert!(began.elapsed() < LONG / 2, "after {:?}", began.elapsed());
            group.barrier().unwrap();
            assert_eq!(next(&group, &[1.0]).unwrap_err().to_string(), error.to_string());
        })
        .expect_all();
}

#[test]
fn whoever_waits_in_the_making_is_let_go_by_another_thread_that_gives_up() {
    let mut job = with_devices(2).start(|ctx| {
        let group = meet(ctx);
        if group.rank() == 1 {
            return ctx.told("over");
        }
        let error = thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(100));
                group.abort("somebody has pressed a key");
            });
            next(&group, &[1.0; 8]).unwrap_err()
        });
        assert!(error.to_string().contains("somebody has pressed a key"), "{error}");
        ctx.reach("heard");
    });
    job.await_point(0, "heard");
    job.tell("over", &());
    job.expect_all();
}

#[test]
fn a_rank_that_stands_still_in_nccl_is_named_when_the_time_is_up() {
    if let Err(reason) = can_be_made() {
        return skip(reason);
    }
    let mut job = with_devices(3).start(|ctx| {
        if ctx.rank() == 1 {
            find_older(&ctx.dir().join("libstill.so"), &["-DSTILL"]);
        }
        let group = invited(ctx).timeout(Duration::from_secs(2)).init().unwrap();
        let began = Instant::now();
        let error = next(&group, &[1.0; 8]).unwrap_err();
        assert!(matches!(&error, Error::Late { missing, .. } if missing[..] == [1]), "{error}");
        assert!(began.elapsed() < LONG / 2, "after {:?}", began.elapsed());
        ctx.reach("heard");
    });
    let began = Instant::now();
    while state(job.pid(1)) != 'T' {
        assert!(began.elapsed() < LONG / 4, "rank 1 does not come to its NCCL");
        thread::sleep(Duration::from_millis(10));
    }
    [0, 2].into_iter().for_each(|rank| job.await_point(rank, "heard"));
    job.kill(1);
    let outcomes = job.wait();
    assert!(matches!(outcomes[..], [Done(()), Signalled(9), Done(())]), "{outcomes:?}");
}

/// What the system says that a process does.
fn state(process: u32) -> char {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    text.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()).unwrap()
}

/// Makes a test of each moment.
macro_rules! a_rank_that_is_killed_in_the_making_is_named {
    ($($moment:ident: $milliseconds:expr),*) => {
        mod a_rank_that_is_killed_in_the_making_is_named {
            use std::time::Duration;

            $(
                #[test]
                fn $moment() {
                    let job = super::with_devices(3).start(|ctx| super::call_until_it_fails(ctx));
                    super::kill_one(job, Duration::from_millis($milliseconds));
                }
            )*
        }
    };
}

a_rank_that_is_killed_in_the_making_is_named! {
    at_once: 0, after_3_ms: 3, after_10_ms: 10, after_20_ms: 20, after_30_ms: 30, after_50_ms: 50
}

/// What ends the calls of a rank.
fn call_until_it_fails(ctx: &Context) -> String {
    let group = meet(ctx);
    ctx.reach("about to begin");
    loop {
        if let Err(error) = next(&group, &[1.0; 8]) {
            return error.to_string();
        }
    }
}

fn kill_one(mut job: Job<String>, delay: Duration) {
    (0..3).for_each(|rank| job.await_point(rank, "about to begin"));
    thread::sleep(delay);
    job.kill(1);
    let outcomes = job.wait();
    all_heard_of_rank_1(&outcomes);
    for outcome in outcomes {
        if let Outcome::Done(heard) = outcome {
            assert!(heard.starts_with("group world:"), "{heard}");
        }
    }
}
