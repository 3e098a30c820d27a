//! Ring: everyone sends to the rank after it and receives from the rank before it.
//!
//! - Chunks: one in each message. A chunk travels once around the ring to be combined, beginning
//!   after the rank it belongs to and ending there, and once around to be spread.
//! - Rounds: `n − 1` for `reduce_scatter` and `all_gather`, `2 (n − 1)` for `all_reduce`;
//!   `broadcast` is a binomial scatter and a ring gather, `reduce` a ring `reduce_scatter` and a
//!   binomial gather: `n − 1 + ⌈log₂ n⌉` each.
//! - Bytes: `(n − 1)/n m` each way around, the least there can be; everyone sends and receives at
//!   the same time, and only to neighbours.
//! - Rounding: chunk `c` as `((c+1 ∘ c+2) ∘ …) ∘ c`, ranks in order, going on at 0 after the last.
//! - In place: yes.
//!
//! Best for large vectors and few ranks; its rounds grow with `n`.

use super::binomial::Node;
use super::turned::Turned;
use super::{Algorithm, alone};
use crate::op::Collective;
use crate::program::{Chunks, Operand, Program};

/// A ring. See the top of its file.
#[derive(Clone, Copy, Debug)]
pub struct Ring;

impl Algorithm for Ring {
    fn name(&self) -> &'static str {
        "ring"
    }

    fn supports(&self, op: Collective, _: u32) -> bool {
        use Collective::{AllGather, AllReduce, Broadcast, Reduce, ReduceScatter};
        matches!(op, AllGather | AllReduce | Broadcast { .. } | Reduce { .. } | ReduceScatter)
    }

    fn turns(&self, op: Collective) -> bool {
        self.supports(op, 1) && op.root().is_none()
    }

    fn program(&self, op: Collective, world: u32, rank: u32) -> Program {
        if world == 1 {
            return alone(op);
        }
        let seat = Seat::new(world, op.root().unwrap_or(0), rank);
        let mut program = Program::default();
        let out = |chunk| Chunks::output(chunk, 1);
        match op {
            Collective::AllReduce => {
                seat.reduce_scatter(&mut program, out);
                seat.all_gather(&mut program, out(seat.place), out);
            }
            Collective::ReduceScatter => {
                let own = Chunks::output(0, 1);
                let sums = program.add_scratch(seat.others());
                seat.reduce_scatter(&mut program, |chunk| seat.sum_at(chunk, sums, own));
            }
            Collective::AllGather => {
                program.copy(Chunks::input(0, 1), out(seat.place));
                seat.all_gather(&mut program, Chunks::input(0, 1), out);
            }
            Collective::Broadcast { root } => {
                let node = Node::new(world, root, rank);
                let vector = Chunks::output(0, world);
                node.scatter_down(&mut program, |place, len| [vector.part(place, len)].into_iter());
                seat.all_gather(&mut program, out(seat.place), out);
            }
            Collective::Reduce { root } => {
                reduce(&mut program, &seat, &Node::new(world, root, rank));
            }
            other => panic!("rings do not support {other}"),
        }
        program
    }
}

/// A place in the ring, counted from the root. The chunk of a place has the place's number.
struct Seat {
    turned: Turned,
    place: u32,
}

impl Seat {
    fn new(world: u32, root: u32, rank: u32) -> Self {
        let turned = Turned { world, root };
        Self { turned, place: turned.place(rank) }
    }

    /// Combines all vectors; the place's own chunk of the result ends at `at(place)`.
    /// `at` says where to keep a chunk's sum.
    fn reduce_scatter(&self, program: &mut Program, at: impl Fn(u32) -> Chunks) {
        for round in 0..self.turned.world - 1 {
            let (sent, received) = (self.before(round + 1), self.before(round + 2));
            let from = if round == 0 { Chunks::input(sent, 1) } else { at(sent) };
            program.send(self.next(), from);
            let own = Chunks::input(received, 1);
            program.combine(self.previous(), at(received), own, Operand::Received);
            program.end_round();
        }
    }

    /// Spreads everyone's chunk. The place's own one is at `own`, the others' go to `at(place)`.
    fn all_gather(&self, program: &mut Program, own: Chunks, at: impl Fn(u32) -> Chunks) {
        for round in 0..self.turned.world - 1 {
            let (sent, received) = (self.before(round), self.before(round + 1));
            program.send(self.next(), if round == 0 { own } else { at(sent) });
            program.recv(self.previous(), at(received));
            program.end_round();
        }
    }

    /// The chunks of the others whose sums pass through this place, in the order of their numbers.
    fn others(&self) -> impl Iterator<Item = u32> + use<> {
        let (own, start) = (self.place, self.before(1));
        (0..self.turned.world).filter(move |chunk| *chunk != own && *chunk != start)
    }

    /// Where to keep the sum of a chunk: the place's own one apart, the others' packed.
    fn sum_at(&self, chunk: u32, others: Chunks, own: Chunks) -> Chunks {
        let start = self.before(1);
        let skipped = u32::from(chunk > self.place) + u32::from(chunk > start);
        if chunk == self.place { own } else { others.part(chunk - skipped, 1) }
    }

    fn before(&self, steps: u32) -> u32 {
        let world = self.turned.world;
        (self.place + 2 * world - steps) % world
    }

    fn next(&self) -> u32 {
        self.turned.rank(self.place + 1)
    }

    fn previous(&self) -> u32 {
        self.turned.rank(self.before(1))
    }
}

/// The root keeps sums in `Out`, the others in scratch, where their subtree's results come behind
/// their own.
fn reduce(program: &mut Program, seat: &Seat, node: &Node) {
    if node.is_root() {
        let vector = Chunks::output(0, seat.turned.world);
        seat.reduce_scatter(program, |chunk| vector.part(chunk, 1));
        node.gather_up(program, |place, len| [vector.part(place, len)].into_iter());
    } else {
        let place = seat.place;
        let sums = program.add_scratch(seat.others());
        let results = program.add_scratch(place..place + node.subtree());
        seat.reduce_scatter(program, |chunk| seat.sum_at(chunk, sums, results.part(0, 1)));
        node.gather_up(program, |from, len| [results.part(from - place, len)].into_iter());
    }
}
