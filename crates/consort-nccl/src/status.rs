//! What a call says of itself.

use std::ffi::{CStr, c_int};

/// The result of a call: `ncclResult_t`.
///
/// ```
/// use consort_nccl::Status;
///
/// assert_eq!(Status::INVALID_USAGE.text(), c"invalid usage");
/// assert_eq!(Status(77).text(), c"unknown result code");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Status(pub c_int);

impl Status {
    /// It is done.
    pub const SUCCESS: Self = Self(0);
    /// CUDA has failed, which never happens here.
    pub const UNHANDLED_CUDA_ERROR: Self = Self(1);
    /// The system has refused something.
    pub const SYSTEM_ERROR: Self = Self(2);
    /// Something is wrong with this library, or with memory.
    pub const INTERNAL_ERROR: Self = Self(3);
    /// An argument makes no sense.
    pub const INVALID_ARGUMENT: Self = Self(4);
    /// The call makes no sense here, or not now.
    pub const INVALID_USAGE: Self = Self(5);
    /// Another rank is gone, or has given up.
    pub const REMOTE_ERROR: Self = Self(6);
    /// It is not done yet.
    pub const IN_PROGRESS: Self = Self(7);
    /// Others did not come in time.
    pub const TIMEOUT: Self = Self(8);

    /// What `ncclGetErrorString` says of it.
    pub fn text(self) -> &'static CStr {
        let texts = [
            c"no error",
            c"unhandled cuda error",
            c"unhandled system error",
            c"internal error",
            c"invalid argument",
            c"invalid usage",
            c"remote process exited or there was a network error",
            c"operation in progress",
            c"timeout",
        ];
        let place = usize::try_from(self.0).ok();
        place.and_then(|place| texts.get(place).copied()).unwrap_or(c"unknown result code")
    }
}
