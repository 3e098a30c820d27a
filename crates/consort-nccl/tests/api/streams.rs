//! Work on a stream goes on after the call.

use std::ffi::{c_int, c_void};
use std::ptr;

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

#[test]
fn copies_wait_for_what_their_stream_was_given_before() {
    let library = dl::Library::open([path()]).unwrap();
    type Copy = unsafe extern "C" fn(*mut c_void, *const c_void, usize, *mut c_void) -> c_int;
    // SAFETY: CUDA's header says so, with addresses as numbers.
    let copy: Copy = unsafe { library.function(c"cuMemcpyDtoDAsync_v2") }.unwrap();
    // SAFETY: as above.
    let read: Copy = unsafe { library.function(c"cuMemcpyDtoHAsync_v2") }.unwrap();
    let streams = Streams::new();
    // Those without a thread of their own, by CUDA's names, and one that has one.
    let own = streams.create();
    for stream in [0, 1, 2].map(ptr::without_provenance_mut).into_iter().chain([own]) {
        let (mut one, mut other, mut seen) = (vec![7_u8; 1 << 20], vec![0_u8; 1 << 20], [0_u8; 9]);
        for turn in 0..9 {
            one[0] = turn;
            // SAFETY: both are there, and left alone until the next call has read them.
            let put =
                unsafe { copy(other.as_mut_ptr().cast(), one.as_ptr().cast(), one.len(), stream) };
            let room: *mut u8 = &mut seen[turn as usize];
            // SAFETY: both are there, and it is done when it returns.
            let got = unsafe { read(room.cast(), other.as_ptr().cast(), 1, stream) };
            assert_eq!((put, got), (0, 0));
        }
        assert_eq!(seen, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(other[1..], one[1..]);
    }
    streams.destroy(own);
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
