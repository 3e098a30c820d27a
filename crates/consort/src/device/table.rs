//! The functions of CUDA's driver that collectives need, as they are found in the library.
//!
//! This is all of the driver that is unsafe. What it hands out are numbers and handles that the driver
//! checks by itself; what it is given are handles that came from here and have not been destroyed, which
//! the types above see to.
#![allow(unsafe_code, reason = "CUDA's driver is called here, and nowhere else")]

use std::ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_void};
use std::ptr::{self, NonNull};

use consort_sys::dl::Library;
use consort_sys::view::{Source, Space, Target};

use super::block::Block;
use super::error::{Code, DeviceError};

/// A context, a stream or an event, as the driver calls it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handle(NonNull<c_void>);

// SAFETY: it is a name that the driver takes from every thread.
unsafe impl Send for Handle {}
// SAFETY: as above; nothing can change.
unsafe impl Sync for Handle {}

impl Handle {
    pub(super) fn as_ptr(self) -> *mut c_void {
        self.0.as_ptr()
    }
}

/// The functions.
#[derive(Debug)]
pub(super) struct Table {
    init: unsafe extern "C" fn(c_uint) -> c_int,
    device_count: unsafe extern "C" fn(*mut c_int) -> c_int,
    device_get: unsafe extern "C" fn(*mut c_int, c_int) -> c_int,
    device_name: unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int,
    retain_context: unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int,
    release_context: unsafe extern "C" fn(c_int) -> c_int,
    set_context: unsafe extern "C" fn(*mut c_void) -> c_int,
    push_context: unsafe extern "C" fn(*mut c_void) -> c_int,
    pop_context: unsafe extern "C" fn(*mut *mut c_void) -> c_int,
    stream_create: unsafe extern "C" fn(*mut *mut c_void, c_uint) -> c_int,
    stream_destroy: unsafe extern "C" fn(*mut c_void) -> c_int,
    stream_wait: unsafe extern "C" fn(*mut c_void, *mut c_void, c_uint) -> c_int,
    event_create: unsafe extern "C" fn(*mut *mut c_void, c_uint) -> c_int,
    event_record: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
    event_query: unsafe extern "C" fn(*mut c_void) -> c_int,
    event_destroy: unsafe extern "C" fn(*mut c_void) -> c_int,
    allocate: unsafe extern "C" fn(*mut u64, usize) -> c_int,
    free: unsafe extern "C" fn(u64) -> c_int,
    copy_in: unsafe extern "C" fn(u64, *const c_void, usize) -> c_int,
    copy_out: unsafe extern "C" fn(*mut c_void, u64, usize) -> c_int,
    copy_within: unsafe extern "C" fn(u64, u64, usize) -> c_int,
    set: unsafe extern "C" fn(u64, c_uchar, usize) -> c_int,
    error_string: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int,
}

macro_rules! table {
    ($($field:ident: $name:literal,)*) => {
        impl Table {
            /// # Errors
            /// When one of them is missing.
            pub(super) fn of(library: &Library) -> Result<Self, DeviceError> {
                Ok(Self {$(
                    $field: {
                        // SAFETY: the driver's header declares it so, and has for as long as it has the name.
                        let found = unsafe { library.function($name) };
                        found.ok_or_else(|| DeviceError::missing(library, $name))?
                    },
                )*})
            }

            /// What the driver calls a function.
            fn name_of(field: &str) -> &'static str {
                let name: &CStr = match field {
                    $(stringify!($field) => $name,)*
                    _ => c"a function that is not in the table",
                };
                name.to_str().unwrap_or_default()
            }
        }
    };
}

/// Calls a function of the table.
macro_rules! call {
    ($table:expr, $field:ident($($argument:expr),*)) => {{
        // SAFETY: it has the type that it was looked up with, and what it is given is valid for it: room
        // for its results; what it has handed out itself and was not destroyed; in a copy, memory of the host that is
        // borrowed until the function returns, and as long as the block, which was compared.
        let code = unsafe { ($table.$field)($($argument),*) };
        $table.check(stringify!($field), code)
    }};
}

