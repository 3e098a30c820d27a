//! Recursive halving and doubling: exchange halves with ever other partners.
//!
//! Players (see `fold`: worlds that are no power of two fold into one) halve the range of chunks they
//! care for in every round: each sends one half to its partner and combines the other half. Then
//! they go back the same way and double what they have.
//!
//! - Chunks: ranges of `n/2, n/4 … 1` chunks, then back.
//! - Rounds: `log₂ p` for each way, with `p` the largest power of two not above `n`; up to two more
//!   when ranks fold.
//! - Bytes: `(p − 1)/p m` each way, as little as a ring. A rank that folds sends `m` more, and so does
//!   who plays for it, on the way back.
//! - Rounding: `all_reduce` neighbours first, `((0 ∘ 1) ∘ (2 ∘ 3)) ∘ …`, in the order of ranks.
//!   `reduce_scatter` begins with the farthest partner, so that chunk `c` ends at rank `c`:
//!   `((0 ∘ p/2) ∘ (p/4 ∘ 3p/4)) ∘ …`.
//! - In place: yes.
//!
//! Best for middle sizes and for large vectors between many ranks. `all_reduce` exchanges the
//! largest halves with the nearest ranks.

use std::ops::Range;

use super::fold::{Fold, Role};
use super::{Algorithm, alone};
use crate::op::Collective;
use crate::program::{Chunks, Operand, Program};

/// Recursive halving and doubling. See the top of its file.
#[derive(Clone, Copy, Debug)]
pub struct Halving;

impl Algorithm for Halving {
    fn name(&self) -> &'static str {
        "halving"
    }

    fn supports(&self, op: Collective, _: u32) -> bool {
        use Collective::{AllGather, AllReduce, ReduceScatter};
        matches!(op, AllGather | AllReduce | ReduceScatter)
    }

    fn program(&self, op: Collective, world: u32, rank: u32) -> Program {
        if world == 1 {
            return alone(op);
        }
        let mut program = Program::default();
        let fold = Fold::new(world);
        match op {
            Collective::AllReduce => all_reduce(&mut program, fold, world, rank),
            Collective::ReduceScatter => reduce_scatter(&mut program, fold, world, rank),
            Collective::AllGather => all_gather(&mut program, fold, world, rank),
            other => panic!("recursive halving does not support {other}"),
        }
        program
    }
}

fn all_reduce(program: &mut Program, fold: Fold, world: u32, rank: u32) {
    let (input, output) = (Chunks::input(0, world), Chunks::output(0, world));
    let (player, mut have) = match fold.role(rank) {
        Role::Single { player } => (player, input),
        Role::Lead { player, follower } => {
            program.combine(follower, output, input, Operand::Local);
            program.end_round();
            (player, output)
        }
        Role::Follow { leader } => {
            program.send(leader, input);
            program.end_round();
            program.recv(leader, output);
            program.end_round();
            return;
        }
    };
    let mut way = Vec::new();
    let mut range = 0..fold.players;
    for bit in 0..fold.halvings() {
        let partner = player ^ (1 << bit);
        let (kept, given) = halves(&range, player & (1 << bit) == 0);
        exchange_halves(
            program,
            fold,
            Half { player, partner, kept: &kept, given: &given },
            have,
            output,
        );
        have = output;
        way.push((partner, given));
        range = kept;
    }
    for (partner, given) in way.into_iter().rev() {
        let peer = fold.rank(partner);
        program.send(peer, part(output, fold, &range));
        program.recv(peer, part(output, fold, &given));
        program.end_round();
        range = range.start.min(given.start)..range.end.max(given.end);
    }
    if let Role::Lead { follower, .. } = fold.role(rank) {
        program.send(follower, output);
        program.end_round();
    }
}

