//! Calls in order with what streams of devices do.

use std::thread;
use std::time::{Duration, Instant};

use consort::device::{Event, calls};
use consort::nccl;
use consort::{Dtype, Error, ReduceOp};

use crate::held::beside;
use crate::stage::{device, download, meet, upload, with_devices};
use crate::sums::{next, sum};

/// Waits until something has happened on a device.
fn wait_for(event: &Event) {
    let began = Instant::now();
    while !event.has_happened().unwrap() {
        assert!(began.elapsed() < Duration::from_secs(30), "it does not happen");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_call_begins_after_its_event_and_not_before() {
    let mut job = with_devices(2).start(|ctx| {
        let group = meet(ctx);
        let (device, comm) = (device(&group), beside(&group));
        let stream = device.stream().unwrap();
        // SAFETY: the stream lives until the communicator has ended.
        let held = unsafe { nccl::Stream::from_raw(stream.as_raw()) };
        let mut message = device.allocate(8).unwrap();
        if group.rank() == 0 {
            // SAFETY: the memory is left alone until the stream is done.
            unsafe { comm.recv(message.target(), Dtype::U8, 1, held) }.unwrap();
            let mut call = sum(&group, &[1.5; 333]).after(stream.record().unwrap());
            let launched = call.launched();
            let work = group.call_async(call).unwrap();
            let done = launched.wait().expect("both ranks come");
            thread::sleep(Duration::from_millis(50));
            assert!(!done.has_happened().unwrap() && !work.is_done());
            ctx.reach("held up");
            assert_eq!(download::<f32>(&work.wait().unwrap().output), [3.0; 333]);
        } else {
            let work = group.call_async(sum(&group, &[1.5; 333])).unwrap();
            let () = ctx.told("go on");
            // SAFETY: as above.
            unsafe { comm.send(message.source(), Dtype::U8, 0, held) }.unwrap();
            assert_eq!(download::<f32>(&work.wait().unwrap().output), [3.0; 333]);
        }
        comm.destroy().unwrap();
    });
    job.await_point(0, "held up");
    job.tell("go on", &());
    job.expect_all();
}

#[test]
fn a_stream_that_waits_for_a_call_finds_what_it_leaves() {
    with_devices(3)
        .start(|ctx| {
            let group = meet(ctx);
            let device = device(&group);
            let compute = device.stream().unwrap();
            for count in [1_usize, 999, 300_001] {
                let ready = compute.record().unwrap();
                let numbers = vec![group.rank().as_f32() + 1.0; count];
                let mut call = sum(&group, &numbers).after(ready);
                let launched = call.launched();
                let work = group.call_async(call).unwrap();
                let done = launched.wait().expect("all ranks come");
                compute.wait_for(&done).unwrap();
                wait_for(&compute.record().unwrap());
                // Whoever has waited on the device need not wait here.
                assert!(done.has_happened().unwrap());
                assert!(download::<f32>(&work.wait().unwrap().output) == vec![6.0; count]);
            }
        })
        .expect_all();
}

#[test]
fn calls_that_are_carried_out_as_one_have_a_place_in_streams_each() {
    with_devices(2)
        .start(|ctx| {
            let group = meet(ctx);
            let mut first = sum(&group, &[1.0; 77]);
            let mut second = sum(&group, &[2.0; 5]);
            let launched = [first.launched(), second.launched()];
            let work =
                group.coalesced(|calls| Ok((calls.call(first)?, calls.call(second)?))).unwrap();
            for launched in launched {
                wait_for(&launched.wait().expect("all ranks come"));
            }
            let (first, second) = work.wait().unwrap();
            assert_eq!(download::<f32>(&first.output), [2.0; 77]);
            assert_eq!(download::<f32>(&second.output), [4.0; 5]);
        })
        .expect_all();
}

#[test]
fn whoever_waits_for_a_call_that_fails_to_be_given_to_the_device_hears_of_its_end() {
    let mut job = with_devices(2).start(|ctx| {
        let group = meet(ctx);
        next(&group, &[1.0; 8]).unwrap();
        if group.rank() == 1 {
            return ctx.told("over");
        }
        let mut call = sum(&group, &[1.0; 8]);
        let launched = call.launched();
        let work = group.within(Duration::from_millis(300)).call_async(call).unwrap();
        assert!(launched.wait().is_none());
        let error = work.wait().unwrap_err().error;
        assert!(matches!(error, Error::Late { .. }), "{error}");

        // The group has ended, and the call does not even begin.
        let mut call =
            calls::all_reduce(upload(&device(&group), &[1.0_f32]), Dtype::F32, ReduceOp::Sum);
        let launched = call.launched();
        match group.call_async(call) {
            Ok(work) => {
                assert!(launched.wait().is_none());
                assert!(work.wait().is_err());
            }
            Err(refused) => {
                drop(refused);
                assert!(launched.wait().is_none());
            }
        }
        ctx.reach("heard");
    });
    job.await_point(0, "heard");
    job.tell("over", &());
    job.expect_all();
}
