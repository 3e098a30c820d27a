//! A rank's memory: cells for the chunks of its three spaces.

use super::value::{UNDEFINED, Value, Values};
use crate::op::Collective;
use crate::program::{Chunks, Program, Space};

/// What a rank has. In place, a cell can belong to `In` and `Out`.
pub(super) struct Memory {
    /// Where each space begins, and how many chunks it has: `In`, `Out`, scratch.
    spaces: [(u32, u32); 3],
    cells: Vec<Cell>,
}

#[derive(Clone, Copy)]
pub(super) struct Cell {
    pub(super) value: Value,
    /// The round that wrote it, or [`NEVER`].
    pub(super) written: u32,
    /// The round and the step whose receive writes it.
    claim: (u32, u32),
}

pub(super) const NEVER: u32 = u32::MAX;

impl Memory {
    /// The memory of a rank, holding what the contract says is there before.
    pub(super) fn new(
        op: Collective,
        world: u32,
        rank: u32,
        in_place: bool,
        program: &Program,
        values: &Values,
    ) -> Self {
        let (ins, outs) = (op.chunks(Space::In, world, rank), op.chunks(Space::Out, world, rank));
        let (input, output) = starts(op, rank, in_place, ins, outs);
        let scratch = (input + ins).max(output + outs);
        let scratches = program.scratch().len() as u32;
        let cell = Cell { value: UNDEFINED, written: NEVER, claim: (NEVER, 0) };
        let mut cells = vec![cell; (scratch + scratches) as usize];
        let broadcast = matches!(op, Collective::Broadcast { root } if root == rank);
        let (start, count) = if broadcast { (output, outs) } else { (input, ins) };
        for chunk in 0..count {
            cells[(start + chunk) as usize].value = values.contribution(rank, chunk);
        }
        Self { spaces: [(input, ins), (output, outs), (scratch, scratches)], cells }
    }

    /// How many chunks a space has.
    pub(super) fn count(&self, space: Space) -> u32 {
        self.spaces[space as usize].1
    }

    /// The cell of a chunk that is within bounds.
    pub(super) fn cell(&mut self, space: Space, chunk: u32) -> &mut Cell {
        &mut self.cells[(self.spaces[space as usize].0 + chunk) as usize]
    }

    pub(super) fn get(&self, space: Space, chunk: u32) -> Cell {
        self.cells[(self.spaces[space as usize].0 + chunk) as usize]
    }

    /// The number of the first of these chunks' cells.
    pub(super) fn first_cell(&self, chunks: Chunks) -> u32 {
        self.spaces[chunks.space as usize].0 + chunks.start
    }

    /// Notes that a receive writes these chunks in this round. If another one does: its step.
    pub(super) fn claim(&mut self, chunks: Chunks, round: u32, step: u32) -> Option<u32> {
        let other = self.claimed(chunks, round);
        for chunk in chunks.numbers() {
            self.cell(chunks.space, chunk).claim = (round, step);
        }
        other
    }

    /// The step of a receive that writes some of these chunks in this round.
    pub(super) fn claimed(&self, chunks: Chunks, round: u32) -> Option<u32> {
        let first = self.first_cell(chunks) as usize;
        let cells = &self.cells[first..first + chunks.len as usize];
        cells.iter().find(|cell| cell.claim.0 == round).map(|cell| cell.claim.1)
    }
}

/// Where `In` and `Out` begin. In place, the chunks that are the same have the same cells.
fn starts(op: Collective, rank: u32, in_place: bool, ins: u32, outs: u32) -> (u32, u32) {
    let shared = (0..ins).find_map(|chunk| Some((chunk, op.in_place(rank, chunk)?)));
    match shared {
        Some((input, output)) if in_place && output < outs => {
            (output.saturating_sub(input), input.saturating_sub(output))
        }
        _ => (0, ins),
    }
}