fn reduce_scatter(program: &mut Program, fold: Fold, world: u32, rank: u32) {
    let (input, own) = (Chunks::input(0, world), Chunks::output(0, 1));
    let (player, mut have, sums) = match fold.role(rank) {
        Role::Single { player } => (player, input, Chunks::NONE),
        Role::Lead { player, follower } => {
            let sums = program.add_scratch(0..world);
            program.combine(follower, sums, input, Operand::Local);
            program.end_round();
            (player, sums, sums)
        }
        Role::Follow { leader } => {
            program.send(leader, input);
            program.end_round();
            program.recv(leader, own);
            program.end_round();
            return;
        }
    };
    // Only a leader needs room for the whole vector; the others for the half they keep first. Its
    // chunks are counted as in the vector: `offset` chunks before it are not there.
    let (mut offset, mut sums) = (0, sums);
    let mut range = 0..fold.players;
    for bit in (0..fold.halvings()).rev() {
        let peer = fold.rank(player ^ (1 << bit));
        let lower = player & (1 << bit) == 0;
        let (kept, given) = halves(&range, lower);
        let (kept_chunks, given_chunks) = (chunks(fold, &kept), chunks(fold, &given));
        let first = if lower { Operand::Local } else { Operand::Received };
        let local = |have: Chunks, range: &Range<u32>, offset: u32| {
            have.part(range.start - offset, range.end - range.start)
        };
        let having = if have == input { 0 } else { offset };
        program.send(peer, local(have, &given_chunks, having));
        let with = local(have, &kept_chunks, having);
        if bit == 0 && matches!(fold.role(rank), Role::Single { .. }) {
            program.combine(peer, own, with, first);
        } else {
            if sums == Chunks::NONE {
                sums = program.add_scratch(kept_chunks.clone());
                offset = kept_chunks.start;
            }
            program.combine(peer, local(sums, &kept_chunks, offset), with, first);
            have = sums;
        }
        program.end_round();
        range = kept;
    }
    if let Role::Lead { follower, .. } = fold.role(rank) {
        program.copy(sums.part(rank, 1), own);
        program.send(follower, sums.part(follower, 1));
        program.end_round();
    }
}

fn all_gather(program: &mut Program, fold: Fold, world: u32, rank: u32) {
    let (own, output) = (Chunks::input(0, 1), Chunks::output(0, world));
    let player = match fold.role(rank) {
        Role::Follow { leader } => {
            program.send(leader, own);
            program.end_round();
            program.recv(leader, output);
            program.end_round();
            return;
        }
        Role::Single { player } => {
            program.copy(own, output.part(rank, 1));
            player
        }
        Role::Lead { player, follower } => {
            program.copy(own, output.part(rank, 1));
            program.recv(follower, output.part(follower, 1));
            program.end_round();
            player
        }
    };
    for bit in 0..fold.halvings() {
        let size = 1 << bit;
        let partner = player ^ size;
        let block = |player: u32| {
            let start = player & !(size - 1);
            start..start + size
        };
        program.send(fold.rank(partner), part(output, fold, &block(player)));
        program.recv(fold.rank(partner), part(output, fold, &block(partner)));
        program.end_round();
    }
    if let Role::Lead { follower, .. } = fold.role(rank) {
        program.send(follower, output);
        program.end_round();
    }
}

/// One exchange on the way down.
struct Half<'a> {
    player: u32,
    partner: u32,
    kept: &'a Range<u32>,
    given: &'a Range<u32>,
}

fn exchange_halves(program: &mut Program, fold: Fold, half: Half<'_>, have: Chunks, sums: Chunks) {
    let peer = fold.rank(half.partner);
    let first = if half.player < half.partner { Operand::Local } else { Operand::Received };
    program.send(peer, part(have, fold, half.given));
    let (into, with) = (part(sums, fold, half.kept), part(have, fold, half.kept));
    program.combine(peer, into, with, first);
    program.end_round();
}

/// The two halves of a range: the one to keep, and the other.
fn halves(range: &Range<u32>, lower: bool) -> (Range<u32>, Range<u32>) {
    let middle = range.start.midpoint(range.end);
    let (low, high) = (range.start..middle, middle..range.end);
    if lower { (low, high) } else { (high, low) }
}

/// The chunks that a range of players plays for.
fn chunks(fold: Fold, players: &Range<u32>) -> Range<u32> {
    fold.rank(players.start)..fold.rank(players.end)
}

/// The same, of a vector.
fn part(vector: Chunks, fold: Fold, players: &Range<u32>) -> Chunks {
    let chunks = chunks(fold, players);
    vector.part(chunks.start, chunks.end - chunks.start)
}
