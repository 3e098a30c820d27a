//! Memory for the program.

use std::ffi::c_void;

use crate::memory;
use crate::raw::{Buffer, Out};

exports! {
    /// Memory that begins where a page does, and is all zeros.
    fn ncclMemAlloc, pncclMemAlloc(ptr: Out<*mut c_void>, size: usize) {
        ptr.check("ptr")?;
        ptr.set("ptr", memory::allocate(size)?.cast())
    }

    /// Takes it back. `NULL` is nothing to take.
    fn ncclMemFree, pncclMemFree(ptr: Buffer) {
        if ptr.address() == 0 { Ok(()) } else { memory::free(ptr) }
    }
}
