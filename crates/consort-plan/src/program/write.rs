//! Writing programs, step by step.

use super::{Chunks, How, Operand, Program, Step};

impl Program {
    /// Sends chunks, if there are any.
    pub(crate) fn send(&mut self, to: u32, from: Chunks) {
        if from.len > 0 {
            self.push(Step::Send { to, from });
        }
    }

    /// Receives chunks, if there are any.
    pub(crate) fn recv(&mut self, from: u32, into: Chunks) {
        if into.len > 0 {
            self.push(Step::Recv { from, into, how: How::Overwrite });
        }
    }

    /// Receives chunks, if there are any, and combines them with local ones.
    pub(crate) fn combine(&mut self, from: u32, into: Chunks, with: Chunks, first: Operand) {
        if into.len > 0 {
            self.push(Step::Recv { from, into, how: How::Combine { with, first } });
        }
    }

    /// Sends a message without chunks.
    pub(crate) fn signal(&mut self, to: u32) {
        self.push(Step::Send { to, from: Chunks::NONE });
    }

    /// Receives a message without chunks.
    pub(crate) fn await_signal(&mut self, from: u32) {
        self.push(Step::Recv { from, into: Chunks::NONE, how: How::Overwrite });
    }

    /// Copies chunks, if there are any. What follows a copy in both places becomes part of it.
    pub(crate) fn copy(&mut self, from: Chunks, into: Chunks) {
        if from.len == 0 {
            return;
        }
        if let Some(Step::Copy { from: before, into: beside }) = self.open_round().last_mut()
            && (before.space, before.end()) == (from.space, from.start)
            && (beside.space, beside.end()) == (into.space, into.start)
        {
            before.len += from.len;
            beside.len += into.len;
        } else {
            self.push(Step::Copy { from, into });
        }
    }

    /// The steps of the round that is being written.
    fn open_round(&mut self) -> &mut [Step] {
        let start = self.ends.last().copied().unwrap_or(0);
        &mut self.steps[start as usize..]
    }
}
