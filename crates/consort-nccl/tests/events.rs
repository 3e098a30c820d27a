//! Events between the streams of groups of calls.

mod support;

use std::thread;
use std::time::{Duration, Instant};

use consort_nccl::Status;
use consort_nccl::api::communicators::*;
use consort_nccl::api::driver::*;
use consort_nccl::api::extensions::*;
use consort_nccl::api::groups::*;
use consort_nccl::raw::Handle;

use support::*;

#[test]
fn a_group_on_two_streams_and_an_event_between_them_do_not_wait_for_each_other() {
    let comm = all_here(1)[0];
    let (first, second, event) = (stream(), stream(), event());
    let [mut one, mut other] = [[0.0_f32]; 2];
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                assert_eq!(cuEventRecord(event, second), 0);
                assert_eq!(cuStreamWaitEvent(first, event, 0), 0);
            }
        });
        for _ in 0..ROUNDS {
            ok(ncclGroupStart());
            ok(all_reduce(&[7.0], &mut one, SUM, comm, first));
            ok(all_reduce(&[8.0], &mut other, SUM, comm, second));
            ok(ncclGroupEnd());
        }
    });
    [first, second].into_iter().for_each(await_end_of);
    assert_eq!((one, other), ([7.0], [8.0]));
    assert_eq!(cuEventDestroy_v2(event), 0);
    [first, second].into_iter().for_each(|stream| ok(consortStreamDestroy(stream)));
    ok(ncclCommDestroy(comm));
}

fn event() -> Handle {
    let mut event = Handle::NULL;
    assert_eq!(cuEventCreate(out(&mut event), 0), 0);
    event
}

/// Waits until a stream has done all, or it is clear that it never will.
fn await_end_of(stream: Handle) {
    let began = Instant::now();
    while consortStreamQuery(stream) == Status::IN_PROGRESS {
        assert!(began.elapsed() < LONG, "it waits for what waits for it");
        thread::sleep(Duration::from_millis(1));
    }
    ok(consortStreamSynchronize(stream));
}

/// How often two threads meet.
const ROUNDS: usize = 10_000;
/// Longer than it takes.
const LONG: Duration = Duration::from_secs(20);
