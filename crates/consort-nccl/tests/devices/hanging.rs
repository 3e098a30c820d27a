//! What becomes of symmetric memory where NCCL, or a device, does not come to an end with it.

use std::time::Instant;

use consort::device::calls;
use consort::{Dtype, Error, ReduceOp};
use consort_testkit::{await_threads, skip};

use crate::held::Held;
use crate::older::{can_be_made, find_another};
use crate::stage::{LONG, device, meet, with_devices};

#[test]
fn memory_that_nccl_does_not_let_go_of_is_not_waited_for_long() {
    if let Err(reason) = can_be_made() {
        return skip(reason);
    }
    with_devices(2)
        .start(|ctx| {
            if ctx.rank() == 1 {
                find_another(&ctx.dir().join("libhanging.so"), &["-DHANGING", "-DPLACELESS"]);
            }
            let (group, began) = (meet(ctx), Instant::now());
            // Rank 1 has a window by then.
            let error = group.symmetric_on(&device(&group), 64).unwrap_err();
            assert!(matches!(error, Error::PeerUnable { rank: 1, .. }), "{error}");
            assert!(error.to_string().contains("ncclGetPeerDevicePointer"), "{error}");
            group.barrier().unwrap();
            drop(group);
            assert!(began.elapsed() < LONG / 2, "after {:?}", began.elapsed());
        })
        .expect_all();
}

#[test]
fn memory_that_a_device_still_works_on_is_not_given_back() {
    if let Err(reason) = can_be_made() {
        return skip(reason);
    }
    let mut job = with_devices(2).start(|ctx| {
        let freed = ctx.dir().join(format!("freed-{}", ctx.rank()));
        let library = ctx.dir().join(format!("libtelling-{}.so", ctx.rank()));
        find_another(&library, &[&format!("-DFREED=\"{}\"", freed.display())]);
        let group = meet(ctx);
        let memory = group.symmetric_on(&device(&group), 64).unwrap();
        let held = Held::new(&group);
        let mut call = calls::all_reduce(memory.clone(), Dtype::F32, ReduceOp::Sum);
        let is_held = group.rank() == 0;
        if is_held {
            call = call.after(held.event());
        }
        let launched = call.launched();
        let work = group.call_async(call).unwrap();
        assert!(launched.wait().is_some(), "both ranks come");
        group.abort("somebody has pressed a key");
        drop((work.wait().unwrap_err(), memory, group));
        await_threads("consort-symmetric", 0);
        await_threads("consort-device", 0);
        assert_eq!(freed.exists(), !is_held);
        ctx.reach("looked");
        // Until both have looked, what holds up a device stays.
        let _: () = ctx.told("over");
        drop(held);
    });
    (0..2).for_each(|rank| job.await_point(rank, "looked"));
    job.tell("over", &());
    job.expect_all();
}
