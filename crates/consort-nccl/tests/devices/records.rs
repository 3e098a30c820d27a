//! What is written down of calls on devices.

use std::time::Duration;

use consort::device::calls;
use consort::trace::{self, GroupTrace, RankTrace};
use consort::{CallStage, DebugLevel, Dtype, Error};

use crate::stage::{device, invited, meet, upload, with_devices};
use crate::sums::next;

/// The records of calls on devices of the group of all ranks.
fn on_devices(trace: &RankTrace) -> &GroupTrace {
    trace.groups.iter().find(|group| group.name == "world/(devices)").unwrap()
}

#[test]
fn calls_are_recorded_as_what_they_are_and_apart_from_those_on_the_host() {
    with_devices(2)
        .start(|ctx| {
            let group = invited(ctx).debug(DebugLevel::Detail).init().unwrap();
            group.barrier().unwrap();
            next(&group, &[1.0; 8]).unwrap();
            let root = calls::broadcast(upload(&device(&group), &[1_u8; 70_001]), Dtype::U8, 1);
            let line = line!() + 1;
            group.call_async(root).unwrap().wait().unwrap();

            let trace = group.trace().unwrap();
            let there = on_devices(&trace);
            let texts: Vec<String> = there.calls.iter().map(ToString::to_string).collect();
            assert_eq!(texts, ["all_reduce(sum) of 8 f32", "broadcast of 70001 u8, root 1"]);
            let numbers: Vec<u64> = there.calls.iter().map(|call| call.number).collect();
            assert_eq!((numbers, there.made, there.failed), (vec![1, 2], 2, 0));
            for call in &there.calls {
                assert!(call.queued.is_some_and(|queued| queued <= call.began), "{call:?}");
                assert!(call.ended.is_some_and(|ended| ended >= call.began), "{call:?}");
            }
            assert_eq!(there.bytes, 32 + 70_001);
            let site = trace.site(&there.calls[1]).unwrap();
            assert!(site.ends_with(&format!("records.rs:{line}")), "{site}");
            // What ranks agree on beforehand is nobody else's business.
            let world = trace.groups.iter().find(|group| group.name == "world").unwrap();
            assert_eq!((world.calls.len(), trace.groups.len()), (1, 2));
        })
        .expect_all();
}

#[test]
fn what_serves_the_devices_leaves_the_groups_own_record_alone() {
    let folder = tempfile::tempdir().unwrap();
    with_devices(2)
        .env("CONSORT_TRACE_DIR", folder.path())
        .start(|ctx| {
            let folder = std::env::var_os("CONSORT_TRACE_DIR").unwrap();
            let group = invited(ctx).trace_dir(folder).init().unwrap();
            next(&group, &[1.0; 8]).unwrap();
            group.barrier().unwrap();
        })
        .expect_all();
    for rank in 0..2 {
        let trace = trace::read(&folder.path().join(format!("rank-{rank}"))).unwrap();
        let names: Vec<&str> = trace.groups.iter().map(|group| &*group.name).collect();
        assert_eq!(names, ["world", "world/(devices)"], "rank {rank}");
        assert_eq!((on_devices(&trace).made, trace.rank), (1, rank));
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn a_call_that_fails_says_what_the_one_does_who_is_missing() {
    let mut job = with_devices(3).start(|ctx| {
        let group = meet(ctx);
        (0..2).for_each(|_| drop(next(&group, &[1.0; 8]).unwrap()));
        if group.rank() == 1 {
            return ctx.told("over");
        }
        let error = next(&group.within(Duration::from_millis(500)), &[1.0; 8]).unwrap_err();
        let Error::Late { number: 3, call, whereabouts, .. } = &error else { panic!("{error}") };
        assert_eq!(&**call, "all_reduce(sum) of 8 f32 on devices");
        let last = whereabouts[0].last_call.as_ref().unwrap();
        assert_eq!((&*last.group, last.number), ("world/(devices)", 2), "{error}");
        assert!(matches!(last.stage, CallStage::Over { .. }), "{error}");
        let trace = group.trace().unwrap();
        assert!(on_devices(&trace).calls[2].has_failed, "{trace:?}");
        ctx.reach("heard");
    });
    job.await_point(0, "heard");
    job.await_point(2, "heard");
    job.tell("over", &());
    job.expect_all();
}
