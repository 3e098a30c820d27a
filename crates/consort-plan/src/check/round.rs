//! One round of one rank, before anything moves: are its steps sound, and do they leave each other
//! alone?

use super::run::Run;
use super::{Fault, Trouble};
use crate::op::Collective;
use crate::program::{Chunks, How, Space, Step};

impl Run<'_> {
    /// Peers, bounds, sizes and places of a round's steps.
    pub(super) fn round_is_sound(
        &self,
        rank: u32,
        round: u32,
        steps: &[Step],
    ) -> Result<(), Box<Fault>> {
        let fault = |trouble| Err(self.check.fault(rank, Some(round), trouble));
        let mut messages = false;
        for &step in steps {
            let (peer, read, with, written) = match step {
                Step::Send { to, from } => (Some(to), Some(from), None, None),
                Step::Recv { from, into, how: How::Overwrite } => {
                    (Some(from), None, None, Some(into))
                }
                Step::Recv { from, into, how: How::Combine { with, .. } } => {
                    (Some(from), None, Some(with), Some(into))
                }
                Step::Copy { from, into } => (None, None, Some(from), Some(into)),
            };
            if peer.is_some_and(|peer| peer >= self.check.world || peer == rank) {
                return fault(Trouble::Peer { step });
            }
            if peer.is_none() && messages {
                return fault(Trouble::LateCopy { step });
            }
            messages |= peer.is_some();
            for chunks in [read, with, written].into_iter().flatten() {
                let has = self.memory[rank as usize].count(chunks.space);
                if chunks.start.checked_add(chunks.len).is_none_or(|end| end > has) {
                    return fault(Trouble::Bounds { step, chunks, has });
                }
            }
            if written.is_some_and(|it| it.space == Space::In && it.len > 0) {
                return fault(Trouble::WritesInput { step });
            }
            if let (Some(with), Some(into)) = (with, written) {
                self.same_sizes(rank, round, step, with, into)?;
            }
        }
        Ok(())
    }

    /// Chunks of one step, on one rank, are of the same sizes.
    fn same_sizes(
        &self,
        rank: u32,
        round: u32,
        step: Step,
        one: Chunks,
        other: Chunks,
    ) -> Result<(), Box<Fault>> {
        let sizes = one
            .numbers()
            .zip(other.numbers())
            .map(|(a, b)| (self.size(rank, one.space, a), self.size(rank, other.space, b)));
        let equal = one.len == other.len;
        match sizes.into_iter().find(|(a, b)| a != b) {
            Some((one, other)) if self.check.op != Collective::AllToAll => {
                Err(self.check.fault(rank, Some(round), Trouble::Sizes { step, one, other }))
            }
            _ if !equal => {
                let (one, other) = (one.end(), other.end());
                Err(self.check.fault(rank, Some(round), Trouble::Sizes { step, one, other }))
            }
            _ => Ok(()),
        }
    }

    /// No two messages of a round touch what one of them writes.
    pub(super) fn claims(
        &mut self,
        rank: u32,
        round: u32,
        steps: &[Step],
    ) -> Result<(), Box<Fault>> {
        let memory = &mut self.memory[rank as usize];
        let fault = |step: &Step, writer: u32| {
            let (step, writer) = (*step, steps[writer as usize]);
            Err(self.check.fault(rank, Some(round), Trouble::Conflict { step, writer }))
        };
        for (index, step) in (0..).zip(steps) {
            if let Step::Recv { into, .. } = step
                && let Some(writer) = memory.claim(*into, round, index)
            {
                return fault(step, writer);
            }
        }
        for (index, step) in (0..).zip(steps) {
            let writer = match step {
                Step::Send { from, .. } => memory.claimed(*from, round),
                Step::Recv { into, how: How::Combine { with, .. }, .. } => {
                    memory.claimed(*with, round).filter(|writer| {
                        *writer != index || memory.first_cell(*with) != memory.first_cell(*into)
                    })
                }
                _ => None,
            };
            if let Some(writer) = writer {
                return fault(step, writer);
            }
        }
        Ok(())
    }
}
