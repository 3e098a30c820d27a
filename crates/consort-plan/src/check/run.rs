//! The run itself: every rank goes on until it waits, messages are handed over when both sides are
//! there.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;

use super::clock::Clocks;
use super::memory::{Memory, NEVER};
use super::value::{UNDEFINED, Value, Values};
use super::{Check, Fault, Order, Trouble};
use crate::mix::Mix;
use crate::op::Collective;
use crate::program::{Chunks, How, Operand, Program, Space, Step};

/// What a run found out.
pub(super) struct Outcome {
    pub(super) order: Order,
    pub(super) in_flight: Option<u32>,
    pub(super) uneven: bool,
}

/// Runs all programs to their ends and looks at what is there.
pub(super) fn run(check: &Check, programs: &[Program]) -> Result<Outcome, Box<Fault>> {
    let mut run = Run::new(check, programs);
    while let Some(rank) = run.ready.pop() {
        run.go_on(rank)?;
    }
    run.all_have_ended()?;
    let order = run.contract_is_met()?;
    let in_flight = run.in_flight()?;
    Ok(Outcome { order, in_flight, uneven: run.uneven })
}

pub(super) struct Run<'a> {
    pub(super) check: &'a Check,
    pub(super) programs: &'a [Program],
    pub(super) values: Values,
    pub(super) memory: Vec<Memory>,
    state: Vec<State>,
    /// Ranks whose round has ended.
    ready: Vec<u32>,
    /// Messages of which one side is there, by sender and receiver.
    waiting: HashMap<(u32, u32), Waiting, BuildHasherDefault<Mix>>,
    pub(super) clocks: Option<Clocks>,
    uneven: bool,
}

/// How far a rank is.
#[derive(Clone, Copy)]
struct State {
    round: u32,
    /// Messages of this round that are not done.
    open: u32,
}

/// Steps of one side of a pair, in order; never empty.
struct Waiting {
    first: u32,
    more: VecDeque<u32>,
    sends: bool,
}

impl<'a> Run<'a> {
    fn new(check: &'a Check, programs: &'a [Program]) -> Self {
        let Check { op, world, in_place, .. } = *check;
        let values = Values::new(world, world);
        let memory = |(rank, program): (u32, &Program)| {
            Memory::new(op, world, rank, in_place, program, &values)
        };
        let memory = (0..world).zip(programs).map(memory).collect();
        let timed = world <= MOST_TIMED || op == Collective::Barrier;
        Self {
            check,
            programs,
            memory,
            values,
            state: vec![State { round: NEVER, open: 0 }; world as usize],
            ready: (0..world).collect(),
            waiting: HashMap::default(),
            clocks: timed.then(|| Clocks::new(world)),
            uneven: op == Collective::AllToAll,
        }
    }

    /// Begins a rank's next round, if there is one.
    fn go_on(&mut self, rank: u32) -> Result<(), Box<Fault>> {
        let state = &mut self.state[rank as usize];
        state.round = state.round.wrapping_add(1);
        let round = state.round;
        let program: &'a Program = &self.programs[rank as usize];
        if round as usize >= program.len() {
            return Ok(());
        }
        if let Some(clocks) = &mut self.clocks {
            clocks.begin(rank);
        }
        let steps = program.round(round as usize);
        self.round_is_sound(rank, round, steps)?;
        let mut messages = 0;
        for step in steps {
            match step {
                Step::Copy { from, into } => self.copy(rank, round, step, *from, *into)?,
                _ => messages += 1,
            }
        }
        self.claims(rank, round, steps)?;
        self.state[rank as usize].open = messages;
        if messages == 0 {
            self.ready.push(rank);
        }
        for (index, step) in (0..).zip(steps) {
            match *step {
                Step::Send { to, .. } => self.meet(rank, to, true, index)?,
                Step::Recv { from, .. } => self.meet(from, rank, false, index)?,
                Step::Copy { .. } => {}
            }
        }
        Ok(())
    }

