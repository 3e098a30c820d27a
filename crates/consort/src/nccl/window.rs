//! Memory that all ranks know, and writing to it from afar.

use consort_sys::dtype::Dtype;
use consort_sys::view::{Source, Target};

use super::code::Code;
use super::comm::Comm;
use super::error::{Error, Result};
use super::group;
use super::memory::{Known, Memory};
use super::stream::Stream;
use super::table::{Answer, Awaited, Foreign, Handle, Lease, Leased, Move, Place};
use super::version::Version;

/// Memory of each rank that all ranks of a communicator know. It is forgotten when this is dropped, which all ranks do
/// alike, before they end the communicator, and which waits until NCCL has forgotten it; if it does not, memory of its
/// own is kept until the communicator has ended.
///
/// ```no_run
/// use consort::nccl::{Comm, Memory, WindowOptions};
///
/// # fn reach(comm: &Comm) -> consort::nccl::Result<()> {
/// let memory = Memory::new(comm.library(), 1 << 20)?;
/// let window = comm.window(&memory, WindowOptions { symmetric: true, ..WindowOptions::default() })?;
/// for peer in 0..comm.world() {
///     match comm.peer_pointer(&window, peer, 4096)?.is_null() {
///         true => println!("rank {peer} has to be reached by put_signal"),
///         false => println!("the second page of rank {peer} can be read and written from here"),
///     }
/// }
/// window.forget()
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the memory is forgotten when this is dropped"]
pub struct Window {
    known: Known,
    len: usize,
}

impl Window {
    /// Has NCCL forget the memory, and waits until it has. All ranks do so.
    ///
    /// # Errors
    /// When the others do not in time, or NCCL fails, or within a group of this thread: the memory has to stay until
    /// the communicator has ended.
    pub fn forget(self) -> Result<()> {
        self.known.forget()
    }
}

/// What a window is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowOptions {
    /// All ranks use the same places of it in collectives, which are faster then.
    pub symmetric: bool,
    /// What is written to it arrives in order. Since 2.29.7.
    pub strict_ordering: bool,
}

/// Signals to wait for.
///
/// ```no_run
/// use consort::nccl::{Comm, Signals, Stream};
///
/// # fn hear_all(comm: &Comm) -> consort::nccl::Result<()> {
/// // Two of each other rank, whichever comes first.
/// let others = (0..comm.world()).filter(|&peer| peer != comm.rank());
/// let twice = |peer| Signals { count: 2, peer, signal: 0, context: 0 };
/// let awaited: Vec<Signals> = others.map(twice).collect();
/// comm.wait_signal(&awaited, Stream::DEFAULT)
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signals {
    /// How many.
    pub count: u32,
    /// Of which rank.
    pub peer: u32,
    /// Which.
    pub signal: u32,
    /// In which context.
    pub context: u32,
}

/// # Windows
///
/// Memory of a window begins at a multiple of 4096 bytes, as that of [`Memory`] does.
impl Comm {
    /// Makes memory of all ranks known to all. All ranks call it, with the same length and options. Since 2.27.
    ///
    /// # Errors
    /// When the others do not come in time, or NCCL fails.
    pub fn window(&self, memory: &Memory, options: WindowOptions) -> Result<Window> {
        let leased = self.flags(options)?;
        self.aligned(memory.as_ptr())?;
        self.open(memory.len(), |handle| {
            Lease::of_block(handle, self.inner().gate(), leased, memory.block())
        })
    }

    /// As [`window`](Self::window), for memory that is not NCCL's own.
    ///
    /// # Safety
    /// The memory is there until it was [forgotten](Window::forget), or the communicator has ended; and what other ranks
    /// write to it, and when, is what this rank expects.
    ///
    /// # Errors
    /// As [`window`](Self::window); and when there are no bytes, or they begin elsewhere.
    #[allow(unsafe_code, reason = "only the caller knows how long the memory is there")]
    pub unsafe fn window_foreign(
        &self,
        memory: Target<'_>,
        options: WindowOptions,
    ) -> Result<Window> {
        let leased = self.flags(options)?;
        let (start, len) = (memory.as_mut_ptr(), memory.len());
        if len == 0 {
            return Err(Error::argument(REGISTER, "no bytes at all; give at least one"));
        }
        self.aligned(start)?;
        self.open(len, |handle| {
            // SAFETY: the caller promises it.
            unsafe { Lease::of_memory(handle, self.inner().gate(), leased, start, len) }
        })
    }

