//! Ranks that leave while their devices are at work.

use std::thread;
use std::time::{Duration, Instant};

use consort::{Error, Group};
use consort_testkit::skip;

use crate::held::Held;
use crate::older::{can_be_made, find_another};
use crate::stage::{LONG, meet, with_devices};
use crate::sums::{next, sum};

#[test]
fn a_rank_that_ends_in_good_order_with_a_call_on_its_device_is_noticed() {
    if let Err(reason) = can_be_made() {
        return skip(reason);
    }
    let mut job = with_devices(3).start(|ctx| {
        if ctx.rank() == 0 {
            find_another(&ctx.dir().join("libsilent.so"), &["-DSILENT"]);
        }
        let group = meet(ctx);
        let (two, others) = (pair(&group, 1), pair(&group, 2));
        if group.rank() == 2 {
            let _held = Held::new(&others.unwrap());
            return ctx.told("over");
        }
        let two = two.unwrap();
        next(&two, &[1.0; 8]).unwrap();
        let held = others.map(|others| Held::new(&others));
        let mut call = sum(&two, &[1.0; 8]);
        if let Some(held) = &held {
            call = call.after(held.event());
        }
        let launched = call.launched();
        let work = two.call_async(call).unwrap();
        assert!(launched.wait().is_some(), "both ranks come");
        if group.rank() == 1 {
            return;
        }
        let began = Instant::now();
        while two.error().is_none() {
            assert!(began.elapsed() < LONG / 2, "nobody notices that rank 1 has gone");
            thread::sleep(Duration::from_millis(10));
        }
        // What holds up the device, and then what was to be done there.
        drop(held);
        let error = work.wait().unwrap_err().error;
        assert!(matches!(&error, Error::Left { ranks, .. } if ranks[..] == [1]), "{error}");
        assert!(error.to_string().contains("all_reduce(sum) of 8 f32 on devices"), "{error}");
        ctx.reach("heard");
    });
    job.await_point(0, "heard");
    job.tell("over", &());
    job.expect_all();
}

/// The group of rank 0 and another, for these two.
fn pair(group: &Group, other: u32) -> Option<Group> {
    let is_in = group.rank() == 0 || group.rank() == other;
    group.split(is_in.then_some(0), 0).unwrap()
}
