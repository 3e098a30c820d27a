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
use super::table::{Answer, Block, Handle, Lease, Leased};

/// Memory of the current device, made by NCCL so that it can use it without copies. It is given back when this and
/// all that was [made known](Comm::register) of it are dropped, and NCCL has forgotten it. Since 2.19.
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

/// Memory that a communicator knows, and so can use without copies. It is forgotten when this is dropped, which waits
/// until NCCL has; if it does not, memory of its own is kept until the communicator has ended.
///
/// ```no_run
/// use consort::nccl::{Comm, Memory};
///
/// # fn use_often(comm: &Comm) -> consort::nccl::Result<()> {
/// let memory = Memory::new(comm.library(), 1 << 20)?;
/// let known = comm.register(&memory)?;
/// // … calls with this memory, and streams that are done with them …
/// known.forget()
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the memory is forgotten when this is dropped"]
pub struct Registration {
    known: Known,
}

impl Registration {
    /// Has NCCL forget the memory, and waits until it has.
    ///
    /// # Errors
    /// When it does not in time, or fails, or within a group of this thread: the memory has to stay until the
    /// communicator has ended.
    pub fn forget(self) -> Result<()> {
        self.known.forget()
    }
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

    /// Has NCCL forget it now.
    pub(super) fn forget(mut self) -> Result<()> {
        group::refuse(self.inner.library(), self.lease().end())?;
        self.lease.take().map_or(Ok(()), |lease| self.inner.forget(lease))
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        let lease = self.lease.take();
        if let Some(lease) = lease.and_then(|lease| group::postpone(&self.inner, lease)) {
            self.inner.forget_or_warn(lease);
        }
    }
}

impl Inner {
    /// Makes memory known, and waits until it is.
    pub(super) fn lease(
        &self,
        function: &'static str,
        call: impl FnOnce(&Handle) -> Answer<(Code, Lease)>,
    ) -> Result<Lease> {
        let (answer, pass) = self.call(function, self.enter(function)?, call)?;
        let (code, mut lease) = self.succeed(function, answer, &pass)?;
        if code == Code::IN_PROGRESS {
            if let Err(error) = self.settle(function, &pass, self.limit()) {
                self.keep_until_its_end(lease);
                return Err(error);
            }
            lease.close();
        }
        Ok(lease)
    }

    /// Has NCCL forget memory, and waits until it has. What it may still use is kept until the communicator is over.
    pub(super) fn forget(&self, lease: Lease) -> Result<()> {
        match self.deregister(&lease) {
            Ok(()) => lease.release(),
            // With the communicator it forgets all.
            Err(Error::Ended { .. }) if self.gate().await_end(self.limit()) => lease.release(),
            Err(error) => {
                self.keep_until_its_end(lease);
                return Err(error);
            }
        }
        Ok(())
    }

    /// As [`forget`](Self::forget), for whoever cannot be told.
    pub(super) fn forget_or_warn(&self, lease: Lease) {
        if let Err(error) = self.forget(lease) {
            tracing::warn!("memory is kept until its communicator ends: {error}");
        }
    }

    fn deregister(&self, lease: &Lease) -> Result<()> {
        let function = lease.end();
        let pass = self.enter(function)?;
        let (answer, pass) = self.call(function, pass, |handle| lease.forget(handle))?;
        match self.succeed(function, answer, &pass)? {
            Code::IN_PROGRESS => self.settle(function, &pass, self.limit()),
            _ => Ok(()),
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
        let lease = self.inner().lease(function, |handle| {
            Lease::of_block(handle, gate, Leased::Buffer, memory.block())
        })?;
        Ok(Registration { known: Known::new(lease, self) })
    }

    /// As [`register`](Self::register), for memory that is not NCCL's own.
    ///
    /// # Safety
    /// The memory is there until it was [forgotten](Registration::forget), or the communicator has ended.
    ///
    /// # Errors
    /// When there are no bytes, or NCCL fails.
    #[allow(unsafe_code, reason = "only the caller knows how long the memory is there")]
    pub unsafe fn register_foreign(&self, memory: Target<'_>) -> Result<Registration> {
        let (function, gate) = ("ncclCommRegister", self.inner().gate());
        if memory.is_empty() {
            return Err(Error::argument(function, "no bytes at all; give at least one"));
        }
        let lease = self.inner().lease(function, |handle| {
            // SAFETY: the caller promises it.
            unsafe {
                Lease::of_memory(handle, gate, Leased::Buffer, memory.as_mut_ptr(), memory.len())
            }
        })?;
        Ok(Registration { known: Known::new(lease, self) })
    }
}