    /// Where this rank's part of a window is. Since 2.29.2.
    ///
    /// # Errors
    /// When the window is another communicator's, or NCCL fails.
    pub fn window_start(&self, window: &Window) -> Result<*mut u8> {
        self.find("ncclWinGetUserPtr", window, Place::Own, 0)
    }

    /// Where on this device a peer's part of a window is, from an offset on. Null if the device cannot reach it. Since
    /// 2.29.2.
    ///
    /// # Errors
    /// As [`window_start`](Self::window_start); and when there is no such rank or offset.
    pub fn peer_pointer(&self, window: &Window, peer: u32, offset: usize) -> Result<*mut u8> {
        let function = "ncclGetPeerDevicePointer";
        let peer = self.check(function, Dtype::U8).peer("the peer", peer)?;
        self.find(function, window, Place::Peer(peer), offset)
    }

    /// As [`peer_pointer`](Self::peer_pointer), for a rank of those that this device can reach.
    ///
    /// # Errors
    /// As [`peer_pointer`](Self::peer_pointer).
    pub fn near_pointer(&self, window: &Window, near_rank: u32, offset: usize) -> Result<*mut u8> {
        let function = "ncclGetLsaDevicePointer";
        let rank = self.check(function, Dtype::U8).peer("the near rank", near_rank)?;
        self.find(function, window, Place::Near(rank), offset)
    }

    /// Where writing reaches all ranks that this device can reach at once, if the hardware can. Since 2.29.2.
    ///
    /// # Errors
    /// As [`window_start`](Self::window_start).
    pub fn multimem_pointer(&self, window: &Window, offset: usize) -> Result<*mut u8> {
        self.find("ncclGetLsaMultimemDevicePointer", window, Place::AllNear, offset)
    }

    /// Writes to a peer's part of a window, at an offset, and tells it. What is written comes from memory of a
    /// symmetric window, too. Since 2.29.2.
    ///
    /// ```no_run
    /// use consort::Dtype;
    /// use consort::nccl::{Comm, Memory, Signals, Stream, WindowOptions};
    ///
    /// # fn pass_on(comm: &Comm) -> consort::nccl::Result<()> {
    /// let (rank, world) = (comm.rank(), comm.world());
    /// let (right, left) = ((rank + 1) % world, (rank + world - 1) % world);
    /// // The first page is what this rank gives, the second is for what its left neighbour does.
    /// let memory = Memory::new(comm.library(), 2 * 4096)?;
    /// let window = comm.window(&memory, WindowOptions { symmetric: true, ..WindowOptions::default() })?;
    ///
    /// // SAFETY: only its address and its length are used.
    /// let mine = unsafe { memory.view() }.slice(0..4096).into();
    /// // SAFETY: nobody writes to the first page of any rank, nor looks at the second before the signal has come.
    /// unsafe { comm.put_signal(mine, Dtype::U8, right, &window, 4096, (0, 0), Stream::DEFAULT) }?;
    /// let from_left = Signals { count: 1, peer: left, signal: 0, context: 0 };
    /// comm.wait_signal(&[from_left], Stream::DEFAULT)?;
    /// // … when the stream is done the left neighbour's page is here, and this rank's page has left …
    /// # window.forget()
    /// # }
    /// ```
    ///
    /// # Safety
    /// As for [moving data](Self#moving-data), of what is read; and the peer expects what is written there, and
    /// does not look before it was told.
    ///
    /// # Errors
    /// When the arguments cannot be, or NCCL fails.
    #[expect(clippy::too_many_arguments, reason = "NCCL's call has eleven")]
    #[allow(unsafe_code, reason = "only the caller knows when memory may be used again")]
    pub unsafe fn put_signal(
        &self,
        local: Source<'_>,
        dtype: Dtype,
        peer: u32,
        window: &Window,
        offset: usize,
        (signal, context): (u32, u32),
        stream: Stream<'_>,
    ) -> Result<()> {
        let check = self.check("ncclPutSignal", dtype);
        let peer = check.peer("the peer", peer)?;
        let (number, count) = self.units(check, "what is written", local.len())?;
        if offset.checked_add(local.len()).is_none_or(|end| end > window.len) {
            let (bytes, room) = (local.len(), window.len);
            return check
                .refuse(format!("{bytes} bytes at {offset} are not within the window's {room}"));
        }
        let (signal, context) =
            (number_of(check.function, signal)?, number_of(check.function, context)?);
        let window = self.name(check.function, window)?;
        let local = local.as_ptr();
        let what =
            Move::PutSignal { local, count, dtype: number, peer, window, offset, signal, context };
        // SAFETY: the caller promises it.
        unsafe { self.issue(check.function, what, stream) }
    }

