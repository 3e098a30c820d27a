//! Flat: one rank talks to all.
//!
//! The root (rank 0 where an operation has none) receives from everyone, or sends to everyone, or
//! both; in `all_to_all` everyone exchanges with everyone in a single round.
//!
//! - Chunks: whole vectors.
//! - Rounds: one to send to all or to receive from all; `n − 1` to combine, since each message waits
//!   for the one before it.
//! - Bytes: the root sends or receives up to `(n − 1) m`, twice for operations without a root; the
//!   others `m`. In `all_to_all` everyone sends `(n − 1)/n m`.
//! - Rounding: at the root, in the order of ranks from the root on: `((root ∘ root+1) ∘ root+2) …`.
//! - In place: yes.
//!
//! Best for two or three ranks, and as the plainest programs there are, to test others against.

use super::turned::Turned;
use super::{Algorithm, alone};
use crate::op::Collective;
use crate::program::{Chunks, Operand, Program};

/// One rank talks to all. See the top of its file.
#[derive(Clone, Copy, Debug)]
pub struct Flat;

impl Algorithm for Flat {
    fn name(&self) -> &'static str {
        "flat"
    }

    fn supports(&self, _: Collective, _: u32) -> bool {
        true
    }

    fn turns(&self, op: Collective) -> bool {
        op == Collective::AllToAll
    }

    fn program(&self, op: Collective, world: u32, rank: u32) -> Program {
        if world == 1 {
            return alone(op);
        }
        let seat = Seat { world, rank, root: op.root().unwrap_or(0) };
        let mut program = Program::default();
        let (input, output) = (Chunks::input(0, world), Chunks::output(0, world));
        match op {
            Collective::AllReduce => {
                seat.reduce(&mut program, input, output);
                seat.broadcast(&mut program, output);
            }
            Collective::Reduce { .. } => seat.reduce(&mut program, input, output),
            Collective::ReduceScatter => {
                let like = if seat.is_root() { 0..world } else { 0..0 };
                let sums = program.add_scratch(like);
                seat.reduce(&mut program, input, sums);
                seat.scatter(&mut program, sums);
            }
            Collective::AllGather => {
                seat.gather(&mut program);
                seat.broadcast(&mut program, output);
            }
            Collective::Gather { .. } => seat.gather(&mut program),
            Collective::Broadcast { .. } => seat.broadcast(&mut program, output),
            Collective::Scatter { .. } => seat.scatter(&mut program, input),
            Collective::AllToAll => seat.exchange(&mut program),
            Collective::Barrier => seat.barrier(&mut program),
        }
        program
    }
}

/// Where a rank sits.
struct Seat {
    world: u32,
    rank: u32,
    root: u32,
}

impl Seat {
    fn is_root(&self) -> bool {
        self.rank == self.root
    }

    /// The others, in order from this rank on.
    fn others(&self) -> impl Iterator<Item = u32> {
        let turned = Turned { world: self.world, root: self.rank };
        (1..self.world).map(move |place| turned.rank(place))
    }

    fn reduce(&self, program: &mut Program, input: Chunks, sums: Chunks) {
        if self.is_root() {
            let mut have = input;
            for peer in self.others() {
                program.combine(peer, sums, have, Operand::Local);
                program.end_round();
                have = sums;
            }
        } else {
            program.send(self.root, input);
            program.end_round();
        }
    }

    fn broadcast(&self, program: &mut Program, vector: Chunks) {
        if self.is_root() {
            self.others().for_each(|peer| program.send(peer, vector));
        } else {
            program.recv(self.root, vector);
        }
        program.end_round();
    }

    fn gather(&self, program: &mut Program) {
        if self.is_root() {
            program.copy(Chunks::input(0, 1), Chunks::output(self.rank, 1));
            self.others().for_each(|peer| program.recv(peer, Chunks::output(peer, 1)));
        } else {
            program.send(self.root, Chunks::input(0, 1));
        }
        program.end_round();
    }

    fn scatter(&self, program: &mut Program, vector: Chunks) {
        if self.is_root() {
            program.copy(vector.part(self.rank, 1), Chunks::output(0, 1));
            self.others().for_each(|peer| program.send(peer, vector.part(peer, 1)));
        } else {
            program.recv(self.root, Chunks::output(0, 1));
        }
        program.end_round();
    }

    fn exchange(&self, program: &mut Program) {
        program.copy(Chunks::input(self.rank, 1), Chunks::output(self.rank, 1));
        self.others().for_each(|peer| program.send(peer, Chunks::input(peer, 1)));
        self.others().for_each(|peer| program.recv(peer, Chunks::output(peer, 1)));
        program.end_round();
    }

    fn barrier(&self, program: &mut Program) {
        if self.is_root() {
            self.others().for_each(|peer| program.await_signal(peer));
            program.end_round();
            self.others().for_each(|peer| program.signal(peer));
        } else {
            program.signal(self.root);
            program.end_round();
            program.await_signal(self.root);
        }
        program.end_round();
    }
}
