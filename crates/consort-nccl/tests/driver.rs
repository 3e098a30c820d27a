//! The part of CUDA's driver that the library has.

mod support;

use std::ffi::c_int;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use consort_nccl::api::communicators::*;
use consort_nccl::api::driver::*;
use consort_nccl::api::messages::*;
use consort_nccl::raw::{Buffer, Handle};

use support::*;

#[test]
fn memory_is_taken_back_when_the_streams_of_its_context_are_done() {
    let (comms, [mine, others]) = (all_here(2), [context_of(0), context_of(1)]);
    for is_destroyed in [false, true] {
        let [stream, away] = [mine, others].map(stream_in);
        let [memory, left] = [allocate(), allocate()];
        // Calls are carried out in the order in which they are made.
        for (memory, stream) in [(memory, stream), (left, away)] {
            ok(ncclRecv(memory, 8, code::<u8>(), 0, comms[1], stream));
        }
        if is_destroyed {
            assert_eq!(cuStreamDestroy_v2(stream), 0);
        }
        let waited = thread::scope(|scope| {
            let began = Instant::now();
            scope.spawn(|| {
                thread::sleep(LATE);
                ok(send(&[7_u8; 8], 1, comms[0], NOW));
            });
            assert_eq!(cuCtxSetCurrent(mine), 0);
            assert_eq!(cuMemFree_v2(memory), 0);
            began.elapsed()
        });
        assert!(waited >= LATE, "it was still to be written to: {waited:?}");
        assert_eq!(cuStreamQuery(away), NOT_READY, "what is another context's is not waited for");
        ok(send(&[7_u8; 8], 1, comms[0], NOW));
        assert_eq!(cuCtxSetCurrent(others), 0);
        assert_eq!(cuMemFree_v2(left), 0);
        assert_eq!((cuStreamQuery(away), cuStreamDestroy_v2(away)), (0, 0));
        if !is_destroyed {
            assert_eq!((cuStreamQuery(stream), cuStreamDestroy_v2(stream)), (0, 0));
        }
    }
    comms.into_iter().for_each(|comm| ok(ncclCommDestroy(comm)));
}

#[test]
fn memory_that_is_not_the_drivers_is_refused_without_waiting_for_streams() {
    let (comms, mine) = (all_here(2), context_of(0));
    let (sender, stream, memory) = (comms[0], stream_in(mine), allocate());
    ok(ncclRecv(memory, 8, code::<u8>(), 0, comms[1], stream));
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            let _ = told.recv_timeout(LONG);
            ok(send(&[7_u8; 8], 1, sender, NOW));
        });
        assert_eq!(cuMemFree_v2(read(&[7_u8])), INVALID_VALUE);
        assert_eq!(cuStreamQuery(stream), NOT_READY, "it was waited for");
        tell.send(()).unwrap();
        assert_eq!(cuMemFree_v2(memory), 0);
    });
    assert_eq!(cuMemFree_v2(memory), INVALID_VALUE, "it was freed before");
    assert_eq!(cuStreamDestroy_v2(stream), 0);
    comms.into_iter().for_each(|comm| ok(ncclCommDestroy(comm)));
}

fn context_of(device: c_int) -> Handle {
    let mut context = Handle::NULL;
    assert_eq!(cuDevicePrimaryCtxRetain(out(&mut context), device), 0);
    context
}

fn stream_in(context: Handle) -> Handle {
    let mut stream = Handle::NULL;
    assert_eq!(cuCtxSetCurrent(context), 0);
    assert_eq!(cuStreamCreate(out(&mut stream), 0), 0);
    stream
}

fn allocate() -> Buffer {
    let mut address = 0_u64;
    assert_eq!(cuMemAlloc_v2(out(&mut address), 8), 0);
    at(std::ptr::with_exposed_provenance_mut(address as usize))
}

/// How long a rank does not send what another waits for.
const LATE: Duration = Duration::from_millis(200);
/// Longer than anything takes that does not wait.
const LONG: Duration = Duration::from_secs(10);
const INVALID_VALUE: c_int = 1;
const NOT_READY: c_int = 600;
