//! What matters of a program for its cost: how much goes to whom in which round.

use crate::program::{How, Program, Step};

/// A program without its places. Messages of one round between the same two ranks are one.
#[derive(Debug, Default)]
pub(super) struct Shape {
    rounds: Vec<Round>,
    sends: Vec<Send>,
    receives: Vec<Receive>,
}

#[derive(Clone, Copy, Debug)]
struct Round {
    copied: u32,
    sends_end: u32,
    receives_end: u32,
}

/// Chunks that leave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Send {
    pub(super) to: u32,
    pub(super) chunks: u32,
}

/// Chunks that come, and how many of them are combined.
#[derive(Clone, Copy, Debug)]
pub(super) struct Receive {
    pub(super) from: u32,
    pub(super) combined: u32,
}

impl Shape {
    pub(super) fn of(program: &Program) -> Self {
        let mut shape = Self::default();
        for steps in program.rounds() {
            let (sends, receives) = (shape.sends.len(), shape.receives.len());
            let mut copied = 0;
            for step in steps {
                match *step {
                    Step::Copy { from, .. } => copied += from.len,
                    Step::Send { to, from } => shape.send(sends, to, from.len),
                    Step::Recv { from, into, how } => {
                        let combined = if how == How::Overwrite { 0 } else { into.len };
                        shape.receive(receives, from, combined);
                    }
                }
            }
            let (sends_end, receives_end) = (shape.sends.len() as u32, shape.receives.len() as u32);
            shape.rounds.push(Round { copied, sends_end, receives_end });
        }
        shape
    }

    pub(super) fn len(&self) -> usize {
        self.rounds.len()
    }

    /// The chunks that a round copies, its sends and its receives.
    pub(super) fn round(&self, round: usize) -> (u32, &[Send], &[Receive]) {
        let start = round.checked_sub(1).map(|before| self.rounds[before]);
        let (sends, receives) =
            start.map_or((0, 0), |it| (it.sends_end as usize, it.receives_end as usize));
        let it = self.rounds[round];
        let sends = &self.sends[sends..it.sends_end as usize];
        (it.copied, sends, &self.receives[receives..it.receives_end as usize])
    }

    fn send(&mut self, start: usize, to: u32, chunks: u32) {
        let start = start.max(self.sends.len().saturating_sub(FEW));
        match self.sends[start..].iter_mut().find(|send| send.to == to) {
            Some(send) => send.chunks += chunks,
            None => self.sends.push(Send { to, chunks }),
        }
    }

    fn receive(&mut self, start: usize, from: u32, combined: u32) {
        let start = start.max(self.receives.len().saturating_sub(FEW));
        match self.receives[start..].iter_mut().find(|receive| receive.from == from) {
            Some(receive) => receive.combined += combined,
            None => self.receives.push(Receive { from, combined }),
        }
    }
}

/// Rounds with more peers than this have each of them once.
const FEW: usize = 8;
