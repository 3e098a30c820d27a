//! A part for each rank.

use consort_sys::reduce::Kernel;
use consort_sys::view::{Source, Target};

use super::super::drive::{Need, Turns, View};
use super::spread::Takes;
use super::way::Way;
use super::{chunk_of, chunks, slot};
use crate::call::Inputs;

/// Chunk by chunk, a rank publishes a piece of each rank's part, in slots one behind the other, and
/// takes the pieces in its own slot.
#[derive(Debug)]
pub(super) struct Deal<'a> {
    inputs: Option<Inputs<'a>>,
    takes: Takes<'a>,
    slots: Slots,
    way: Way,
}

impl<'a> Deal<'a> {
    /// `largest` is how large any part of any rank is.
    pub(super) fn new(
        inputs: Option<Inputs<'a>>,
        takes: Takes<'a>,
        largest: usize,
        me: usize,
        world: usize,
        way: Way,
    ) -> Self {
        Self { inputs, takes, slots: Slots::new(largest, me, world), way }
    }
}

impl Turns for Deal<'_> {
    fn posts(&self) -> u32 {
        self.slots.chunks
    }

    fn turns(&self) -> u32 {
        self.slots.chunks + 1
    }

    #[inline]
    fn publish(&mut self, turn: u32, view: &View<'_>) -> Source<'_> {
        if let Some(inputs) = self.inputs {
            self.slots.publish(inputs, turn, view);
        }
        Source::from(&[][..])
    }

    #[inline]
    fn after(&self, turn: u32) -> Need {
        turn.checked_sub(1).map_or(Need::Nobody, |chunk| self.takes.need(chunk))
    }

    #[inline]
    fn consume(&mut self, turn: u32, view: &View<'_>) {
        let Some(chunk) = turn.checked_sub(1) else { return };
        self.takes.each(|rank, target| {
            let range = self.slots.range(target.len(), chunk);
            let piece = self.slots.mine_of(view.buffer_of(rank, chunk), range.len());
            self.way.copy(piece, target.slice(range));
        });
    }
}

/// As [`Deal`], but what is in a rank's slots is combined.
#[derive(Debug)]
pub(super) struct DealReduce<'a> {
    kernel: Kernel,
    inputs: Inputs<'a>,
    output: Target<'a>,
    slots: Slots,
}

impl<'a> DealReduce<'a> {
    /// `largest` is how large any part is.
    pub(super) fn new(
        kernel: Kernel,
        inputs: Inputs<'a>,
        output: Target<'a>,
        largest: usize,
        me: usize,
        world: usize,
    ) -> Self {
        Self { kernel, inputs, output, slots: Slots::new(largest, me, world) }
    }
}

impl Turns for DealReduce<'_> {
    fn posts(&self) -> u32 {
        self.slots.chunks
    }

    fn turns(&self) -> u32 {
        self.slots.chunks + 1
    }

    #[inline]
    fn publish(&mut self, turn: u32, view: &View<'_>) -> Source<'_> {
        self.slots.publish(self.inputs, turn, view);
        Source::from(&[][..])
    }

    #[inline]
    fn after(&self, turn: u32) -> Need {
        turn.checked_sub(1).map_or(Need::Nobody, Need::Everyone)
    }

    #[inline]
    fn consume(&mut self, turn: u32, view: &View<'_>) {
        let Some(chunk) = turn.checked_sub(1) else { return };
        let Slots { me, world, .. } = self.slots;
        let range = self.slots.range(self.output.len(), chunk);
        let own = self.inputs.part(me, world).slice(range.clone());
        let operand = |rank| match rank == me {
            true => own,
            false => self.slots.mine_of(view.buffer_of(rank, chunk), range.len()),
        };
        view.combine(&self.kernel, &[self.output.slice(range.clone())], operand);
    }
}

/// How the parts of all ranks share a buffer.
#[derive(Clone, Copy, Debug)]
struct Slots {
    me: usize,
    world: usize,
    slot: usize,
    chunks: u32,
}

impl Slots {
    fn new(largest: usize, me: usize, world: usize) -> Self {
        let slot = slot(world);
        Self { me, world, slot, chunks: chunks(largest, slot) }
    }

    /// Which bytes of a part are in its slot in a turn.
    fn range(&self, len: usize, chunk: u32) -> std::ops::Range<usize> {
        chunk_of(len, self.slot, chunk)
    }

    /// What another rank has put into this rank's slot.
    fn mine_of<'v>(&self, buffer: Source<'v>, len: usize) -> Source<'v> {
        let start = self.me * self.slot;
        buffer.slice(start..start + len)
    }

    #[inline]
    fn publish(&self, inputs: Inputs<'_>, chunk: u32, view: &View<'_>) {
        let buffer = view.mine(chunk);
        for rank in (0..self.world).filter(|&rank| rank != self.me) {
            let part = inputs.part(rank, self.world);
            let range = self.range(part.len(), chunk);
            let start = rank * self.slot;
            buffer.slice(start..start + range.len()).copy_from(part.slice(range));
        }
    }
}
