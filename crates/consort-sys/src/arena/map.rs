//! A memory file and where it is mapped: the only place that knows addresses.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use super::error::{ArenaError, Unfit};
use super::size;
use crate::view::Target;

/// A memory file, mapped whole, readable and writable, for as long as this lives.
///
/// Its size cannot change: it is sealed. So every byte of the mapping stays backed by the file.
#[derive(Debug)]
pub(super) struct Map {
    fd: OwnedFd,
    start: NonNull<u8>,
    size: usize,
}

// SAFETY: the mapping belongs to no thread. Atomics in it may be shared, slices are under the lock of a
// window, and whoever views the same bytes on two threads has agreed to order that by a word.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    /// Makes a file of at least so many bytes, or as many as can be mapped.
    pub(super) fn create(bytes: usize) -> Result<Self, ArenaError> {
        let failed = |call| move |source| ArenaError::Create { call, source };
        let fd = create_file().map_err(failed("memfd_create"))?;
        let mut last = (bytes, Errno::NOMEM);
        for size in size::attempts(bytes)? {
            // Mapped before it has a size, as the size may have to be less and is then sealed.
            let start = match map_file(fd.as_fd(), size) {
                Ok(start) => start,
                Err(refusal) => {
                    last = (size, refusal);
                    continue;
                }
            };
            let map = Self { fd, start, size };
            rustix::fs::ftruncate(&map.fd, size as u64).map_err(failed("ftruncate"))?;
            rustix::fs::fcntl_add_seals(&map.fd, SEALS).map_err(failed("fcntl F_ADD_SEALS"))?;
            map.advise();
            return Ok(map);
        }
        Err(ArenaError::Map { bytes: last.0, source: last.1 })
    }

    /// Maps the file that a peer made.
    pub(super) fn open(fd: OwnedFd) -> Result<Self, ArenaError> {
        let seals = rustix::fs::fcntl_get_seals(&fd).map_err(Unfit::NotMemory)?;
        let missing = SEALS.difference(seals);
        if !missing.is_empty() {
            let names = SEAL_NAMES.iter().filter(|(seal, _)| missing.contains(*seal));
            return Err(Unfit::Unsealed(names.map(|(_, name)| *name).collect()).into());
        }
        // Asked after the seals, so it stays as it is.
        let status = rustix::fs::fstat(&fd).map_err(Unfit::NotMemory)?;
        let bytes = u64::try_from(status.st_size).unwrap_or_default();
        let size = size::of_peer(bytes).ok_or(Unfit::Size(bytes))?;
        let start =
            map_file(fd.as_fd(), size).map_err(|source| ArenaError::Map { bytes: size, source })?;
        let map = Self { fd, start, size };
        map.advise();
        Ok(map)
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// # Safety
    /// While the view is used, this process has no reference to the bytes: neither to an atomic nor,
    /// unless its holder has lent them, through a [window](crate::window).
    #[inline]
    pub(super) unsafe fn view(&self, offset: usize, len: usize) -> Option<Target<'_>> {
        let start = self.within(offset, len)?;
        // SAFETY: the bytes are within the mapping, which outlives the borrow of `self`, and the
        // caller sees to it that there are no references to them.
        Some(unsafe { Target::from_raw(start, len) })
    }

    /// # Safety
    /// While the reference lives, this process reaches these bytes only as an atomic of this size.
    #[inline]
    pub(super) unsafe fn word(&self, offset: usize) -> Option<&AtomicU32> {
        let start = self.aligned::<AtomicU32>(offset)?;
        // SAFETY: it is aligned, within the mapping, which outlives the borrow of `self`, and any
        // bytes make a valid atomic. Other processes may write it at any time, as an atomic allows;
        // that this one does so atomically is for the caller to see to.
        Some(unsafe { start.as_ref() })
    }

    /// # Safety
    /// As for the word of four bytes.
    #[inline]
    pub(super) unsafe fn word64(&self, offset: usize) -> Option<&AtomicU64> {
        let start = self.aligned::<AtomicU64>(offset)?;
        // SAFETY: as for the word of four bytes.
        Some(unsafe { start.as_ref() })
    }

    #[inline]
    pub(super) fn offset_of(&self, start: *const u8, len: usize) -> Option<usize> {
        let offset = start.addr().checked_sub(self.start.addr().get())?;
        (offset.checked_add(len)? <= self.size).then_some(offset)
    }

    pub(super) fn populate(&self, offset: usize, len: usize) -> Result<(), ArenaError> {
        let outside = ArenaError::Outside { offset, len, size: self.size };
        self.within(offset, len).ok_or(outside)?;
        let page = size::page();
        let first = offset - offset % page;
        // The size is a multiple of the page, so the last page is whole.
        let pages = (offset + len).next_multiple_of(page) - first;
        let start = self.within(first, pages).expect("pages of a mapping are within it");
        loop {
            // SAFETY: the range is within our mapping, and populating changes none of its bytes.
            let populated = unsafe {
                rustix::mm::madvise(start.as_ptr().cast(), pages, Advice::LinuxPopulateWrite)
            };
            match populated {
                Err(Errno::INTR | Errno::AGAIN) => continue,
                Err(Errno::INVAL) => self.touch(first, pages),
                Err(refusal) => return Err(super::commit::shortage(pages, Some(refusal))),
                Ok(()) => {}
            }
            return Ok(());
        }
    }

    /// Writes to each page what it holds, for kernels that do not populate.
    pub(super) fn touch(&self, first: usize, len: usize) {
        for offset in (first..first + len).step_by(size::page()) {
            // SAFETY: pages are populated before anybody in this process uses them otherwise; what
            // other processes do with them meanwhile, a word of them takes atomically.
            let word = unsafe { self.word(offset) };
            word.expect("a page begins with a word").fetch_or(0, Ordering::Relaxed);
        }
    }

    /// What makes the mapping better but is not needed: huge pages where the kernel has them for
    /// shared memory, and core files without the memory of every rank.
    fn advise(&self) {
        for advice in [Advice::LinuxHugepage, Advice::LinuxDontDump] {
            // SAFETY: the range is our mapping, and neither advice changes what it holds.
            let _ = unsafe { rustix::mm::madvise(self.start.as_ptr().cast(), self.size, advice) };
        }
    }

    #[inline]
    fn aligned<T>(&self, offset: usize) -> Option<NonNull<T>> {
        let start = self.within(offset, size_of::<T>())?;
        // The mapping begins with a page, so an aligned offset is an aligned address.
        offset.is_multiple_of(align_of::<T>()).then_some(start.cast())
    }

    #[inline]
    fn within(&self, offset: usize, len: usize) -> Option<NonNull<u8>> {
        if offset.checked_add(len)? > self.size {
            return None;
        }
        // SAFETY: the offset is within the mapping, or one past its end.
        Some(unsafe { self.start.add(offset) })
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: it is our mapping, and whatever borrowed from it has ended.
        let unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.size) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

fn create_file() -> rustix::io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Some systems permit only memory that cannot be executed; old kernels do not know the flag.
    match rustix::fs::memfd_create(NAME, flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => rustix::fs::memfd_create(NAME, flags),
        created => created,
    }
}

fn map_file(fd: BorrowedFd<'_>, size: usize) -> rustix::io::Result<NonNull<u8>> {
    let (access, flags) =
        (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::NORESERVE);
    // SAFETY: the kernel chooses where, so nothing that is mapped is replaced.
    let start = unsafe { rustix::mm::mmap(ptr::null_mut(), size, access, flags, fd, 0) }?;
    NonNull::new(start.cast()).ok_or(Errno::NOMEM)
}

/// What a process list shows as the name of the mapping.
const NAME: &str = "consort";

const SEALS: SealFlags = SealFlags::GROW.union(SealFlags::SHRINK).union(SealFlags::SEAL);
const SEAL_NAMES: [(SealFlags, &str); 3] = [
    (SealFlags::SHRINK, "shrinking"),
    (SealFlags::GROW, "growing"),
    (SealFlags::SEAL, "further seals"),
];
