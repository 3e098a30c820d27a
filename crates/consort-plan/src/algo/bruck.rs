//! Bruck: everyone passes on, over distances 1, 2, 4 …, all that has to go that far.
//!
//! In `all_gather` a rank has a growing range of chunks from its own on, and sends it backwards. In
//! `all_to_all` a chunk that must travel `j` places goes the distances of the bits of `j`; in round
//! `k` everyone packs its chunks with bit `k` into one message. In `barrier` the messages are empty
//! (dissemination).
//!
//! - Chunks: `1, 2, 4 …` and a rest in `all_gather` (as two messages where the range goes on at 0),
//!   about half of all in every round of `all_to_all`.
//! - Rounds: `⌈log₂ n⌉` for every `n`, the fewest there can be.
//! - Bytes: `(n − 1)/n m` in `all_gather`; about `m/2 log₂ n` in `all_to_all`, and copies to pack them.
//! - Rounding: nowhere.
//! - In place: yes, but for `all_to_all`.
//!
//! Best for small chunks. Bruck, Ho, Kipnis, Upfal, Weathersby, “Efficient algorithms for all-to-all
//! communications in multiport message-passing systems”, 1997.

use super::turned::{Turned, around};
use super::{Algorithm, alone};
use crate::op::Collective;
use crate::program::{Chunks, Program};

/// Powers of two as distances. See the top of its file.
#[derive(Clone, Copy, Debug)]
pub struct Bruck;

impl Algorithm for Bruck {
    fn name(&self) -> &'static str {
        "bruck"
    }

    fn supports(&self, op: Collective, _: u32) -> bool {
        matches!(op, Collective::AllGather | Collective::AllToAll | Collective::Barrier)
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
        match op {
            Collective::AllGather => all_gather(&mut program, seat),
            Collective::AllToAll => all_to_all(&mut program, seat),
            Collective::Barrier => barrier(&mut program, seat),
            other => panic!("Bruck's algorithm does not support {other}"),
        }
        program
    }
}

fn all_gather(program: &mut Program, seat: Turned) {
    let Turned { world, root: rank } = seat;
    program.copy(Chunks::input(0, 1), Chunks::output(rank, 1));
    for distance in distances(world) {
        let len = distance.min(world - distance);
        let (after, before) = (seat.rank(distance), seat.rank(world - distance));
        for (start, len) in around(rank, len, world) {
            program.send(before, Chunks::output(start, len));
        }
        for (start, len) in around(after, len, world) {
            program.recv(after, Chunks::output(start, len));
        }
        program.end_round();
    }
}

fn all_to_all(program: &mut Program, seat: Turned) {
    let Turned { world, root: rank } = seat;
    let pack = program.add_scratch(vec![0; most_at_once(world)]);
    program.copy(Chunks::input(rank, 1), Chunks::output(rank, 1));
    // Where the chunk is that still has to travel as many places as its index says.
    let mut at: Vec<Chunks> = (0..world).map(|far| Chunks::input(seat.rank(far), 1)).collect();
    for distance in distances(world) {
        let moving = || (1..world).filter(move |far| far & distance != 0);
        let count = moving().count() as u32;
        for (slot, far) in (0..).zip(moving()) {
            program.copy(at[far as usize], pack.part(slot, 1));
        }
        let arrived = program.add_scratch(vec![0; count as usize]);
        program.send(seat.rank(distance), pack.part(0, count));
        program.recv(seat.rank(world - distance), arrived);
        program.end_round();
        for (slot, far) in (0..).zip(moving()) {
            at[far as usize] = arrived.part(slot, 1);
        }
    }
    for far in (1..world).rev() {
        program.copy(at[far as usize], Chunks::output(seat.rank(world - far), 1));
    }
    program.end_round();
}

fn barrier(program: &mut Program, seat: Turned) {
    for distance in distances(seat.world) {
        program.signal(seat.rank(distance));
        program.await_signal(seat.rank(seat.world - distance));
        program.end_round();
    }
}

/// 1, 2, 4 … below the world.
fn distances(world: u32) -> impl Iterator<Item = u32> {
    (0..u32::BITS).map(|bit| 1 << bit).take_while(move |distance| *distance < world)
}

/// The largest number of chunks in one message of `all_to_all`.
fn most_at_once(world: u32) -> usize {
    let moving = |distance| (1..world).filter(|far| far & distance != 0).count();
    distances(world).map(moving).max().unwrap_or(0)
}
