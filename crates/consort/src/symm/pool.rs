//! Memory for many small requests, taken at once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use consort_sys::arena::Space;
use consort_sys::window::{Place, Plain, Shape, Windows};

use super::block::{Block, Wanted};
use super::memory::Memory;
use super::rendezvous::{Kind, Trouble, exchange};
use super::{Options, Symmetric};
use crate::error::{Error, Result};
use crate::group::Group;

/// A block of symmetric memory that is given out in parts.
///
/// A part lies at the same place of every rank's block, and its place is used again when its handle
/// is dropped. So ranks have to ask for parts and drop them in the same order. That they did is
/// looked at with each request: if not, it fails on all ranks, and says who is where.
///
/// ```
/// let group = consort::Builder::new().rank(0).world(1).init()?;
/// let pool = group.pool(1 << 16)?;
/// let first = pool.symmetric::<f32>(100)?;
/// let place = first.offset();
/// drop(first);
/// assert_eq!(pool.symmetric::<f32>(100)?.offset(), place);
/// # Ok::<(), consort::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Pool {
    group: Group,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    block: Arc<Block>,
    space: Mutex<Space>,
}

impl Group {
    /// Takes symmetric memory to be given out in parts: so many bytes on every rank. Every rank has
    /// to call it, with the same size.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let pool = group.pool(1 << 20)?;
    /// let (weights, steps) = (pool.symmetric::<f32>(1000)?, pool.symmetric::<u64>(1)?);
    /// assert_ne!(weights.offset(), steps.offset());
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`symmetric`](Self::symmetric).
    pub fn pool(&self, bytes: usize) -> Result<Pool> {
        let mut state = self.commons()?.state();
        let wanted = Wanted { kind: Kind::Pool, id: None, dtype: None, len: bytes, channels: 0 };
        let block = Block::meet(self, state.count(), &wanted, None)?;
        let space = Mutex::new(Space::new(bytes));
        Ok(Pool { group: self.clone(), shared: Arc::new(Shared { block, space }) })
    }
}

impl Pool {
    /// How many bytes each rank has given. Every part needs some of them for its signals.
    pub fn bytes(&self) -> usize {
        self.shared.block.windows().shape().bytes
    }

    /// A part of it: `len` elements on every rank, which hold what was left there. Every rank has to
    /// call it, with the same type and length.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let pool = group.pool(1 << 16)?;
    /// let part = pool.symmetric::<i32>(8)?;
    /// part.local()?.fill(0);
    /// part.barrier(0)?;
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Group::symmetric`]; when the pool has no room left; and when ranks have not asked for
    /// and dropped the same parts in the same order.
    pub fn symmetric<T: Plain>(&self, len: usize) -> Result<Symmetric<T>> {
        self.symmetric_with(len, &Options::new())
    }

    /// As [`symmetric`](Self::symmetric), with options. An id is not among them: a pool keeps all
    /// of its memory.
    ///
    /// # Errors
    /// As [`symmetric`](Self::symmetric).
    pub fn symmetric_with<T: Plain>(&self, len: usize, options: &Options) -> Result<Symmetric<T>> {
        let group = &self.group;
        let mut state = group.commons()?.state();
        let wanted = Wanted {
            kind: Kind::Part,
            id: options.id.as_deref(),
            dtype: Some(T::DTYPE),
            len,
            channels: options.channels,
        };
        let number = state.count();
        let mut card = wanted.card(number);
        card.since = self.shared.block.number();
        let mut reason = None;
        let part = wanted.shape(group.world()).and_then(|shape| Part::take(&self.shared, shape));
        if options.id.is_some() {
            let what = "a part of a pool has no id: the pool keeps it".to_owned();
            (card.trouble, reason) = (Some(Trouble::KeptOtherwise), Some(Error::Argument(what)));
        } else if let Some(part) = &part {
            card.places[0] = part.at as u64;
        } else {
            let bytes = self.bytes();
            let what = format!("no room for {len} {} in a pool of {bytes} bytes", T::DTYPE);
            (card.trouble, reason) = (Some(Trouble::PoolFull), Some(Error::Argument(what)));
        }
        exchange(group, &card, reason)?;
        let slot = part.and_then(|part| part.open(group));
        let slot = slot.expect("who has no part was refused");
        // Nobody uses it before everyone has forgotten what was there.
        group.barrier()?;
        Ok(Symmetric::new(group, Memory::of_pool(number, slot), len))
    }
}

impl Shared {
    fn space(&self) -> MutexGuard<'_, Space> {
        self.space.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A part of a pool that is taken on this rank: a control block, and a window behind it.
#[derive(Debug)]
struct Part {
    pool: Arc<Shared>,
    shape: Shape,
    at: usize,
    data: usize,
    len: usize,
}

impl Part {
    /// The first free part, if there is one.
    fn take(pool: &Arc<Shared>, shape: Shape) -> Option<Self> {
        // Windows of a page or more begin with a page.
        let align = if shape.bytes < PAGE { LINE } else { PAGE };
        let data = shape.control_bytes()?.checked_next_multiple_of(align)?;
        let len = data.checked_add(shape.bytes.checked_next_multiple_of(LINE)?)?;
        let at = pool.space().take(len, align)?;
        Some(Self { pool: pool.clone(), shape, at, data, len })
    }

    /// Everyone's windows at this place. What was signalled to this rank there before, and who held its
    /// window, is forgotten.
    fn open(self, group: &Group) -> Option<Slot> {
        let place = |place: &Place| Place {
            arena: place.arena.clone(),
            control: place.data + self.at,
            data: place.data + self.at + self.data,
        };
        let places = self.pool.block.windows().places().iter().map(place).collect();
        let patience = group.shared.job.neighbourhood().ok()?.patience();
        let mut windows = Windows::new(group.rank().index(), self.shape, places, patience)?;
        windows.clear();
        Some(Slot { windows: Arc::new(windows), part: self })
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.pool.space().give(self.at, self.len);
    }
}

/// A part of a pool that all ranks have agreed upon.
#[derive(Debug)]
pub(super) struct Slot {
    windows: Arc<Windows>,
    part: Part,
}

impl Slot {
    pub(super) fn windows(&self) -> &Arc<Windows> {
        &self.windows
    }

    /// Where in the pool the window begins.
    pub(super) fn offset(&self) -> usize {
        self.part.at + self.part.data
    }
}

const LINE: usize = 64;
const PAGE: usize = 4096;
