//! Where bytes of a device lie.
#![allow(unsafe_code, reason = "a view of memory that Rust did not make can only be promised")]

use std::ptr::NonNull;

use consort_sys::view::{Source, Target};

/// Bytes of a device, which the driver has handed out to us or to somebody else. It is an address there, which is not
/// looked at here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: it is an address that the driver takes from every thread.
unsafe impl Send for Block {}
// SAFETY: as above; nothing can change.
unsafe impl Sync for Block {}

impl Block {
    /// No bytes at all.
    pub(crate) const NONE: Self = Self { start: NonNull::dangling(), len: 0 };

    /// As many bytes as the driver was asked for.
    pub(crate) fn new(start: NonNull<u8>, len: usize) -> Self {
        Self { start, len }
    }

    /// Bytes that somebody else has, and has a name for.
    pub(super) fn of(named: Source<'_>) -> Self {
        let start = NonNull::new(named.as_ptr().cast_mut()).expect("a view begins somewhere");
        Self { start, len: named.len() }
    }

    pub(crate) fn len(self) -> usize {
        self.len
    }

    /// The address, as the driver has it.
    pub(crate) fn address(self) -> u64 {
        self.start.as_ptr().expose_provenance() as u64
    }

    /// So many of them from a place on, if there are.
    pub(crate) fn part(self, at: usize, len: usize) -> Option<Self> {
        at.checked_add(len).filter(|&end| end <= self.len)?;
        // SAFETY: the place is within the bytes.
        Some(Self { start: unsafe { self.start.add(at) }, len })
    }

    /// Their name for calls that read them.
    ///
    /// # Safety
    /// For `'a` they are not given back to the driver, whose device has this number.
    pub(crate) unsafe fn source<'a>(self, device: u16) -> Source<'a> {
        // SAFETY: the caller promises it.
        unsafe { Source::on_device(self.start, self.len, device) }
    }

    /// Their name for calls that write them.
    ///
    /// # Safety
    /// As for [`source`](Self::source).
    pub(crate) unsafe fn target<'a>(self, device: u16) -> Target<'a> {
        // SAFETY: the caller promises it.
        unsafe { Target::on_device(self.start, self.len, device) }
    }
}