    fn copy(
        &mut self,
        rank: u32,
        round: u32,
        step: &Step,
        from: Chunks,
        into: Chunks,
    ) -> Result<(), Box<Fault>> {
        let memory = &mut self.memory[rank as usize];
        let (read, written) = (memory.first_cell(from), memory.first_cell(into));
        if read == written {
            return Ok(());
        }
        if read.abs_diff(written) < from.len {
            let trouble = Trouble::Conflict { step: *step, writer: *step };
            return Err(self.check.fault(rank, Some(round), trouble));
        }
        for (read, written) in from.numbers().zip(into.numbers()) {
            let value = memory.get(from.space, read).value;
            if value == UNDEFINED {
                let chunk = Chunks { start: read, len: 1, ..from };
                let trouble = Trouble::Undefined { step: *step, chunk };
                return Err(self.check.fault(rank, Some(round), trouble));
            }
            let cell = memory.cell(into.space, written);
            (cell.value, cell.written) = (value, round);
        }
        if self.check.op == Collective::AllToAll {
            self.uneven &= from.numbers().zip(into.numbers()).all(|(read, written)| {
                from.space != Space::Scratch
                    && into.space != Space::Scratch
                    && self.size(rank, from.space, read) == self.size(rank, into.space, written)
            });
        }
        Ok(())
    }

    /// One side of a message is there. If the other one is too, hands it over.
    fn meet(&mut self, from: u32, to: u32, sends: bool, step: u32) -> Result<(), Box<Fault>> {
        let key = (from, to);
        match self.waiting.get_mut(&key) {
            Some(waiting) if waiting.sends != sends => {
                let other = waiting.first;
                match waiting.more.pop_front() {
                    Some(next) => waiting.first = next,
                    None => drop(self.waiting.remove(&key)),
                }
                let (send, recv) = if sends { (step, other) } else { (other, step) };
                self.hand_over(from, to, send, recv)
            }
            Some(waiting) => {
                waiting.more.push_back(step);
                Ok(())
            }
            None => {
                self.waiting.insert(key, Waiting { first: step, more: VecDeque::new(), sends });
                Ok(())
            }
        }
    }

    fn hand_over(&mut self, from: u32, to: u32, send: u32, recv: u32) -> Result<(), Box<Fault>> {
        let (sender, receiver) = (self.state[from as usize].round, self.state[to as usize].round);
        let (sent, step) = (self.step(from, send), self.step(to, recv));
        let (Step::Send { from: chunks, .. }, Step::Recv { into, how, .. }) = (sent, step) else {
            unreachable!("a send meets a receive");
        };
        let fault = |check: &Check, trouble| Err(check.fault(to, Some(receiver), trouble));
        if chunks.len != into.len {
            let trouble = Trouble::Length {
                step,
                peer: from,
                peer_round: sender,
                sent: chunks,
                received: into,
            };
            return fault(self.check, trouble);
        }
        for at in 0..chunks.len {
            let (read, written) = (chunks.start + at, into.start + at);
            let found = self.size(from, chunks.space, read);
            let expected = self.size(to, into.space, written);
            if found != expected && self.check.op != Collective::AllToAll {
                let trouble = Trouble::Message {
                    step,
                    peer: from,
                    peer_round: sender,
                    sent: chunks,
                    expected,
                    found,
                };
                return fault(self.check, trouble);
            }
            self.uneven &=
                found == expected && chunks.space != Space::Scratch && into.space != Space::Scratch;
            let value = self.memory[from as usize].get(chunks.space, read).value;
            if value == UNDEFINED {
                let chunk = Chunks { start: read, len: 1, ..chunks };
                let trouble = Trouble::Undefined { step: sent, chunk };
                return Err(self.check.fault(from, Some(sender), trouble));
            }
            let value = match how {
                How::Overwrite => value,
                How::Combine { with, first } => {
                    let local = Chunks { start: with.start + at, len: 1, ..with };
                    let message = Arrival { step, from, sender, to, receiver, value };
                    self.combine(&message, local, first)?
                }
            };
            let cell = self.memory[to as usize].cell(into.space, written);
            (cell.value, cell.written) = (value, receiver);
        }
        if let Some(clocks) = &mut self.clocks {
            clocks.receive(from, to, receiver);
        }
        for rank in [from, to] {
            let state = &mut self.state[rank as usize];
            state.open -= 1;
            if state.open == 0 {
                self.ready.push(rank);
            }
        }
        Ok(())
    }

