//! What a group has in common: how to have symmetric memory, and what is kept of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use consort_sys::dtype::Element;
use consort_sys::window::Plain;

use super::block::{Block, Wanted};
use super::memory::Memory;
use super::rendezvous::Kind;
use super::{Options, Symmetric};
use crate::engine::{Lane, Lookout, Neighbour};
use crate::error::{Error, Result};
use crate::group::Group;

/// A group's symmetric memory.
#[derive(Debug)]
pub(crate) struct Commons {
    lookout: Lookout,
    neighbours: Arc<[Neighbour]>,
    state: Mutex<State>,
}

/// The same on every rank, as far as ranks make the same calls.
#[derive(Debug, Default)]
pub(super) struct State {
    /// How often memory was asked for.
    asked: u64,
    persistent: BTreeMap<String, Arc<Block>>,
    /// Blocks that are on loan, or waiting for it.
    pub(super) workspaces: Vec<Arc<Block>>,
}

impl State {
    /// The number of a request.
    pub(super) fn count(&mut self) -> u64 {
        self.asked += 1;
        self.asked
    }
}

impl Commons {
    /// Of the group that has this lane.
    pub(crate) fn new(lane: &Lane) -> Self {
        let (lookout, neighbours) = (lane.lookout().clone(), lane.neighbours().clone());
        Self { lookout, neighbours, state: Mutex::default() }
    }

    pub(super) fn lookout(&self) -> &Lookout {
        &self.lookout
    }

    /// The group's ranks.
    pub(super) fn neighbours(&self) -> &Arc<[Neighbour]> {
        &self.neighbours
    }

    /// Requests are made one after the other: their numbers have to be the same on all ranks.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// # Symmetric memory
///
/// See [`symm`](crate::symm).
impl Group {
    /// Whether all ranks share memory, so that they can have symmetric memory. It is the same on every
    /// rank, and costs nothing to ask: where the ranks are on several hosts, or are told to use TCP, they
    /// do not, and neither does one who only [pretends](Self::fake) to be a rank.
    ///
    /// ```
    /// use consort::symm::Symmetric;
    ///
    /// /// Where ranks can reach it, if there is such a place.
    /// fn bucket(group: &consort::Group, len: usize) -> consort::Result<Option<Symmetric<f32>>> {
    ///     group.shares_memory().then(|| group.symmetric(len)).transpose()
    /// }
    ///
    /// let group = consort::Builder::new().rank(0).world(1).init()?;
    /// assert!(bucket(&group, 100)?.is_some());
    /// assert!(bucket(&consort::Group::fake(0, 4)?, 100)?.is_none());
    /// # Ok::<(), consort::Error>(())
    /// ```
    pub fn shares_memory(&self) -> bool {
        self.commons().is_ok()
    }

    /// Makes symmetric memory: `len` elements on every rank, zero at first. Every rank has to call
    /// it, with the same type and length.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let memory = group.symmetric::<f64>(100)?;
    /// assert!(memory.local()?.iter().all(|&number| number == 0.0));
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Asymmetric`] on every rank when they differ in what they ask for, or when one of
    /// them cannot have it; that one is told why. Nothing is kept then, and the group goes on.
    /// Otherwise as any [`call`](Self::call).
    pub fn symmetric<T: Plain>(&self, len: usize) -> Result<Symmetric<T>> {
        self.symmetric_with(len, &Options::new())
    }

    /// As [`symmetric`](Self::symmetric), with options.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let options = consort::symm::Options::new().channels(2);
    /// assert_eq!(group.symmetric_with::<u8>(64, &options)?.channels(), 2);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`symmetric`](Self::symmetric). Memory that is kept under an id is refused while its
    /// handle lives, and when it is asked for with another length, type or number of channels.
    pub fn symmetric_with<T: Plain>(&self, len: usize, options: &Options) -> Result<Symmetric<T>> {
        let commons = self.commons()?;
        let mut state = commons.state();
        let wanted = Wanted {
            kind: if options.id.is_some() { Kind::Persistent } else { Kind::Memory },
            id: options.id.as_deref(),
            dtype: Some(T::DTYPE),
            len,
            channels: options.channels,
        };
        let number = state.count();
        let kept = options.id.as_ref().and_then(|id| state.persistent.get(id));
        let block = Block::meet(self, number, &wanted, kept)?;
        if let Some(id) = &options.id {
            state.persistent.insert(id.clone(), block.clone());
        }
        Ok(Symmetric::new(self, Memory::of_block(number, block), len))
    }

    /// Forgets an id under which symmetric memory is kept on this rank; says whether there was one.
    /// The memory is given back when every rank has done so, and has dropped its handles.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let options = consort::symm::Options::new().persistent("activations");
    /// group.symmetric_with::<f32>(64, &options)?;
    /// assert!(group.release_symmetric("activations"));
    /// assert!(!group.release_symmetric("activations"));
    /// # Ok::<(), consort::Error>(())
    /// ```
    pub fn release_symmetric(&self, id: &str) -> bool {
        self.commons().is_ok_and(|commons| commons.state().persistent.remove(id).is_some())
    }

    /// Whether a slice lies in this rank's shared memory, so that collectives can work on it where
    /// it is.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let memory = group.symmetric::<i32>(8)?;
    /// assert!(group.is_symmetric(&memory.local()?[2..5]));
    /// assert!(!group.is_symmetric(&[1, 2, 3]));
    /// # Ok::<(), consort::Error>(())
    /// ```
    pub fn is_symmetric<T: Element>(&self, elements: &[T]) -> bool {
        let Ok(neighbourhood) = self.shared.job.neighbourhood() else { return false };
        let (arena, bytes) = (neighbourhood.arena(), T::bytes(elements));
        !bytes.is_empty() && arena.offset_of(bytes.as_ptr(), bytes.len()).is_some()
    }

    pub(super) fn commons(&self) -> Result<&Commons> {
        self.shared.job.neighbourhood()?;
        let severed = || Error::SeveralHosts { group: self.name().to_owned() };
        self.shared.commons.as_deref().ok_or_else(severed)
    }
}