table! {
    init: c"cuInit",
    device_count: c"cuDeviceGetCount",
    device_get: c"cuDeviceGet",
    device_name: c"cuDeviceGetName",
    retain_context: c"cuDevicePrimaryCtxRetain",
    release_context: c"cuDevicePrimaryCtxRelease_v2",
    set_context: c"cuCtxSetCurrent",
    push_context: c"cuCtxPushCurrent_v2",
    pop_context: c"cuCtxPopCurrent_v2",
    stream_create: c"cuStreamCreate",
    stream_destroy: c"cuStreamDestroy_v2",
    stream_wait: c"cuStreamWaitEvent",
    event_create: c"cuEventCreate",
    event_record: c"cuEventRecord",
    event_query: c"cuEventQuery",
    event_destroy: c"cuEventDestroy_v2",
    allocate: c"cuMemAlloc_v2",
    free: c"cuMemFree_v2",
    copy_in: c"cuMemcpyHtoD_v2",
    copy_out: c"cuMemcpyDtoH_v2",
    copy_within: c"cuMemcpyDtoD_v2",
    set: c"cuMemsetD8_v2",
    error_string: c"cuGetErrorString",
}

impl Table {
    pub(super) fn init(&self) -> Result<(), DeviceError> {
        call!(self, init(0))
    }

    pub(super) fn count(&self) -> Result<u16, DeviceError> {
        let mut count = 0;
        call!(self, device_count(&mut count))?;
        Ok(u16::try_from(count).unwrap_or(0))
    }

    /// The driver's number of a device.
    pub(super) fn device(&self, number: u16) -> Result<c_int, DeviceError> {
        let mut device = 0;
        call!(self, device_get(&mut device, c_int::from(number)))?;
        Ok(device)
    }

    pub(super) fn name(&self, device: c_int) -> Result<String, DeviceError> {
        let mut text = [0_u8; 256];
        let room = text.as_mut_ptr().cast();
        call!(self, device_name(room, text.len() as c_int, device))?;
        let name = CStr::from_bytes_until_nul(&text).unwrap_or_default();
        Ok(name.to_string_lossy().into_owned())
    }

    /// The context that all of a process share.
    pub(super) fn retain(&self, device: c_int) -> Result<Handle, DeviceError> {
        let mut context = ptr::null_mut();
        call!(self, retain_context(&mut context, device))?;
        self.made("retain_context", context)
    }

    pub(super) fn release(&self, device: c_int) -> Result<(), DeviceError> {
        call!(self, release_context(device))
    }

    /// Makes a context this thread's own.
    pub(super) fn make_current(&self, context: Handle) -> Result<(), DeviceError> {
        call!(self, set_context(context.as_ptr()))
    }

    /// Makes a context this thread's own, until it is [left](Self::leave).
    pub(super) fn enter(&self, context: Handle) -> Result<(), DeviceError> {
        call!(self, push_context(context.as_ptr()))
    }

    /// Gives this thread back the context that it had.
    pub(super) fn leave(&self) -> Result<(), DeviceError> {
        let mut left = ptr::null_mut();
        call!(self, pop_context(&mut left))
    }

    /// A stream that does not wait for the default one.
    pub(super) fn make_stream(&self) -> Result<Handle, DeviceError> {
        let mut stream = ptr::null_mut();
        call!(self, stream_create(&mut stream, NON_BLOCKING))?;
        self.made("stream_create", stream)
    }

    pub(super) fn destroy_stream(&self, stream: Handle) -> Result<(), DeviceError> {
        call!(self, stream_destroy(stream.as_ptr()))
    }

    /// Has what is put into a stream from now on wait for an event.
    pub(super) fn hold(&self, stream: *mut c_void, event: Handle) -> Result<(), DeviceError> {
        call!(self, stream_wait(stream, event.as_ptr(), 0))
    }

    pub(super) fn make_event(&self) -> Result<Handle, DeviceError> {
        let mut event = ptr::null_mut();
        call!(self, event_create(&mut event, WITHOUT_TIMES))?;
        self.made("event_create", event)
    }

    /// Has an event happen when all is done that was put into a stream.
    pub(super) fn record(&self, event: Handle, stream: *mut c_void) -> Result<(), DeviceError> {
        call!(self, event_record(event.as_ptr(), stream))
    }

