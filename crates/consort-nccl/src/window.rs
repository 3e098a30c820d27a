//! Windows: memory of each rank that the others write to, without its doing.
//!
//! Ranks here have memory for themselves, so somebody has to write for the others: each rank has a thread that
//! takes what they send, in a group of its own, and puts it where it belongs. It is started with the first
//! window of a communicator.
//!
//! ```text
//!  ncclPutSignal          the peer's thread                 ncclWaitSignal
//!  note, data  ─────────▶ data into the window,
//!                         one more signal counted ────────▶ so many of that peer are taken
//! ```
//!
//! What a peer sends is carried out in its order, so what it has put before a signal is there when that is
//! counted.
//!
//! Ranks of one host reach each other's windows by pointers, too, where the memory came from `ncclMemAlloc`.

mod mailbox;
mod near;
mod service;

use std::any::Any;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{Arc, Mutex};

use consort::Group;

use crate::failure::{Failure, Result};
use crate::lock;
use crate::memory::{Hold, PAGE, Region};
use crate::raw::{Buffer, Handle};

pub(crate) use self::mailbox::{Signal, Wanted};
use self::near::Near;
pub(crate) use self::near::{P2P_DISABLE, is_near};
pub(crate) use self::service::{Service, Underway};

/// A window, as all ranks know it.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// Which of the communicator's it is: the same number on all ranks.
    pub(crate) index: u64,
    /// This rank's memory.
    pub(crate) mine: Region,
    /// How many bytes each rank has.
    pub(crate) sizes: Arc<[u64]>,
    flags: c_int,
    /// The way to each rank's memory.
    near: Arc<[Near]>,
    /// The communicator's, by number.
    pub(crate) comm: usize,
    pub(crate) service: Arc<Service>,
}

impl Window {
    /// What `ncclCommWindowRegister` is told.
    ///
    /// # Errors
    /// When it makes no sense.
    pub(crate) fn check(buff: Buffer, size: usize, flags: c_int) -> Result<Region> {
        if flags & !KNOWN != 0 {
            let what = format!("winFlags is {flags:#x}, which has others than {KNOWN:#x}");
            return Err(Failure::argument(what));
        }
        if size == 0 {
            return Err(Failure::argument("size is 0"));
        }
        if !buff.address().is_multiple_of(PAGE) {
            return Err(Failure::argument(format!(
                "buff is {:#x}, and has to be a multiple of {PAGE}, as what ncclMemAlloc gives is",
                buff.address()
            )));
        }
        Region::new("buff", buff, size)
    }

    /// Agrees with the other ranks on a window. Every rank has to call it.
    ///
    /// # Errors
    /// When they ask for different ones.
    pub(crate) fn open(
        service: &Arc<Service>,
        group: &Group,
        comm: usize,
        mine: Region,
        flags: c_int,
    ) -> Result<Self> {
        let card = [mine.len() as u64, flags as u64];
        let [token, address, process, descriptor, file, len, offset] = Near::tell(mine);
        let told = [card[0], card[1], token, address, process, descriptor, file, len, offset];
        let mut cards = vec![0_u64; told.len() * group.world()];
        group.all_gather(&told, &mut cards)?;
        let (cards, _) = cards.as_chunks::<{ 2 + near::WORDS }>();
        for (rank, other) in cards.iter().enumerate() {
            let differs = other[1] != card[1] || (flags & SYMMETRIC != 0 && other[0] != card[0]);
            if differs {
                return Err(Failure::argument(format!(
                    "rank {} registers {} bytes with winFlags {:#x}, rank {rank} {} bytes with {:#x}: they have \
                     to be the same",
                    group.rank(),
                    card[0],
                    card[1],
                    other[0],
                    other[1]
                )));
            }
        }
        let index = service.admit(mine);
        let sizes = cards.iter().map(|card| card[0]).collect();
        let (me, is_near) = (group.rank().index(), is_near(group));
        let near = cards.iter().enumerate().map(|(rank, &[_, _, ref place @ ..])| {
            if rank == me || is_near { Near::find(*place) } else { Near::Nowhere }
        });
        let near = near.collect();
        // Nobody writes before all can take it.
        group.barrier().inspect_err(|_| service.dismiss(index))?;
        Ok(Self { index, mine, sizes, flags, near, comm, service: service.clone() })
    }

    /// Ends it, when all that was put into it has come. Every rank has to call it.
    ///
    /// # Errors
    /// When a rank is gone, or does not come.
    pub(crate) fn close(&self, group: &Group) -> Result<()> {
        let sent = self.service.sent();
        let mut coming = vec![0_u64; sent.len()];
        group.all_to_all(&sent, &mut coming)?;
        self.service.await_all(&coming, group.timeout())?;
        self.service.dismiss(self.index);
        Ok(())
    }

    /// Where a rank's memory is from an offset on, in this process; nowhere if it is not reached.
    ///
    /// # Errors
    /// When there is no such rank or place.
    pub(crate) fn pointer(&self, rank: usize, offset: usize) -> Result<Option<usize>> {
        self.admits(rank, offset, 0)?;
        Ok(self.near[rank].start().map(|start| start + offset))
    }

