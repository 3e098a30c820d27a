//! What NCCL does not have: `consort_nccl.h`.
//!
//! ```
//! use consort_nccl::api::extensions::*;
//! use consort_nccl::raw::{Handle, Out};
//! use consort_nccl::Status;
//!
//! let mut stream = Handle::NULL;
//! // SAFETY: it lives until the call has returned.
//! assert_eq!(consortStreamCreate(unsafe { Out::from_raw(&mut stream) }), Status::SUCCESS);
//! assert_eq!(consortStreamQuery(stream), Status::SUCCESS);
//! assert_eq!(consortStreamDestroy(stream), Status::SUCCESS);
//! assert_eq!(consortStreamQuery(stream), Status::INVALID_ARGUMENT);
//! ```

use std::ffi::{CStr, c_char};

use crate::Status;
use crate::failure::{Failure, guard};
use crate::raw::{Handle, Out};
use crate::stream::Stream;

/// Who this is. That there is such a function tells that this is not NCCL.
#[unsafe(no_mangle)]
pub extern "C" fn consortNcclIdentity() -> *const c_char {
    IDENTITY.as_ptr()
}

/// Makes a stream: a queue of calls that a thread of its own carries out one after the other.
#[unsafe(no_mangle)]
pub extern "C" fn consortStreamCreate(stream: Out<Handle>) -> Status {
    guard("consortStreamCreate", || {
        stream.check("stream")?;
        stream.set("stream", Stream::create(Handle::NULL)?)
    })
}

/// Takes a stream from the program. What is still to be done on it is done.
#[unsafe(no_mangle)]
pub extern "C" fn consortStreamDestroy(stream: Handle) -> Status {
    guard("consortStreamDestroy", || Stream::destroy(stream))
}

/// Waits until a stream has done all that it was given. The first call of it that has failed since the last
/// time gives the result. `NULL` has nothing to do.
#[unsafe(no_mangle)]
pub extern "C" fn consortStreamSynchronize(stream: Handle) -> Status {
    guard("consortStreamSynchronize", || {
        Stream::find(stream)?.map_or(Ok(()), |stream| stream.synchronize())
    })
}

/// Whether a stream has done all that it was given: `ncclSuccess`, or `ncclInProgress`.
#[unsafe(no_mangle)]
pub extern "C" fn consortStreamQuery(stream: Handle) -> Status {
    guard("consortStreamQuery", || match Stream::find(stream)? {
        Some(stream) if !stream.is_idle()? => Err(Failure::in_progress()),
        _ => Ok(()),
    })
}

/// Who this is.
const IDENTITY: &CStr = match CStr::from_bytes_with_nul(
    concat!("consort-nccl ", env!("CARGO_PKG_VERSION"), " (NCCL 2.30.7 API on CPU memory)\0")
        .as_bytes(),
) {
    Ok(text) => text,
    Err(_) => panic!("it ends with its only zero"),
};
/// What every error begins with.
pub(crate) const SIGNATURE: &str = concat!("[consort-nccl ", env!("CARGO_PKG_VERSION"), "]");
