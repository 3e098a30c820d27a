//! Where NCCL writes an answer.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::Code;

/// Where NCCL writes an answer: now, or from a thread of its own when it has one, and then perhaps once more. So it
/// stays where it is, and for as long as NCCL may write there.
#[derive(Debug)]
pub(super) struct Spot {
    /// None only while it is dropped.
    place: Option<Box<AtomicPtr<c_void>>>,
    /// Whether NCCL may still write there.
    is_open: bool,
}

impl Spot {
    pub(super) fn new() -> Self {
        Self { place: Some(Box::new(AtomicPtr::new(ptr::null_mut()))), is_open: false }
    }

    /// Takes notice of what the call answered that it was for.
    pub(super) fn after(mut self, code: Code) -> Self {
        self.is_open = code == Code::IN_PROGRESS;
        self
    }

    /// Takes notice that nothing will be written there any more.
    pub(super) fn close(&mut self) {
        self.is_open = false;
    }

    /// Whether NCCL may still write there.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    pub(super) fn as_ptr(&self) -> *mut *mut c_void {
        self.place.as_ref().map_or(ptr::null_mut(), |place| place.as_ptr())
    }

    /// What is there. Pairs with NCCL's writing, which releases what the answer points to.
    pub(super) fn load(&self) -> *mut c_void {
        self.place.as_ref().map_or(ptr::null_mut(), |place| place.load(Ordering::Acquire))
    }
}

impl Drop for Spot {
    fn drop(&mut self) {
        if self.is_open {
            // What NCCL may write to has to stay.
            std::mem::forget(self.place.take());
        }
    }
}
