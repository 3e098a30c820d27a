//! What a forked child does to the devices of its parent: nothing.

use std::fs;
use std::time::{Duration, Instant};

use consort::symm::SymmetricMemory;
use consort_testkit::skip;

use crate::child::in_a_child;
use crate::older::{can_be_made, find_watched_driver};
use crate::stage::{device, meet, upload, with_devices};
use crate::sums::{next, sum};

#[test]
fn what_a_child_drops_stays_as_it_is() {
    if let Err(reason) = can_be_made() {
        return skip(reason);
    }
    with_devices(2)
        .start(|ctx| {
            let calls = ctx.dir().join("calls");
            if ctx.rank() == 1 {
                find_watched_driver(&ctx.dir().join("libwatched.so"), &calls);
            }
            let group = meet(ctx);
            next(&group, &[1.0; 8]).unwrap();
            let device = device(&group);
            let memory = group.symmetric_on(&device, 100).unwrap();
            let stream = device.stream().unwrap();
            let (event, numbers) = (stream.record().unwrap(), upload(&device, &[1.0_f32]));
            let call = sum(&group, &[1.0; 8]);
            let mut all = Some((memory, event, stream, numbers, call, device, group));
            if ctx.rank() == 1 {
                let told = in_a_child(|| {
                    let (memory, .., call, _, group) = all.take().unwrap();
                    let errors =
                        [memory.barrier(0).unwrap_err(), group.call_async(call).unwrap_err().error];
                    // It has no threads that would have to end first.
                    let began = Instant::now();
                    drop((memory, group));
                    assert!(began.elapsed() < LINGER, "it has waited for somebody");
                    errors.map(|error| error.to_string()).to_vec()
                });
                let from = "this process was forked from rank 1";
                assert!(told.len() == 2 && told.iter().all(|it| it.contains(from)), "{told:?}");
                let asked = fs::read_to_string(&calls).unwrap_or_default();
                assert_eq!(asked, "", "of the driver");
            }
            let (memory, .., call, _, group) = all.take().unwrap();
            group.call_async(call).unwrap().wait().unwrap();
            memory.barrier(0).unwrap();
        })
        .expect_all();
}

/// How long a rank waits for threads of its own that end.
const LINGER: Duration = Duration::from_secs(2);
