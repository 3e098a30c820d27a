//! What ranks hear when something fails after all have agreed, while devices are at work.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use consort::device::calls::OnDevice;
use consort::{Error, Failed, Group, Work};
use consort_testkit::{await_threads, skip};

use crate::held::Held;
use crate::older::{can_be_made, find_older};
use crate::stage::{LONG, meet, with_devices};
use crate::sums::{next, sum};

#[test]
fn a_device_that_does_not_get_on_is_given_up_at_the_deadline() {
    with_devices(2)
        .start(|ctx| {
            let group = meet(ctx);
            let limit = if group.rank() == 0 { Duration::from_millis(500) } else { LONG };
            let Stuck { held, began, work } = Stuck::new(&group.within(limit));
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
            let Stuck { held, began, work: first } = Stuck::new(&group);
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
            let Stuck { held, began, work } = Stuck::new(&group);
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

/// A call that both ranks of a group have come to, and that does not get on, as the device of rank 0 is held up.
struct Stuck {
    held: Held,
    began: Instant,
    work: Work<OnDevice>,
}

impl Stuck {
    /// Both ranks make it, each within the time that it has for its calls.
    fn new(group: &Group) -> Self {
        // The communicator is there when the time of the call begins.
        next(&group.within(LONG), &[1.0; 8]).unwrap();
        let held = Held::new(&group.within(LONG));
        let began = Instant::now();
        let mut call = sum(group, &[1.0; 8]);
        if group.rank() == 0 {
            call = call.after(held.event());
        }
        let launched = call.launched();
        let work = group.call_async(call).unwrap();
        assert!(launched.wait().is_some(), "both ranks come");
        Self { held, began, work }
    }
}

/// Ends what holds up a device, and then what was to be done there: memory is taken back when all streams have got on.
fn end(held: Held, memory: impl Sized) {
    drop(held);
    drop(memory);
}

#[test]
fn what_nccl_says_last_is_heard() {
    if let Err(reason) = can_be_made() {
        return skip(reason);
    }
    with_devices(3)
        .start(|ctx| {
            let failing = ctx.dir().join("failing");
            if ctx.rank() == 1 {
                let option = format!("-DFAILING=\"{}\"", failing.display());
                find_older(&ctx.dir().join("libfailing.so"), &[&option]);
            }
            let group = meet(ctx);
            next(&group, &[1.0; 8]).unwrap();
            // Rank 1 hears it at the end of its very next call; the others may be done with that before.
            let error = if ctx.rank() == 1 {
                fs::write(&failing, "").unwrap();
                next(&group, &[1.0; 8]).unwrap_err()
            } else {
                (0..).find_map(|_| next(&group, &[1.0; 8]).err()).unwrap()
            };
            let told = "NCCL has failed on the way";
            assert!(error.to_string().contains(told), "{error}");
            assert!(error.to_string().contains("rank 1"), "{error}");
        })
        .expect_all();
}

#[test]
fn an_abort_that_nccl_does_not_come_back_from_is_not_waited_for_long() {
    if let Err(reason) = can_be_made() {
        return skip(reason);
    }
    with_devices(2)
        .start(|ctx| {
            if ctx.rank() == 1 {
                find_older(&ctx.dir().join("libhanging.so"), &["-DHANGING"]);
            }
            let group = meet(ctx);
            let began = Instant::now();
            if ctx.rank() == 1 {
                next(&group, &[1.0; 8]).unwrap();
                // The other may hear of it before it is done with that call.
                group.abort("somebody has pressed a key");
            }
            let error = (0..).find_map(|_| next(&group, &[1.0; 8]).err()).unwrap();
            assert!(error.to_string().contains("somebody has pressed a key"), "{error}");
            drop(group);
            assert!(began.elapsed() < LONG / 2, "after {:?}", began.elapsed());
            if ctx.rank() == 1 {
                // The group's own thread has ended, and the one that aborts is at it still.
                await_threads("consort-device", 1);
            }
        })
        .expect_all();
}
