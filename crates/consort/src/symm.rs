//! Symmetric memory: a buffer of the same size on every rank, which each of them can reach.
//!
//! # Where it lies
//!
//! In memory of the host that all ranks are on ([`Symmetric`]), or in that of the ranks' devices
//! ([`DeviceSymmetric`]), wherever those are. What both do is a trait, [`SymmetricMemory`], in bytes: put, get,
//! signal, wait, meet at a barrier.
//!
//! | | the host's | devices' |
//! |---|---|---|
//! | made with | [`Group::symmetric`] | [`Group::symmetric_on`], over NCCL 2.29.2 or later |
//! | ranks | of one host | of any |
//! | this rank's own part | slices under a lock: [`local`](Symmetric::local) | copies, [`read`](DeviceSymmetric::read) and [`write`](DeviceSymmetric::write); names for calls, [`source`](DeviceSymmetric::source) and [`target`](DeviceSymmetric::target) |
//! | other ranks' parts | all are [reached](SymmetricMemory::reaches) | put to all, get from those that the device reaches |
//! | who else is there | a slice keeps others out | nobody keeps anybody out: signals tell whose turn it is |
//! | asynchronous calls | own a window, [`keep`](Symmetric::keep) | own a clone: [`device::calls`](crate::device::calls) |
//! | kept under an id, pools, workspaces, collectives of its own | yes | no |
//!
//! The rest of this page is about that of the host. For devices the same holds of signals, of a rank's death, of
//! deadlines and of the end, with these differences:
//! - A put, a get and a signal are in order with the device's default stream: what that was given before is done first,
//!   and they return when the device is done. A signal goes from host to host, so that a wait for it can be given up.
//! - A device cannot take back what it was given. A put that it does not carry out within the group's
//!   timeout, and at least ten seconds, ends the group.
//! - When any rank dies, everyone's waits end, whomever they are for. A rank that ends its process in good order
//!   first waits two seconds for the others to drop the memory; those who have not by then lose it.
//!
//! # The subject
//!
//! [`Group::symmetric`] is a call of all ranks. Each gives a *window* of its shared memory, and gets
//! a [`Symmetric`], through which it reaches every rank's window: copies with
//! [`put`](Symmetric::put) and [`get`](Symmetric::get), slices with [`local`](Symmetric::local) and
//! [`peer`](Symmetric::peer). Nothing is sent: a rank that reads a peer's window reads the peer's
//! memory.
//!
//! **Who may touch a window.** A slice of it, `&mut [T]`, is had through a guard, and while somebody
//! has the guard nobody else gets in: not the owner, not another rank, neither slice nor copy. Copies
//! exclude slices, but not the copies of other ranks: two ranks that put to the same place leave a
//! mixture. When data is complete is for *signals* to tell.
//!
//! **Signals.** Every rank has a pad of counters, one for each channel and each rank. A
//! [`put_signal`](Symmetric::put_signal) raises a counter of another rank, which a
//! [`wait_signal`](Symmetric::wait_signal) there takes. Signals are counted, so none is lost, and the
//! sender does not wait. What was put before a signal is there after the wait for it. Channels are
//! independent of each other and of the group's calls: a thread may wait on one while another makes
//! collective calls.
//!
//! **Collectives** of the group on slices of [`local`](Symmetric::local) work on the memory where it
//! is, without copying it in; and a [`Symmetric`] has its own. An asynchronous call owns its buffers, and
//! so it is given a window that is owned, which [`keep`](Symmetric::keep) is for.
//! - A buffer of a call that lies in symmetric memory on one rank has to lie there on all. Ranks of
//!   which only some give a slice of a window have made different calls, and get
//!   [`Error::Mismatch`](crate::Error).
//! - A rank that is in a call on its window holds the window until everyone has made that call. So
//!   whoever wants to put something into it has to do so before its owner's call: put, then a
//!   [`barrier`](Symmetric::barrier) or a signal, then the collective. A rank that puts without one
//!   may find the window held by a call that waits for this very rank.
//!
//! **When a rank dies**, every wait for it ends with an error that names it, and so does the group.
//! A wait that comes to its deadline ends only itself: nothing has changed, and it can be made again.
//! Only a [`barrier`](Symmetric::barrier) that is given up ends the group, as any collective does.
//!
//! **The end.** Memory is given back when every rank has dropped its handles, and what it has
//! [kept](Kept): until then others may read it. Either keeps the group.
//!
//! # Where to start
//!
//! ```
//! # let group = consort::Builder::new().rank(0).world(1).init()?;
//! let memory = group.symmetric::<f32>(1024)?;
//! let right = (memory.rank().get() + 1) % memory.world() as u32;
//! memory.put_with_signal(right, 0, &[1.0, 2.0, 3.0], 0)?;
//! let left = (memory.rank().get() + memory.world() as u32 - 1) % memory.world() as u32;
//! memory.wait_signal(left, 0)?;
//! assert_eq!(memory.local()?[..3], [1.0, 2.0, 3.0]);
//! # Ok::<(), consort::Error>(())
//! ```
//!
//! | to have memory | |
//! |---|---|
//! | [`Group::symmetric`] | of its own, zero at first |
//! | [`Group::symmetric_with`] | with [`Options`]: more channels, or an id under which it is kept |
//! | [`Pool::symmetric`] | a part of a block that was taken beforehand |
//! | [`Group::workspace`] | on loan, from what the group has left over |
//! | [`Group::shares_memory`] | whether there is any to be had |
//! | [`Group::symmetric_on`] | of devices |
//!
//! | to reach a window | |
//! |---|---|
//! | [`local`](Symmetric::local), [`peer`](Symmetric::peer) | slices of it, on this thread, for as long as a guard is held |
//! | [`keep`](Symmetric::keep) | slices of this rank's own, owned: to be given to an asynchronous call, or to another thread |
//! | [`put`](Symmetric::put), [`get`](Symmetric::get) | copies |
//! | [`raw`](Symmetric::raw) | several copies, while other ranks may copy as well |