    fn combine(
        &mut self,
        message: &Arrival,
        local: Chunks,
        first: Operand,
    ) -> Result<Value, Box<Fault>> {
        let Arrival { step, from, sender, to, receiver, value } = *message;
        let own = self.memory[to as usize].get(local.space, local.start).value;
        if own == UNDEFINED {
            let trouble = Trouble::Undefined { step, chunk: local };
            return Err(self.check.fault(to, Some(receiver), trouble));
        }
        let values = &mut self.values;
        let why = if !self.check.op.combines() {
            Some("expected only copies in this operation")
        } else if values.chunk(value) != values.chunk(own) {
            Some("expected the same chunk of both")
        } else if values.weight(value) + values.weight(own) > self.check.world {
            Some("expected every rank once, these are more contributions than ranks")
        } else {
            None
        };
        if let Some(why) = why {
            let (received, local) = (values.write(value), values.write(own));
            let trouble =
                Trouble::Combination { step, peer: from, peer_round: sender, received, local, why };
            return Err(self.check.fault(to, Some(receiver), trouble));
        }
        Ok(match first {
            Operand::Received => values.combine(value, own, to, receiver),
            Operand::Local => values.combine(own, value, to, receiver),
        })
    }

    fn all_have_ended(&self) -> Result<(), Box<Fault>> {
        let Some(rank) = (0..self.check.world).find(|rank| !self.has_ended(*rank)) else {
            return Ok(());
        };
        // Of all who wait, blame one whose peer has ended: the others wait because of it.
        let mut waiting: Vec<_> = self.waiting.iter().collect();
        waiting.sort_unstable_by_key(|(key, _)| **key);
        let of = |(key, it): &(&(u32, u32), &Waiting)| {
            if it.sends { (key.0, key.1, it.first) } else { (key.1, key.0, it.first) }
        };
        let orphan = waiting.iter().map(of).find(|(_, peer, _)| self.has_ended(*peer));
        let (rank, peer, step) = orphan
            .or_else(|| waiting.iter().map(of).find(|(waits, ..)| *waits == rank))
            .expect("a rank that has not ended waits for a message");
        let (step, peer_state) = (self.step(rank, step), self.describe(peer));
        let round = self.state[rank as usize].round;
        Err(self.check.fault(rank, Some(round), Trouble::Stuck { step, peer, peer_state }))
    }

    fn describe(&self, rank: u32) -> String {
        if self.has_ended(rank) {
            return format!("has ended after its {} rounds", self.programs[rank as usize].len());
        }
        let round = self.state[rank as usize].round;
        format!("waits in its round {round}")
    }

    fn has_ended(&self, rank: u32) -> bool {
        self.state[rank as usize].round as usize >= self.programs[rank as usize].len()
    }

    /// A step of a rank's current round.
    fn step(&self, rank: u32, index: u32) -> Step {
        let round = self.state[rank as usize].round as usize;
        self.programs[rank as usize].round(round)[index as usize]
    }

    /// The vector's chunk whose size a chunk has. In an `AllToAll`: a number for each sender and
    /// receiver.
    pub(super) fn size(&self, rank: u32, space: Space, chunk: u32) -> u32 {
        match (self.check.op, space) {
            (_, Space::Scratch) => self.programs[rank as usize].scratch()[chunk as usize],
            (Collective::AllToAll, Space::In) => rank * self.check.world + chunk,
            (Collective::AllToAll, Space::Out) => chunk * self.check.world + rank,
            (op, space) => op.vector_chunk(space, rank, chunk),
        }
    }
}

/// A message that is to be combined.
struct Arrival {
    step: Step,
    from: u32,
    sender: u32,
    to: u32,
    receiver: u32,
    value: Value,
}

/// Clocks of all ranks know of all ranks: above this they take too long.
const MOST_TIMED: u32 = 128;
