//! Queues of a device.

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;

/// A queue of a device, on which NCCL puts its work: a `cudaStream_t`, which this crate never looks into.
///
/// What is put on a stream is done in order, after the call that put it there has returned.
///
/// ```
/// use consort::nccl::Stream;
///
/// assert!(Stream::DEFAULT.as_raw().is_null());
/// ```
#[derive(Clone, Copy)]
pub struct Stream<'a> {
    handle: *mut c_void,
    life: PhantomData<&'a ()>,
}

impl Stream<'_> {
    /// The stream that every device has.
    pub const DEFAULT: Stream<'static> = Stream { handle: std::ptr::null_mut(), life: PhantomData };

    /// A stream that CUDA, or `libconsort_nccl.so`, made.
    ///
    /// # Safety
    /// For `'a` it is a stream of the device of every communicator that it is used with.
    #[allow(unsafe_code, reason = "nobody but its maker knows what a handle is")]
    pub const unsafe fn from_raw(handle: *mut c_void) -> Self {
        Self { handle, life: PhantomData }
    }

    /// The handle.
    pub const fn as_raw(self) -> *mut c_void {
        self.handle
    }
}

impl fmt::Debug for Stream<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.handle.is_null() {
            true => f.write_str("Stream::DEFAULT"),
            false => write!(f, "Stream({:p})", self.handle),
        }
    }
}