mod access;
mod anywhere;
mod block;
mod commons;
mod device;
mod direct;
mod kept;
mod line;
mod memory;
mod options;
mod pool;
mod rendezvous;
mod signals;
mod wait;
mod workspace;

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

pub use consort_sys::window::Plain;

pub use self::access::{Raw, Window};
pub use self::anywhere::SymmetricMemory;
pub(crate) use self::block::Held;
pub(crate) use self::commons::Commons;
pub use self::device::DeviceSymmetric;
pub use self::kept::Kept;
use self::memory::Memory;
pub use self::options::Options;
pub use self::pool::Pool;
use crate::error::{Error, Result};
use crate::group::{Group, Rank};

/// A rank's hold on symmetric memory: `len` elements in the window of each rank.
///
/// Clones are the same memory. The methods that wait do so as long as the group's calls, or as
/// [`within`](Self::within) says. The [module](self) tells what it is for.
#[derive(Debug)]
pub struct Symmetric<T> {
    group: Group,
    memory: Arc<Memory>,
    len: usize,
    elements: PhantomData<T>,
}

impl<T: Plain> Symmetric<T> {
    fn new(group: &Group, memory: Memory, len: usize) -> Self {
        Self { group: group.clone(), memory: Arc::new(memory), len, elements: PhantomData }
    }

    /// This process's number in the group.
    pub fn rank(&self) -> Rank {
        self.group.rank()
    }

    /// How many ranks have a window.
    pub fn world(&self) -> usize {
        self.group.world()
    }

    /// The group whose memory it is.
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// How many elements each window has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether windows have none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many bytes each window has.
    pub fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// Where in its block the memory begins, in bytes: not at 0 only if it is part of a [`Pool`].
    pub fn offset(&self) -> usize {
        self.memory.offset()
    }

    /// How many channels there are for signals.
    pub fn channels(&self) -> usize {
        self.memory.windows().shape().channels
    }

    /// The same memory, whose methods wait so long for other ranks.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let memory = group.symmetric::<u8>(1)?;
    /// let nothing = memory.within(Duration::from_millis(1)).wait_signal(0, 0);
    /// assert_eq!(nothing.unwrap_err().kind(), consort::ErrorKind::Deadline);
    /// # Ok::<(), consort::Error>(())
    /// ```
    #[must_use]
    pub fn within(&self, timeout: Duration) -> Self {
        Self { group: self.group.within(timeout), ..self.clone() }
    }

    /// A rank of the group, as an index, for this process to do something with its memory.
    ///
    /// # Errors
    /// When there is no such rank; when the group has ended; in a forked child.
    #[inline]
    fn index(&self, rank: impl Into<Rank>) -> Result<usize> {
        let lookout = self.group.commons()?.lookout();
        if lookout.has_ended() {
            return Err(lookout.ended());
        }
        let rank = rank.into();
        if rank.index() < self.world() {
            return Ok(rank.index());
        }
        let what = format!("there is no rank {rank} in a group of {}", self.world());
        Err(Error::Argument(what))
    }

    /// What is waited for, in words.
    fn describe(&self, what: &str) -> String {
        format!("{what} of symmetric memory {}", self.memory.number())
    }
}

impl<T> Clone for Symmetric<T> {
    fn clone(&self) -> Self {
        let Self { group, memory, len, elements } = self;
        Self { group: group.clone(), memory: memory.clone(), len: *len, elements: *elements }
    }
}
