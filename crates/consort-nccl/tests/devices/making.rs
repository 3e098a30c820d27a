//! What ranks hear when something fails while they make an engine for their devices.

use std::thread;
use std::time::{Duration, Instant};

use consort::Error;
use consort_testkit::{Context, Job, Outcome, skip};

use crate::older::find_older;
use crate::stage::{LONG, all_heard_of_rank_1, meet, with_devices};
use crate::sums::next;

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
    let done = with_devices(3)
        .start(|ctx| {
            if ctx.rank() == 1 && !find_older(&ctx.dir().join("libunable.so"), &["-DUNABLE"]) {
                return false;
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
            true
        })
        .expect_all();
    if done.contains(&false) {
        skip("there is no C compiler that makes an NCCL which fails");
    }
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
