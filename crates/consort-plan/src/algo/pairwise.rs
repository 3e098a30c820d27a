//! Pairwise: everyone exchanges with everyone directly, one after the other.
//!
//! - Chunks: one in each message, straight from who has it to whom it belongs.
//! - Rounds: `n − 1`, each with another peer: in round `k` a rank sends `k` places one way and receives
//!   from `k` places the other way, so that nobody is talked to by two at once. `all_reduce` is a
//!   `reduce_scatter` and an `all_gather`: twice that.
//! - Bytes: `(n − 1)/n m` for each of the two, the least there can be.
//! - Rounding: chunk `c` as `((c ∘ c+1) ∘ c+2) …`, ranks in order from its owner on, going on at 0
//!   after the last.
//! - In place: yes, but for `all_to_all`.
//!
//! Best for `all_to_all` of large chunks, which may also differ in size from pair to pair, and where
//! the way to every peer is equally good.

use super::turned::Turned;
use super::{Algorithm, alone};
use crate::op::Collective;
use crate::program::{Chunks, Operand, Program};

/// Direct exchanges in turn. See the top of its file.
#[derive(Clone, Copy, Debug)]
pub struct Pairwise;

impl Algorithm for Pairwise {
    fn name(&self) -> &'static str {
        "pairwise"
    }

    fn supports(&self, op: Collective, _: u32) -> bool {
        use Collective::{AllGather, AllReduce, AllToAll, ReduceScatter};
        matches!(op, AllGather | AllReduce | AllToAll | ReduceScatter)
    }

    fn turns(&self, op: Collective) -> bool {
        self.supports(op, 1)
    }

    fn program(&self, op: Collective, world: u32, rank: u32) -> Program {
        if world == 1 {
            return alone(op);
        }
        let seat = Turned { world, root: rank };
        let mut program = Program::default();
        let out = |chunk| Chunks::output(chunk, 1);
        match op {
            Collective::AllReduce => {
                reduce_scatter(&mut program, seat, out(rank));
                all_gather(&mut program, seat, out(rank));
            }
            Collective::ReduceScatter => reduce_scatter(&mut program, seat, out(0)),
            Collective::AllGather => {
                program.copy(Chunks::input(0, 1), out(rank));
                all_gather(&mut program, seat, Chunks::input(0, 1));
            }
            Collective::AllToAll => {
                program.copy(Chunks::input(rank, 1), out(rank));
                exchange(&mut program, seat, |to| Chunks::input(to, 1));
            }
            other => panic!("pairwise exchanges do not support {other}"),
        }
        program
    }
}

fn reduce_scatter(program: &mut Program, seat: Turned, sum: Chunks) {
    let mut have = Chunks::input(seat.root, 1);
    for distance in 1..seat.world {
        let (after, before) = (seat.rank(distance), seat.rank(seat.world - distance));
        program.send(before, Chunks::input(before, 1));
        program.combine(after, sum, have, Operand::Local);
        program.end_round();
        have = sum;
    }
}

fn all_gather(program: &mut Program, seat: Turned, own: Chunks) {
    exchange(program, seat, |_| own);
}

fn exchange(program: &mut Program, seat: Turned, what: impl Fn(u32) -> Chunks) {
    for distance in 1..seat.world {
        let (after, before) = (seat.rank(distance), seat.rank(seat.world - distance));
        program.send(after, what(after));
        program.recv(before, Chunks::output(before, 1));
        program.end_round();
    }
}
