//! The memory of a recording.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::ptr::{self, NonNull};

use rustix::mm::{Advice, MapFlags, ProtFlags};

use super::layout::Layout;

/// A layout in memory that reads as zeroes at first: a file's, or nobody else's.
#[derive(Debug)]
pub(super) struct Map {
    start: NonNull<Layout>,
}

// SAFETY: the memory belongs to no thread, and is reached as atomics only.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    /// Maps a file that has room for a layout.
    pub(super) fn of_file(file: &File) -> io::Result<Self> {
        // SAFETY: the kernel chooses where, so nothing that is mapped is replaced.
        let start =
            unsafe { rustix::mm::mmap(ptr::null_mut(), BYTES, ACCESS, MapFlags::SHARED, file, 0) }?;
        Self::at(start.cast())
    }

    /// Takes memory that no other process sees.
    pub(super) fn private() -> io::Result<Self> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: the kernel chooses where, so nothing that is mapped is replaced.
        let start = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), BYTES, ACCESS, flags) }?;
        // Few of its pages are ever written. It does without the advice, too.
        // SAFETY: it is the mapping from above, and the advice changes none of its bytes.
        let _ = unsafe { rustix::mm::madvise(start, BYTES, Advice::LinuxNoHugepage) };
        Self::at(start.cast())
    }

    fn at(start: *mut Layout) -> io::Result<Self> {
        let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start })
    }
}

impl Deref for Map {
    type Target = Layout;

    #[inline]
    fn deref(&self) -> &Layout {
        // SAFETY: it is mapped for as long as this lives, begins with a page as the layout does, and
        // has its size. The layout is made of atomics, for which any bytes will do, whoever writes them.
        unsafe { self.start.as_ref() }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: it is our mapping, and whatever borrowed from it has ended.
        let unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), BYTES) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

const BYTES: usize = size_of::<Layout>();
const ACCESS: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);
