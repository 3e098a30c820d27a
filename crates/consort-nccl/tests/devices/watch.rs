//! What ranks hear when something fails after all have agreed, while devices are at work.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use consort::{Error, Failed};
use consort_testkit::skip;

use crate::held::Held;
use crate::older::find_older;
use crate::stage::{LONG, meet, with_devices};
use crate::sums::{next, sum};

#[test]
fn a_device_that_does_not_get_on_is_given_up_at_the_deadline() {
    with_devices(2)
        .start(|ctx| {
            let group = meet(ctx);
            next(&group, &[1.0; 8]).unwrap();
            let held = Held::new(&group);
            let began = Instant::now();
            let mut call = sum(&group, &[1.0; 8]);
            let hasty = group.within(Duration::from_millis(500));
            let within = if group.rank() == 0 {
                call = call.after(held.event());
                &hasty
            } else {
                &group
            };
            let launched = call.launched();
            let work = within.call_async(call).unwrap();
            assert!(launched.wait().is_some(), "both ranks come");
            let Failed { error, buffer } = work.wait().unwrap_err();
            assert!(matches!(&error, Error::Late { missing, .. } if missing[..] == [1]), "{error}");
            assert!(error.to_string().contains("all_reduce(sum) of 8 f32 on devices"), "{error}");
            assert!(began.elapsed() < LONG / 2, "after {:?}", began.elapsed());
            end(held, buffer);
        })
        .expect_all();
}

#[test]
fn a_call_that_waits_for_a_device_has_its_time_limited_by_one_behind_it() {
    with_devices(2)
        .start(|ctx| {
            let group = meet(ctx);
            next(&group, &[1.0; 8]).unwrap();
            let held = Held::new(&group);
            let began = Instant::now();
            let mut call = sum(&group, &[1.0; 8]);
            if group.rank() == 0 {
                call = call.after(held.event());
            }
            let launched = call.launched();
            let first = group.call_async(call).unwrap();
            assert!(launched.wait().is_some(), "both ranks come");
            let hasty = group.within(Duration::from_millis(500));
            let second = hasty.call_async(sum(&group, &[1.0; 8])).unwrap();
            let failed = [first, second].map(|work| work.wait().unwrap_err());
            for Failed { error, .. } in &failed {
                assert!(matches!(error, Error::Late { .. }), "{error}");
            }
            assert!(began.elapsed() < LONG / 2, "after {:?}", began.elapsed());
            end(held, failed);
        })
        .expect_all();
}

#[test]
fn whoever_waits_for_a_device_is_let_go_by_an_abort() {
    with_devices(2)
        .start(|ctx| {
            let group = meet(ctx);
            next(&group, &[1.0; 8]).unwrap();
            let held = Held::new(&group);
            let began = Instant::now();
            let mut call = sum(&group, &[1.0; 8]);
            if group.rank() == 0 {
                call = call.after(held.event());
            }
            let launched = call.launched();
            let work = group.call_async(call).unwrap();
            assert!(launched.wait().is_some(), "both ranks come");
            if group.rank() == 0 {
                thread::sleep(Duration::from_millis(50));
                group.abort("somebody has pressed a key");
            }
            let Failed { error, buffer } = work.wait().unwrap_err();
            assert!(error.to_string().contains("somebody has pressed a key"), "{error}");
            assert!(began.elapsed() < LONG / 2, "after {:?}", began.elapsed());
            end(held, buffer);
        })
        .expect_all();
}

/// Ends what holds up a device, and then what was to be done there: memory is taken back when all streams have got on.
fn end(held: Held, memory: impl Sized) {
    drop(held);
    drop(memory);
}

#[test]
fn what_nccl_says_last_is_heard() {
    let done = with_devices(3)
        .start(|ctx| {
            let failing = ctx.dir().join("failing");
            let option = format!("-DFAILING=\"{}\"", failing.display());
            if ctx.rank() == 1 && !find_older(&ctx.dir().join("libfailing.so"), &[&option]) {
                return false;
            }
            let group = meet(ctx);
            next(&group, &[1.0; 8]).unwrap();
            if ctx.rank() == 1 {
                fs::write(&failing, "").unwrap();
            }
            // The others may be done with a call before they hear of it.
            let error = loop {
                if let Err(error) = next(&group, &[1.0; 8]) {
                    break error;
                }
            };
            let told = "NCCL has failed on the way";
            assert!(error.to_string().contains(told), "{error}");
            assert!(error.to_string().contains("rank 1"), "{error}");
            true
        })
        .expect_all();
    if done.contains(&false) {
        skip("there is no C compiler that makes an NCCL which fails");
    }
}
