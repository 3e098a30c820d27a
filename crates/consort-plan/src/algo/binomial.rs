//! Binomial tree: whoever has it passes it on, so those who have it double.
//!
//! With places counted from the root, the parent of a place is the place without its lowest bit;
//! a place with lowest bit `b` has the children `+1, +2, +4 … < b` and stands for the `b` places from
//! its own on.
//!
//! - Chunks: whole vectors; `gather` and `scatter` carry the chunks of a whole subtree.
//! - Rounds: `⌈log₂ n⌉` at the root, one for each child; twice that for `all_reduce` and `barrier`.
//! - Bytes: an inner rank sends or receives `m` for each child, up to `⌈log₂ n⌉ m`; in `gather` and
//!   `scatter` everyone sends or receives its subtree's chunks, up to `m/2`.
//! - Rounding: neighbours first, in the order of ranks from the root on: `((0 ∘ 1) ∘ (2 ∘ 3)) ∘ …`.
//! - In place: yes.
//!
//! Best for small vectors, where the number of rounds counts.

use super::turned::Turned;
use super::{Algorithm, alone};
use crate::op::Collective;
use crate::program::{Chunks, Operand, Program, Space};

/// A binomial tree. See the top of its file.
#[derive(Clone, Copy, Debug)]
pub struct Binomial;

impl Algorithm for Binomial {
    fn name(&self) -> &'static str {
        "binomial"
    }

    fn supports(&self, op: Collective, _: u32) -> bool {
        use Collective::{AllReduce, Barrier, Broadcast, Gather, Reduce, Scatter};
        matches!(
            op,
            AllReduce | Barrier | Broadcast { .. } | Gather { .. } | Reduce { .. } | Scatter { .. }
        )
    }

    fn program(&self, op: Collective, world: u32, rank: u32) -> Program {
        if world == 1 {
            return alone(op);
        }
        let node = Node::new(world, op.root().unwrap_or(0), rank);
        let mut program = Program::default();
        let (input, output) = (Chunks::input(0, world), Chunks::output(0, world));
        match op {
            Collective::AllReduce => {
                node.reduce_up(&mut program, input, output);
                node.broadcast_down(&mut program, output);
            }
            Collective::Reduce { .. } => {
                let sums = if node.is_root() {
                    output
                } else {
                    program.add_scratch(if node.is_leaf() { 0..0 } else { 0..world })
                };
                node.reduce_up(&mut program, input, sums);
            }
            Collective::Broadcast { .. } => node.broadcast_down(&mut program, output),
            Collective::Gather { .. } => gather(&mut program, &node),
            Collective::Scatter { .. } => scatter(&mut program, &node),
            Collective::Barrier => node.barrier(&mut program),
            other => panic!("binomial trees do not support {other}"),
        }
        program
    }
}

/// A place in the tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    turned: Turned,
    place: u32,
    /// How many places its subtree would have in a full tree.
    reach: u32,
}

impl Node {
    pub(super) fn new(world: u32, root: u32, rank: u32) -> Self {
        let turned = Turned { world, root };
        let place = turned.place(rank);
        let reach =
            if place == 0 { world.next_power_of_two() } else { 1 << place.trailing_zeros() };
        Self { turned, place, reach }
    }

    pub(super) fn is_root(&self) -> bool {
        self.place == 0
    }

    /// How many places its subtree has.
    pub(super) fn subtree(&self) -> u32 {
        self.reach.min(self.turned.world - self.place)
    }

    /// Combines upwards. `sums` is where inner nodes keep their results; leaves need none.
    pub(super) fn reduce_up(&self, program: &mut Program, input: Chunks, sums: Chunks) {
        let mut have = input;
        for (child, _) in self.children() {
            program.combine(child, sums, have, Operand::Local);
            program.end_round();
            have = sums;
        }
        if let Some(parent) = self.parent() {
            program.send(parent, have);
            program.end_round();
        }
    }

    /// Passes on what the root has, to the largest subtree first.
    pub(super) fn broadcast_down(&self, program: &mut Program, vector: Chunks) {
        if let Some(parent) = self.parent() {
            program.recv(parent, vector);
            program.end_round();
        }
        for (child, _) in self.children().rev() {
            program.send(child, vector);
            program.end_round();
        }
    }