    /// Tells a peer, when the stream comes to it. Since 2.29.2.
    ///
    /// # Errors
    /// As [`put_signal`](Self::put_signal).
    pub fn signal(&self, peer: u32, signal: u32, context: u32, stream: Stream<'_>) -> Result<()> {
        let function = "ncclSignal";
        self.inner().must_be_alive(function)?;
        let peer = self.check(function, Dtype::U8).peer("the peer", peer)?;
        let (signal, context) = (number_of(function, signal)?, number_of(function, context)?);
        let call = |handle: &Handle| handle.signal(peer, signal, context, stream.as_raw());
        self.perform(function, call).map(drop)
    }

    /// Has the stream wait until peers have told this rank. Since 2.29.2.
    ///
    /// # Errors
    /// As [`put_signal`](Self::put_signal).
    pub fn wait_signal(&self, signals: &[Signals], stream: Stream<'_>) -> Result<()> {
        let function = "ncclWaitSignal";
        self.inner().must_be_alive(function)?;
        let check = self.check(function, Dtype::U8);
        if signals.is_empty() {
            return check.refuse("no signals to wait for");
        }
        let awaited = signals.iter().map(|signals| {
            Ok(Awaited {
                count: number_of(function, signals.count)?,
                peer: check.peer("the peer", signals.peer)?,
                signal: number_of(function, signals.signal)?,
                context: number_of(function, signals.context)?,
            })
        });
        let awaited = awaited.collect::<Result<Vec<_>>>()?;
        self.perform(function, |handle| handle.wait_signal(&awaited, stream.as_raw())).map(drop)
    }

    fn open(
        &self,
        len: usize,
        call: impl FnOnce(&Handle) -> Answer<(Code, Lease)>,
    ) -> Result<Window> {
        let inner = self.inner();
        group::refuse(inner.library(), REGISTER)?;
        inner.must_be_alive(REGISTER)?;
        let lease = inner.lease(REGISTER, call)?;
        Ok(Window { known: Known::new(lease, self), len })
    }

    fn flags(&self, options: WindowOptions) -> Result<Leased> {
        let (needed, found) = (Version::new(2, 29, 7), self.library().version());
        if options.strict_ordering && found < needed {
            let function = "WindowOptions::strict_ordering";
            return Err(Error::NeedsVersion { function, needed, found });
        }
        let flags = i32::from(options.symmetric) | (i32::from(options.strict_ordering) << 1);
        Ok(Leased::Window(flags))
    }

    fn aligned(&self, start: *const u8) -> Result<()> {
        match start.addr().is_multiple_of(ALIGNMENT) {
            true => Ok(()),
            false => self.check(REGISTER, Dtype::U8).refuse(format!(
                "a window begins at a multiple of {ALIGNMENT} bytes, not at {start:p}; Memory does"
            )),
        }
    }

    fn find(
        &self,
        function: &'static str,
        window: &Window,
        of: Place,
        offset: usize,
    ) -> Result<*mut u8> {
        if offset > window.len {
            let reason = format!("offset {offset} is not within the window's {} bytes", window.len);
            return Err(Error::argument(function, reason));
        }
        self.name(function, window)?;
        let inner = self.inner();
        let (answer, pass) = inner.call(function, inner.enter(function)?, |handle| {
            window.known.lease().place(handle, of, offset)
        })?;
        let answer = answer.ok_or_else(|| no_window(function))?;
        inner.succeed(function, answer, &pass).map(|(_, start)| start)
    }

    /// NCCL's name for a window of this communicator.
    fn name(&self, function: &'static str, window: &Window) -> Result<Foreign> {
        if !window.known.lease().is_of(self.inner().gate()) {
            return Err(Error::argument(function, "the window belongs to another communicator"));
        }
        window.known.lease().window().ok_or_else(|| no_window(function))
    }
}

fn no_window(function: &'static str) -> Error {
    Error::argument(function, "NCCL has made no window: these devices have no symmetric memory")
}

fn number_of(function: &'static str, number: u32) -> Result<i32> {
    let reason = || format!("{number} is too large; signals, contexts and counts are below 2³¹");
    i32::try_from(number).map_err(|_| Error::argument(function, reason()))
}

const REGISTER: &str = "ncclCommWindowRegister";
/// Of the memory of windows.
const ALIGNMENT: usize = 4096;
