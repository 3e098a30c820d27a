//! Memory for the program.
//!
//! ```
//! use consort_nccl::api::memory::{ncclMemAlloc, ncclMemFree};
//! use consort_nccl::raw::{Buffer, Out};
//! use consort_nccl::Status;
//!
//! let mut memory = std::ptr::null_mut();
//! // SAFETY: it lives until the call has returned.
//! assert_eq!(ncclMemAlloc(unsafe { Out::from_raw(&mut memory) }, 1000), Status::SUCCESS);
//! // SAFETY: nobody else uses it.
//! assert_eq!(ncclMemFree(unsafe { Buffer::from_raw(memory) }), Status::SUCCESS);
//! ```

use std::ffi::c_void;

use crate::memory;
use crate::raw::{Buffer, Out};

exports! {
    /// Memory that begins where a page does, and is all zeros unless `MALLOC_PERTURB_` is set. Ranks of this host reach
    /// it by a pointer when there is a window on it.
    fn ncclMemAlloc, pncclMemAlloc(ptr: Out<*mut c_void>, size: usize) {
        ptr.check("ptr")?;
        ptr.set("ptr", memory::allocate_shared(size)?.cast())
    }

    /// Takes it back. `NULL` is nothing to take.
    fn ncclMemFree, pncclMemFree(ptr: Buffer) {
        if ptr.address() == 0 { Ok(()) } else { memory::free(ptr) }
    }
}