    /// Gathers a chunk from every place. `at` says where this rank keeps a range of places' chunks
    /// (start, length), in one piece or two; its own chunk is already there.
    pub(super) fn gather_up<P: Iterator<Item = Chunks>>(
        &self,
        program: &mut Program,
        at: impl Fn(u32, u32) -> P,
    ) {
        for (child, distance) in self.children() {
            for piece in at(self.place + distance, self.part(distance)) {
                program.recv(child, piece);
            }
            program.end_round();
        }
        if let Some(parent) = self.parent() {
            at(self.place, self.subtree()).for_each(|piece| program.send(parent, piece));
            program.end_round();
        }
    }

    /// The way back of [`gather_up`](Self::gather_up), to the largest subtree first.
    pub(super) fn scatter_down<P: Iterator<Item = Chunks>>(
        &self,
        program: &mut Program,
        at: impl Fn(u32, u32) -> P,
    ) {
        if let Some(parent) = self.parent() {
            at(self.place, self.subtree()).for_each(|piece| program.recv(parent, piece));
            program.end_round();
        }
        for (child, distance) in self.children().rev() {
            for piece in at(self.place + distance, self.part(distance)) {
                program.send(child, piece);
            }
            program.end_round();
        }
    }

    fn barrier(&self, program: &mut Program) {
        for (child, _) in self.children() {
            program.await_signal(child);
            program.end_round();
        }
        if let Some(parent) = self.parent() {
            program.signal(parent);
            program.end_round();
            program.await_signal(parent);
            program.end_round();
        }
        for (child, _) in self.children().rev() {
            program.signal(child);
            program.end_round();
        }
    }

    fn is_leaf(&self) -> bool {
        self.subtree() == 1
    }

    fn parent(&self) -> Option<u32> {
        (self.place > 0).then(|| self.turned.rank(self.place - self.reach))
    }

    /// Ranks and how far they are, nearest first.
    fn children(&self) -> impl DoubleEndedIterator<Item = (u32, u32)> {
        let Self { turned, place, .. } = *self;
        let near = (0..self.reach.ilog2()).map(|bit| 1 << bit);
        near.filter(move |distance| place + distance < turned.world)
            .map(move |distance| (turned.rank(place + distance), distance))
    }

    /// How many places the subtree of the child at this distance has.
    fn part(&self, distance: u32) -> u32 {
        distance.min(self.turned.world - self.place - distance)
    }

    /// Where a vector in the order of ranks is cut so that ranges of places become ranges of
    /// chunks: each piece by its first place, its first chunk and its length.
    fn pieces(&self, place: u32, len: u32) -> impl Iterator<Item = (u32, u32, u32)> + use<> {
        let Turned { world, root } = self.turned;
        super::turned::around(place + root, len, world)
            .map(move |(chunk, len)| ((chunk + world - root) % world, chunk, len))
    }

    /// Where this rank keeps the chunks of a range of places: the root in a vector, the others in
    /// scratch, their own place first.
    fn keep(
        &self,
        vector: Space,
        scratch: Chunks,
        place: u32,
        len: u32,
    ) -> impl Iterator<Item = Chunks> + use<> {
        let Self { place: own, .. } = *self;
        self.pieces(place, len).map(move |(place, chunk, len)| {
            if own == 0 {
                Chunks { space: vector, start: chunk, len }
            } else {
                scratch.part(place - own, len)
            }
        })
    }

    /// The chunks of the vector that belong to the subtree, in the order of places.
    fn chunks(&self) -> impl Iterator<Item = u32> {
        let Self { turned, place, .. } = *self;
        (place..place + self.subtree()).map(move |place| turned.rank(place))
    }
}

fn gather(program: &mut Program, node: &Node) {
    let own = Chunks::input(0, 1);
    if node.is_leaf() {
        node.gather_up(program, |_, _| [own].into_iter());
        return;
    }
    let scratch = own_scratch(program, node);
    let mut place = node.keep(Space::Out, scratch, node.place, 1);
    program.copy(own, place.next().expect("a rank keeps its own chunk"));
    node.gather_up(program, |place, len| node.keep(Space::Out, scratch, place, len));
}

fn scatter(program: &mut Program, node: &Node) {
    let own = Chunks::output(0, 1);
    if node.is_leaf() {
        node.scatter_down(program, |_, _| [own].into_iter());
        return;
    }
    let scratch = own_scratch(program, node);
    node.scatter_down(program, |place, len| node.keep(Space::In, scratch, place, len));
    let mut place = node.keep(Space::In, scratch, node.place, 1);
    program.copy(place.next().expect("a rank keeps its own chunk"), own);
    program.end_round();
}

/// Room for the chunks of the subtree, at ranks who have no vector of their own.
fn own_scratch(program: &mut Program, node: &Node) -> Chunks {
    if node.is_root() { Chunks::NONE } else { program.add_scratch(node.chunks()) }
}
