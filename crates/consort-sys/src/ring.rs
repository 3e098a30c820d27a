//! Messages from one rank to another: rings through which the ranks of a group on one host stream
//! them. `ring/README.md` has the protocol.

mod bell;
mod block;
mod envelope;
mod flow;
mod inlet;
#[cfg(test)]
mod models;
mod outlet;
#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::arena::{Arena, ArenaError};
use crate::reach::{Reach, Unread};

pub use self::bell::Bell;
use self::block::Block;
pub use self::envelope::Envelope;
pub use self::inlet::Inlet;
pub use self::outlet::{Outlet, Sending};

/// A rank's ends of all its rings.
#[derive(Debug)]
pub struct Rings {
    /// To each rank.
    pub outlets: Vec<Outlet>,
    /// From each rank.
    pub inlets: Vec<Inlet>,
    /// Of each rank. This one's is rung when others have done something for it.
    pub bells: Vec<Bell>,
}

impl Rings {
    /// How many bytes a ring holds. Every message takes whole lines of 64, its envelope one.
    pub const BYTES: usize = 64 << 10;
    /// How much data fits into the envelope's line.
    pub const INLINE: usize = 40;
    /// Messages of these lengths are fetched from where they are, if ranks can reach each other's
    /// memory. Shorter ones are copied through the ring sooner than the system is asked; longer ones
    /// are copied past the caches, which the system does not do.
    pub const FETCHED: Range<usize> = 32 << 10..4 << 20;

    /// How many bytes of its arena each of `world` ranks gives, zero at first, on whole lines.
    pub const fn block_bytes(world: usize) -> usize {
        Block::bytes(world)
    }

    /// For the rank `me` of those whose blocks lie at these offsets of their arenas. `None` if one
    /// does not. `reaches` are the private memories of the others, which are reachable for all or
    /// for none.
    pub fn new(me: usize, blocks: &[(Arena, usize)], reaches: &[Option<Reach>]) -> Option<Self> {
        let world = blocks.len();
        let blocks: Vec<Block> =
            blocks.iter().map(|place| Block::new(place, world)).collect::<Option<_>>()?;
        Some(Self {
            outlets: (0..world)
                .map(|to| Outlet::new(&blocks[me], &blocks[to], to, reaches[to].is_some()))
                .collect(),
            inlets: blocks
                .iter()
                .zip(reaches)
                .map(|(from, reach)| Inlet::new(from, me, *reach))
                .collect(),
            bells: blocks.iter().map(Bell::new).collect(),
        })
    }
}

/// How far a message came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing moved: there is nothing to read, or no room to write.
    Stuck,
    /// Some of it moved, and then there was no more to read or no more room.
    Moved,
    /// All of it has moved now.
    Done,
}

/// Why a message cannot be moved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RingError {
    /// There is no memory for the ring.
    #[error(transparent)]
    Memory(#[from] ArenaError),
    /// A message could not be read where it is.
    #[error("a message could not be fetched: {0}")]
    Unread(Unread),
    /// The words or the envelopes that the other side wrote contradict each other.
    #[error("its memory is damaged: {0}")]
    Damaged(String),
}

/// What a processor hands over at a time.
const LINE: usize = 64;
const LINES: u32 = (Rings::BYTES / LINE) as u32;
