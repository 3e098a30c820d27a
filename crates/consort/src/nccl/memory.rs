//! Memory of NCCL's making, and memory that is made known to it.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use consort_sys::view::Target;

use super::code::Code;
use super::comm::{Comm, Inner};
use super::error::{Error, Result};
use super::group;
use super::library::Library;
use super::table::{Block, Lease, Leased};

/// Memory of the current device, made by NCCL so that it can use it without copies. It is given back when this and
/// all that was [made known](Comm::register) of it are dropped. Since 2.19.
///
/// ```no_run
/// use consort::nccl::{Library, Memory};
///
/// let memory = Memory::new(Library::find()?, 1 << 20)?;
/// assert_eq!(memory.len(), 1 << 20);
/// # Ok::<(), consort::nccl::Error>(())
/// ```
#[derive(Clone)]
pub struct Memory {
    block: Arc<Block>,
    library: Library,
}

impl Memory {
    /// So many bytes.
    ///
    /// # Errors
    /// When there are none, or not so many.
    pub fn new(library: Library, len: usize) -> Result<Self> {
        let function = "ncclMemAlloc";
        if len == 0 {
            return Err(Error::argument(function, "no bytes at all; give at least one"));
        }
        let (_, block) = library.succeed(function, library.table().allocate(len), None)?;
        let block =
            block.ok_or_else(|| library.failure(function, Code::SYSTEM_ERROR, None, None))?;
        Ok(Self { block: Arc::new(block), library })
    }

    /// How many bytes.
    pub fn len(&self) -> usize {
        self.block.len()
    }

    /// Whether there are none, which cannot be.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where they begin, on the device.
    pub fn as_ptr(&self) -> *mut u8 {
        self.block.start().as_ptr()
    }

    /// A view of them, if they are the host's: those of consort's own library.
    ///
    /// # Safety
    /// Nobody else writes there while it is looked at, nor looks while it is written: no other view, and no
    /// call that has not ended.
    #[allow(unsafe_code, reason = "a view of memory that Rust did not make can only be promised")]
    pub unsafe fn on_host(&self) -> Option<Target<'_>> {
        // SAFETY: it is the host's.
        self.library.is_on_host().then(|| unsafe { self.view() })
    }

    /// A view of them, to give to NCCL.
    ///
    /// # Safety
    /// Nothing but their address and length is used on the host, unless the host can reach them.
    #[allow(unsafe_code, reason = "a view of memory that Rust did not make can only be promised")]
    pub unsafe fn view(&self) -> Target<'_> {
        let start: NonNull<u8> = self.block.start();
        // SAFETY: it is there for as long as this is, and no reference to it is ever made; the caller sees to it that
        // nobody looks into it who cannot.
        unsafe { Target::from_raw(start, self.len()) }
    }

    pub(super) fn block(&self) -> &Arc<Block> {
        &self.block
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of NCCL's at {:p}", self.len(), self.as_ptr())
    }
}

/// Memory that a communicator knows, and so can use without copies. It is forgotten when this is dropped.
#[derive(Debug)]
#[must_use = "the memory is forgotten when this is dropped"]
pub struct Registration {
    _known: Known,
}

/// Memory that is known until this is dropped; in a group, until that has ended.
#[derive(Debug)]
pub(super) struct Known {
    /// None only while it is dropped.
    lease: Option<Lease>,
    inner: Arc<Inner>,
}

impl Known {
    pub(super) fn new(lease: Lease, comm: &Comm) -> Self {
        Self { lease: Some(lease), inner: comm.inner().clone() }
    }

    pub(super) fn lease(&self) -> &Lease {
        self.lease.as_ref().expect("it is there until this is dropped")
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        let lease = self.lease.take();
        if let Some(lease) = lease.and_then(|lease| group::postpone(&self.inner, lease)) {
            drop(lease);
            self.inner.rest();
        }
    }
}

/// # Memory
impl Comm {
    /// Makes memory known to this communicator, for calls of this rank with it. Since 2.19.
    ///
    /// # Errors
    /// When NCCL fails.
    pub fn register(&self, memory: &Memory) -> Result<Registration> {
        let (function, gate) = ("ncclCommRegister", self.inner().gate());
        let (_, lease) = self.inner().at_once(function, |handle| {
            Lease::of_block(handle, gate, Leased::Buffer, memory.block())
        })?;
        Ok(Registration { _known: Known::new(lease, self) })
    }

    /// As [`register`](Self::register), for memory that is not NCCL's own.
    ///
    /// # Safety
    /// The memory is there until the registration has been dropped, or the communicator has ended.
    ///
    /// # Errors
    /// When there are no bytes, or NCCL fails.
    #[allow(unsafe_code, reason = "only the caller knows how long the memory is there")]
    pub unsafe fn register_foreign(&self, memory: Target<'_>) -> Result<Registration> {
        let (function, gate) = ("ncclCommRegister", self.inner().gate());
        if memory.is_empty() {
            return Err(Error::argument(function, "no bytes at all; give at least one"));
        }
        let (_, lease) = self.inner().at_once(function, |handle| {
            // SAFETY: the caller promises it.
            unsafe {
                Lease::of_memory(handle, gate, Leased::Buffer, memory.as_mut_ptr(), memory.len())
            }
        })?;
        Ok(Registration { _known: Known::new(lease, self) })
    }
}