    /// Whether so many bytes can be put at an offset of a peer's.
    ///
    /// # Errors
    /// When they cannot.
    pub(crate) fn admits(&self, peer: usize, offset: usize, len: usize) -> Result<()> {
        let size = self.sizes.get(peer).copied().unwrap_or_default();
        match (offset as u64).checked_add(len as u64) {
            Some(end) if end <= size => Ok(()),
            _ => Err(Failure::argument(format!(
                "{len} bytes at peerWinOffset {offset} are not within the {size} bytes that rank {peer} has in \
                 the window"
            ))),
        }
    }
}

/// A window's place among those that C knows of, before the ranks have agreed on it. Its memory stays from here on: so
/// whoever ends the communicator finds what it has to let go of, however far the window is.
pub(crate) fn reserve(comm: usize, hold: Option<Hold>) -> Place {
    let mut windows = lock(&WINDOWS);
    windows.last += 1;
    let number = FIRST + windows.last * STEP;
    windows.all.insert(number, Known { comm, window: None, hold });
    Place { number }
}

/// Where a window comes. If none does, it is given up when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    number: usize,
}

impl Place {
    /// What C calls the window.
    pub(crate) fn handle(&self) -> Handle {
        Handle::new(self.number)
    }

    /// From here on C finds it.
    pub(crate) fn settle(self, window: Window) {
        if let Some(known) = lock(&WINDOWS).all.get_mut(&self.number) {
            known.window = Some(window);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut windows = lock(&WINDOWS);
        if windows.all.get(&self.number).is_some_and(|known| known.window.is_none()) {
            windows.all.remove(&self.number);
        }
    }
}

/// The one that C calls so.
///
/// # Errors
/// When there is none, or it is another communicator's.
pub(crate) fn find(handle: Handle, comm: usize) -> Result<Window> {
    match known(handle)? {
        window if window.comm == comm => Ok(window),
        _ => Err(Failure::argument("the window is another communicator's")),
    }
}

/// The one that C calls so, whichever communicator's it is.
///
/// # Errors
/// When there is none.
pub(crate) fn known(handle: Handle) -> Result<Window> {
    let windows = lock(&WINDOWS);
    let known = windows.all.get(&handle.number());
    known.and_then(|known| known.window.clone()).ok_or_else(|| none(handle))
}

/// Whether memory that is to be put somewhere is a communicator's to read: NCCL asks that it be in one of its symmetric
/// windows.
///
/// # Errors
/// When it is not.
pub(crate) fn check_source(comm: usize, data: Region) -> Result<()> {
    let windows = lock(&WINDOWS);
    let is_in = |window: &Window| {
        window.comm == comm && window.flags & SYMMETRIC != 0 && window.mine.has(data)
    };
    if data.len() == 0 || windows.all.values().filter_map(|it| it.window.as_ref()).any(is_in) {
        return Ok(());
    }
    Err(Failure::argument(format!(
        "localbuff is {:#x}, whose {} bytes are not in a window of this communicator with NCCL_WIN_COLL_SYMMETRIC",
        data.address(),
        data.len()
    )))
}

fn none(handle: Handle) -> Failure {
    let number = handle.number();
    match handle.is_null() {
        true => Failure::argument("the window is NULL"),
        false => Failure::argument(format!(
            "the window is {number:#x}, which is none, or was deregistered before"
        )),
    }
}

/// C does not find it any more.
pub(crate) fn forget(handle: Handle) {
    lock(&WINDOWS).all.remove(&handle.number());
}

/// Nobody writes to a communicator's any more, so that their memory may go.
pub(crate) fn let_go_all_of(comm: usize) {
    drop(holds_of(comm, &mut lock(&WINDOWS)));
}

/// C does not find a communicator's any more. Gives what keeps their memory, for as long as somebody may write to it.
pub(crate) fn forget_all_of(comm: usize) -> Vec<Hold> {
    let mut windows = lock(&WINDOWS);
    let holds = holds_of(comm, &mut windows);
    windows.all.retain(|_, known| known.comm != comm);
    holds
}

fn holds_of(comm: usize, windows: &mut Windows) -> Vec<Hold> {
    let all = windows.all.values_mut().filter(|known| known.comm == comm);
    all.filter_map(|known| known.hold.take()).collect()
}

/// Keeps windows as they are until what it gives is dropped: see [`fork`](crate::fork).
pub(crate) fn hold_all() -> Box<dyn Any> {
    Box::new(lock(&WINDOWS))
}

/// All that C knows of.
struct Windows {
    all: BTreeMap<usize, Known>,
    last: usize,
}

struct Known {
    /// The communicator's, by number.
    comm: usize,
    /// None until the ranks have agreed on it.
    window: Option<Window>,
    /// None for memory of the program's own, and when nobody writes to it any more.
    hold: Option<Hold>,
}

static WINDOWS: Mutex<Windows> = Mutex::new(Windows { all: BTreeMap::new(), last: 0 });
/// No communicator or stream has such a number.
const FIRST: usize = 0x6000_0000_0000;
const STEP: usize = 0x10;
/// All ranks have the same size.
const SYMMETRIC: c_int = 1;
/// What can be asked for.
const KNOWN: c_int = 3;
