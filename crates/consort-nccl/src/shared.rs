//! Memory that other processes of the host can map.
//!
//! It is a file without a name, which they open by way of the process that has it. So they need to be that
//! process's user, and to see it; whoever is not so lucky, or finds another file there, has no way to it.

use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::ptr::{self, NonNull};

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Some memory, of this process or another. It is unmapped when this is dropped.
#[derive(Debug)]
pub(crate) struct Shared {
    start: NonNull<c_void>,
    len: usize,
    file: File,
}

// SAFETY: it is memory, which no thread is special to.
unsafe impl Send for Shared {}
// SAFETY: nothing here looks into it.
unsafe impl Sync for Shared {}

/// Where to find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) process: u64,
    pub(crate) descriptor: u64,
    /// The file's number, which no other file of the kind has.
    pub(crate) file: u64,
    pub(crate) len: u64,
}

impl Shared {
    /// So many bytes, which are zero.
    ///
    /// # Errors
    /// When the system has not so many, or no such files.
    pub(crate) fn new(len: usize) -> io::Result<Self> {
        let file = File::from(memfd_create("consort-nccl", MemfdFlags::CLOEXEC)?);
        ftruncate(&file, len as u64)?;
        Self::map(file, len)
    }

    /// What is at a place, if this process finds it there.
    pub(crate) fn open(place: Place) -> Option<Self> {
        let Place { process, descriptor, file: number, len } = place;
        let path = format!("/proc/{process}/fd/{descriptor}");
        let file = OpenOptions::new().read(true).write(true).open(path).ok()?;
        let found = file.metadata().ok().filter(|found| found.is_file())?;
        if found.ino() != number || found.len() != len {
            return None;
        }
        Self::map(file, usize::try_from(len).ok()?).ok()
    }

    /// Where it is, for other processes.
    pub(crate) fn place(&self) -> Place {
        let process = std::process::id().into();
        let descriptor = u64::try_from(self.file.as_raw_fd()).unwrap_or(u64::MAX);
        let file = self.file.metadata().map_or(0, |it| it.ino());
        Place { process, descriptor, file, len: self.len as u64 }
    }

    /// Where it begins, in this process.
    pub(crate) fn address(&self) -> usize {
        self.start.as_ptr().expose_provenance()
    }

    /// How many bytes there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    fn map(file: File, len: usize) -> io::Result<Self> {
        let (read_write, shared) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: it is mapped where nothing else is.
        let start = unsafe { mmap(ptr::null_mut(), len, read_write, shared, &file, 0) }?;
        let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, len, file })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: it was mapped here, for as many bytes, and the program has promised to use it no more.
        let _ = unsafe { munmap(self.start.as_ptr(), self.len) };
    }
}
