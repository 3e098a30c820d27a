//! Work on a stream goes on after the call.

use std::ffi::{c_int, c_void};

use consort::nccl::Stream;
use consort::{Dtype, ReduceOp, Target};
use consort_sys::dl;
use consort_testkit::ranks;

use crate::meet::{comm, path};

#[test]
fn calls_on_a_stream_are_done_in_order() {
    ranks(2, |ctx| {
        let comm = comm(ctx);
        let streams = Streams::new();
        let handle = streams.create();
        // SAFETY: it was made, and is destroyed below.
        let stream = unsafe { Stream::from_raw(handle) };
        let mut bytes: Vec<u8> = 1_u64.to_ne_bytes().repeat(1000);
        let target = Target::from(&mut bytes[..]);
        for _ in 0..10 {
            // SAFETY: it is left alone until the stream was waited for; all ranks make the same calls.
            unsafe { comm.all_reduce(target.into(), target, Dtype::U64, ReduceOp::Sum, stream) }
                .unwrap();
        }
        streams.synchronize(handle);
        assert_eq!(bytes, 1024_u64.to_ne_bytes().repeat(1000));
        streams.destroy(handle);
        comm.destroy().unwrap();
    });
}

#[test]
fn a_stream_that_is_none_is_refused() {
    ranks(1, |ctx| {
        let comm = comm(ctx);
        // SAFETY: consort's own NCCL knows its streams, and does not look into others.
        let stream = unsafe { Stream::from_raw(0x1234 as *mut c_void) };
        let mut bytes = [1_u8];
        let target = Target::from(&mut bytes[..]);
        // SAFETY: nothing is done.
        let error =
            unsafe { comm.all_reduce(target.into(), target, Dtype::U8, ReduceOp::Sum, stream) };
        assert_eq!(error.unwrap_err().code(), Some(consort::nccl::Code::INVALID_ARGUMENT));
        comm.destroy().unwrap();
    });
}

/// The functions for streams that NCCL does not have.
struct Streams {
    create: unsafe extern "C" fn(*mut *mut c_void) -> c_int,
    synchronize: unsafe extern "C" fn(*mut c_void) -> c_int,
    destroy: unsafe extern "C" fn(*mut c_void) -> c_int,
}

impl Streams {
    fn new() -> Self {
        let library = dl::Library::open([path()]).unwrap();
        Self {
            // SAFETY: the header says so, here and below.
            create: unsafe { library.function(c"consortStreamCreate") }.unwrap(),
            // SAFETY: as above.
            synchronize: unsafe { library.function(c"consortStreamSynchronize") }.unwrap(),
            // SAFETY: as above.
            destroy: unsafe { library.function(c"consortStreamDestroy") }.unwrap(),
        }
    }

    fn create(&self) -> *mut c_void {
        let mut stream = std::ptr::null_mut();
        // SAFETY: the place for the answer is there.
        assert_eq!(unsafe { (self.create)(&mut stream) }, 0);
        stream
    }

    fn synchronize(&self, stream: *mut c_void) {
        // SAFETY: it was made here.
        assert_eq!(unsafe { (self.synchronize)(stream) }, 0);
    }

    fn destroy(&self, stream: *mut c_void) {
        // SAFETY: it was made here.
        assert_eq!(unsafe { (self.destroy)(stream) }, 0);
    }
}