    pub(super) fn has_happened(&self, event: Handle) -> Result<bool, DeviceError> {
        match call!(self, event_query(event.as_ptr())) {
            Ok(()) => Ok(true),
            Err(DeviceError::Failed { code: Code::NOT_READY, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(super) fn destroy_event(&self, event: Handle) -> Result<(), DeviceError> {
        call!(self, event_destroy(event.as_ptr()))
    }

    pub(super) fn allocate(&self, bytes: usize) -> Result<Block, DeviceError> {
        let mut start = 0;
        call!(self, allocate(&mut start, bytes))?;
        let start = NonNull::new(ptr::with_exposed_provenance_mut(start as usize));
        let nothing = || DeviceError::nothing(Self::name_of("allocate"));
        start.map(|it| Block::new(it, bytes)).ok_or_else(nothing)
    }

    pub(super) fn free(&self, block: Block) -> Result<(), DeviceError> {
        call!(self, free(block.address()))
    }

    /// Copies to memory of a device.
    ///
    /// # Panics
    /// When there is not as much of it.
    pub(super) fn write(&self, to: Block, bytes: &[u8]) -> Result<(), DeviceError> {
        self.write_from(to, bytes.into())
    }

    /// As [`write`](Self::write), from memory of the host that others may write to.
    ///
    /// # Panics
    /// When the two are not as long, or the bytes are not the host's.
    pub(super) fn write_from(&self, to: Block, bytes: Source<'_>) -> Result<(), DeviceError> {
        assert_eq!(to.len(), bytes.len(), "a copy is as long as what it is made of");
        assert_eq!(bytes.space(), Space::Host, "the processor can read it");
        call!(self, copy_in(to.address(), bytes.as_ptr().cast(), bytes.len()))
    }

    /// Copies from memory of a device.
    ///
    /// # Panics
    /// When there is not as much of it.
    pub(super) fn read(&self, from: Block, bytes: &mut [u8]) -> Result<(), DeviceError> {
        self.read_into(from, bytes.into())
    }

    /// As [`read`](Self::read), to memory of the host that others may read.
    ///
    /// # Panics
    /// When the two are not as long, or the bytes are not the host's, or are those of `bool`.
    pub(super) fn read_into(&self, from: Block, bytes: Target<'_>) -> Result<(), DeviceError> {
        assert_eq!(from.len(), bytes.len(), "a copy is as long as what it is made of");
        assert_eq!(bytes.space(), Space::Host, "the processor can write it");
        assert!(!bytes.holds_truths(), "any byte may be written there");
        call!(self, copy_out(bytes.as_mut_ptr().cast(), from.address(), bytes.len()))
    }

    /// Copies from memory of a device to memory of the same. It is put into the default stream, and not waited for.
    ///
    /// # Panics
    /// When there is not as much of both.
    pub(super) fn copy(&self, to: Block, from: Block) -> Result<(), DeviceError> {
        assert_eq!(to.len(), from.len(), "a copy is as long as what it is made of");
        call!(self, copy_within(to.address(), from.address(), from.len()))
    }

    /// Sets every byte of memory of a device, in the same way.
    pub(super) fn fill(&self, block: Block, byte: u8) -> Result<(), DeviceError> {
        call!(self, set(block.address(), byte, block.len()))
    }

    fn made(&self, function: &'static str, handle: *mut c_void) -> Result<Handle, DeviceError> {
        let nothing = || DeviceError::nothing(Self::name_of(function));
        NonNull::new(handle).map(Handle).ok_or_else(nothing)
    }

    fn check(&self, function: &'static str, code: c_int) -> Result<(), DeviceError> {
        if code == 0 {
            return Ok(());
        }
        let mut text = ptr::null();
        // SAFETY: there is room for a pointer to the text, which is the library's for ever.
        let known = unsafe { (self.error_string)(code, &mut text) } == 0 && !text.is_null();
        let text = if known {
            // SAFETY: it ends with a zero, and lives as long as the library.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
        } else {
            "the driver has no words for it".to_owned()
        };
        Err(DeviceError::Failed { function: Self::name_of(function), code: Code(code), text })
    }
}

/// A stream beside the default one.
const NON_BLOCKING: c_uint = 1;
/// An event that only says whether it has happened.
const WITHOUT_TIMES: c_uint = 2;
