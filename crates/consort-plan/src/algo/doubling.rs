//! Recursive doubling: exchange everything with ever farther partners.
//!
//! Players (see `fold`) swap their whole vectors with the player 1, 2, 4 … places away and combine; both
//! partners combine the same two operands in the same order, so all end with the same bits.
//!
//! - Chunks: whole vectors.
//! - Rounds: `log₂ p` with `p` the largest power of two not above `n`; two more when ranks fold.
//! - Bytes: `m log₂ p`.
//! - Rounding: neighbours first, `((0 ∘ 1) ∘ (2 ∘ 3)) ∘ …`, in the order of ranks.
//! - In place: yes, with scratch for one vector.
//!
//! Best for small vectors: no algorithm has fewer rounds.

use super::fold::{Fold, Role};
use super::{Algorithm, alone};
use crate::op::Collective;
use crate::program::{Chunks, Operand, Program};

/// Recursive doubling. See the top of its file.
#[derive(Clone, Copy, Debug)]
pub struct Doubling;

impl Algorithm for Doubling {
    fn name(&self) -> &'static str {
        "doubling"
    }

    fn supports(&self, op: Collective, _: u32) -> bool {
        op == Collective::AllReduce
    }

    fn program(&self, op: Collective, world: u32, rank: u32) -> Program {
        assert!(self.supports(op, world), "recursive doubling does not support {op}");
        if world == 1 {
            return alone(op);
        }
        let mut program = Program::default();
        let fold = Fold::new(world);
        match fold.role(rank) {
            Role::Single { player } => {
                let start = Start::Input;
                double(&mut program, fold, world, player, start);
            }
            Role::Lead { player, follower } => {
                double(&mut program, fold, world, player, Start::From(follower));
                program.send(follower, Chunks::output(0, world));
                program.end_round();
            }
            Role::Follow { leader } => {
                program.send(leader, Chunks::input(0, world));
                program.end_round();
                program.recv(leader, Chunks::output(0, world));
                program.end_round();
            }
        }
        program
    }
}

/// What a player begins with.
enum Start {
    /// Its input.
    Input,
    /// Its input, combined with that of this rank.
    From(u32),
}

/// The vector goes back and forth between two places, since what is sent may not be written, and
/// must end in `Out`: with an odd number of exchanges it begins in scratch.
fn double(program: &mut Program, fold: Fold, world: u32, player: u32, start: Start) {
    let (input, output) = (Chunks::input(0, world), Chunks::output(0, world));
    let scratch = program.add_scratch(0..world);
    let odd = !fold.halvings().is_multiple_of(2);
    let mut have = match start {
        Start::From(follower) => {
            let sum = if odd { scratch } else { output };
            program.combine(follower, sum, input, Operand::Local);
            program.end_round();
            sum
        }
        Start::Input if odd => {
            program.copy(input, scratch);
            scratch
        }
        Start::Input => input,
    };
    for bit in 0..fold.halvings() {
        let partner = player ^ (1 << bit);
        let first = if player < partner { Operand::Local } else { Operand::Received };
        let sum = if have == scratch { output } else { scratch };
        program.send(fold.rank(partner), have);
        program.combine(fold.rank(partner), sum, have, first);
        program.end_round();
        have = sum;
    }
}
