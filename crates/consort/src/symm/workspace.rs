//! Symmetric memory on loan.

use std::sync::Arc;

use consort_sys::window::{Plain, Shape};

use super::block::{Block, Wanted};
use super::commons::State;
use super::memory::Memory;
use super::rendezvous::{Card, Kind, Trouble, exchange};
use super::{Options, Symmetric};
use crate::error::{Error, Result};
use crate::group::Group;

impl Group {
    /// Lends symmetric memory to work with for a while: `len` elements on every rank, which hold
    /// what was left there. The group keeps it when the handle is dropped, and lends it again; what
    /// is too small is replaced by a larger one. Memory that is still on loan on any rank is not
    /// lent twice. Every rank has to call it, with the same type and length.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let first = group.workspace::<f32>(100)?;
    /// let second = group.workspace::<f32>(100)?;
    /// first.local()?[0] = 1.0;
    /// second.local()?[0] = 2.0;
    /// assert_eq!(first.local()?[0], 1.0);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`symmetric`](Self::symmetric).
    pub fn workspace<T: Plain>(&self, len: usize) -> Result<Symmetric<T>> {
        let mut state = self.commons()?.state();
        let number = state.count();
        let channels = Options::new().channels;
        let wanted =
            Wanted { kind: Kind::Workspace, id: None, dtype: Some(T::DTYPE), len, channels };
        let shape = wanted.shape(self.world());
        let mut card = wanted.card(number);
        card.places[0] = state.idle();
        let mut reason = None;
        if shape.is_none() {
            let what = format!("{len} {} are more than can be addressed", T::DTYPE);
            (card.trouble, reason) = (Some(Trouble::Impossible), Some(Error::Argument(what)));
        }
        let cards = exchange(self, &card, reason)?;
        let shape = shape.expect("who asks for the impossible was refused");
        let block = self.lend(&mut state, &cards, shape)?;
        Ok(Symmetric::new(self, Memory::of_block(number, block), len))
    }

    /// A block that is idle on all ranks and large enough, or a new one. All ranks choose the same.
    fn lend(&self, state: &mut State, cards: &[Card], shape: Shape) -> Result<Arc<Block>> {
        let idle = cards.iter().fold(u64::MAX, |idle, card| idle & card.places[0]);
        let idle = (0..state.workspaces.len().min(MOST)).filter(|index| idle >> index & 1 == 1);
        let size = |index: &usize| state.workspaces[*index].windows().shape().bytes;
        if let Some(index) =
            idle.clone().filter(|index| size(index) >= shape.bytes).min_by_key(size)
        {
            let block = &mut state.workspaces[index];
            // Nobody uses it yet, and nobody does before everyone has forgotten what was there.
            let idle = Arc::get_mut(block).expect("it is not on loan, and nobody else lends it");
            idle.windows_mut().clear();
            self.barrier()?;
            return Ok(block.clone());
        }
        if let Some(index) = idle.max_by_key(size) {
            state.workspaces.remove(index);
        }
        let wanted = Wanted {
            kind: Kind::LargerWorkspace,
            id: None,
            dtype: None,
            len: shape.bytes.checked_next_multiple_of(GRAIN).unwrap_or(shape.bytes),
            channels: shape.channels,
        };
        let block = Block::meet(self, state.count(), &wanted, None)?;
        if state.workspaces.len() < MOST {
            state.workspaces.push(block.clone());
        }
        Ok(block)
    }
}

impl State {
    /// Which workspaces are not on loan on this rank: a bit for each.
    fn idle(&self) -> u64 {
        let idle = |block: &Arc<Block>| u64::from(Arc::strong_count(block) == 1);
        (0..MOST).zip(&self.workspaces).fold(0, |bits, (index, block)| bits | idle(block) << index)
    }
}

/// Requests that differ by less than this many bytes are for the same workspace.
const GRAIN: usize = 64 << 10;
/// The most workspaces that are kept.
const MOST: usize = u64::BITS as usize;
