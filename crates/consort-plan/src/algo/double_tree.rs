//! Double binary tree: two trees over the same ranks, each for half of the chunks.
//!
//! In a binary tree half of the ranks are leaves, who never pass anything on. So there are two, and
//! a rank that is a leaf in one is (but for one rank) an inner node in the other: all ranks send.
//!
//! The first tree, with places `0 … m−1`: the level of a place is the number of its trailing zeros; a
//! place of level `l` stands between its children `− 2^(l−1)` and `+ 2^(l−1)` (or nearer, where the world
//! ends); 0 is the root, with one child. The second is the first one mirrored, or turned by one place
//! when `m` is odd. With a root given, the trees have the other ranks, and their roots are its
//! children.
//!
//! - Chunks: the first half on one tree, the second half on the other.
//! - Rounds: a rank has at most seven, whatever the world. The way is `2 ⌈log₂ n⌉` rounds up, since the
//!   two children of a rank come one after the other, and `⌈log₂ n⌉` down, where it sends to both at
//!   once.
//! - Bytes: at most `m` up, a half in each tree, and `m` down, both halves of its children.
//! - Rounding: a place between its children, `(left ∘ own) ∘ right`: in the order of ranks, in the
//!   second half possibly turned. In `reduce` the root comes first.
//! - In place: yes.
//!
//! Best for large vectors between very many ranks, cut into segments: few rounds like a tree, little
//! more bytes than a ring. Sanders, Speck, Träff, “Two-tree algorithms for full bandwidth broadcast,
//! reduction and scan”, 2009.

use super::turned::Turned;
use super::{Algorithm, alone};
use crate::op::Collective;
use crate::program::{Chunks, How, Operand, Program, Step};

/// Two complementary binary trees. See the top of its file.
#[derive(Clone, Copy, Debug)]
pub struct DoubleTree;

impl Algorithm for DoubleTree {
    fn name(&self) -> &'static str {
        "double_tree"
    }

    fn supports(&self, op: Collective, _: u32) -> bool {
        use Collective::{AllReduce, Broadcast, Reduce};
        matches!(op, AllReduce | Broadcast { .. } | Reduce { .. })
    }

    fn program(&self, op: Collective, world: u32, rank: u32) -> Program {
        assert!(self.supports(op, world), "double trees do not support {op}");
        if world == 1 {
            return alone(op);
        }
        let mut slots = Slots::default();
        let mut program = Program::default();
        let half = world.div_ceil(2);
        let halves = [(0, half), (half, world - half)];
        let seat = Turned { world, root: op.root().unwrap_or(0) };
        let place = seat.place(rank);
        for (second, (start, len)) in [false, true].into_iter().zip(halves) {
            let (input, output) = (Chunks::input(start, len), Chunks::output(start, len));
            let rooted = op.root().is_some();
            let tree = Tree { seat, size: world - u32::from(rooted), rooted, second };
            match op {
                Collective::AllReduce => {
                    tree.up(&mut slots, place, input, output);
                    tree.down(&mut slots, place, output);
                }
                Collective::Broadcast { .. } => tree.down(&mut slots, place, output),
                _ if place == 0 => tree.up(&mut slots, place, input, output),
                _ => {
                    let inner = tree.has_children(place);
                    let like = if inner { start..start + len } else { 0..0 };
                    let sums = program.add_scratch(like);
                    tree.up(&mut slots, place, input, sums);
                }
            }
        }
        slots.write(&mut program);
        program
    }
}

/// One of the two trees over the places of a world. If it is rooted, place 0 is above the tree, and
/// the tree has the others.
#[derive(Clone, Copy)]
struct Tree {
    seat: Turned,
    size: u32,
    rooted: bool,
    second: bool,
}

/// A node of the first tree, whichever of the two it stands for.
#[derive(Clone, Copy)]
struct Node {
    level: u32,
    parent: Option<Edge>,
    left: Option<u32>,
    right: Option<u32>,
}

/// The way to a parent.
#[derive(Clone, Copy)]
struct Edge {
    parent: u32,
    level: u32,
    is_left: bool,
}

impl Tree {
    /// Combines upwards: `sums` is where inner nodes keep their results.
    fn up(&self, slots: &mut Slots, place: u32, input: Chunks, sums: Chunks) {
        if self.rooted && place == 0 {
            let top = self.rank(0);
            slots.combine(2 * self.height() + 2, top, sums, input, Operand::Local);
            return;
        }
        let node = self.node(self.number(place));
        // Mirrored, what is left in the tree is right in the order of ranks.
        let mirrored = self.is_mirrored();
        let order = |left| if left != mirrored { Operand::Received } else { Operand::Local };
        let mut have = input;
        for (child, is_left) in [(node.left, true), (node.right, false)] {
            if let Some(child) = child {
                let slot = up_slot(node.level, is_left);
                slots.combine(slot, self.rank(child), sums, have, order(is_left));
                have = sums;
            }
        }
        if let Some(edge) = node.parent {
            slots.send(up_slot(edge.level, edge.is_left), self.rank(edge.parent), have);
        } else if self.rooted {
            slots.send(2 * self.height() + 2, self.seat.root, have);
        }
    }

    /// Passes on what the root has.
    fn down(&self, slots: &mut Slots, place: u32, vector: Chunks) {
        let start = 2 * self.height() + 3;
        if self.rooted && place == 0 {
            slots.send(start, self.rank(0), vector);
            return;
        }
        let node = self.node(self.number(place));
        let slot = |level| start + 1 + self.height() - level;
        if let Some(edge) = node.parent {
            slots.recv(slot(edge.level), self.rank(edge.parent), vector);
        } else if self.rooted {
            slots.recv(start, self.seat.root, vector);
        }
        for child in [node.right, node.left].into_iter().flatten() {
            slots.send(slot(node.level), self.rank(child), vector);
        }
    }

    fn has_children(&self, place: u32) -> bool {
        let node = self.node(self.number(place));
        node.left.or(node.right).is_some()
    }

    /// The number that a place has in the first tree.
    fn number(&self, place: u32) -> u32 {
        let place = place - u32::from(self.rooted);
        match (self.second, self.is_mirrored()) {
            (false, _) => place,
            (true, true) => self.size - 1 - place,
            (true, false) => (place + self.size - 1) % self.size,
        }
    }

    /// The rank of a number.
    fn rank(&self, number: u32) -> u32 {
        let place = match (self.second, self.is_mirrored()) {
            (false, _) => number,
            (true, true) => self.size - 1 - number,
            (true, false) => (number + 1) % self.size,
        };
        self.seat.rank(place + u32::from(self.rooted))
    }

    fn is_mirrored(&self) -> bool {
        self.second && self.size.is_multiple_of(2)
    }

    /// The level of the root.
    fn height(&self) -> u32 {
        self.size.next_power_of_two().ilog2()
    }

    fn level(&self, number: u32) -> u32 {
        if number == 0 { self.height() } else { number.trailing_zeros() }
    }

    fn node(&self, number: u32) -> Node {
        let level = self.level(number);
        let within = |number: &u32| *number < self.size;
        let right = (0..level).rev().map(|level| number + (1 << level)).find(within);
        let left = (number > 0 && level > 0).then(|| number - (1 << (level - 1)));
        Node { level, parent: self.parent(number), left, right }
    }

    fn parent(&self, number: u32) -> Option<Edge> {
        if number == 0 {
            return None;
        }
        let bit = 1 << number.trailing_zeros();
        let without = number ^ bit;
        let above = without | (bit << 1);
        let parent = if above < self.size { above } else { without };
        Some(Edge { parent, level: self.level(parent), is_left: number < parent })
    }
}

/// When a node of this level receives from a child.
fn up_slot(level: u32, is_left: bool) -> u32 {
    2 * level + u32::from(!is_left)
}

/// Steps by a time that is the same for a send and its receive, so that nobody waits in a circle.
#[derive(Default)]
struct Slots(Vec<(u32, Step)>);

impl Slots {
    fn send(&mut self, slot: u32, to: u32, from: Chunks) {
        if from.len > 0 {
            self.0.push((slot, Step::Send { to, from }));
        }
    }

    fn recv(&mut self, slot: u32, from: u32, into: Chunks) {
        if into.len > 0 {
            self.0.push((slot, Step::Recv { from, into, how: How::Overwrite }));
        }
    }

    fn combine(&mut self, slot: u32, from: u32, into: Chunks, with: Chunks, first: Operand) {
        if into.len > 0 {
            self.0.push((slot, Step::Recv { from, into, how: How::Combine { with, first } }));
        }
    }

    /// A round for each slot in which there is something to do.
    fn write(mut self, program: &mut Program) {
        self.0.sort_by_key(|(slot, _)| *slot);
        for round in self.0.chunk_by(|a, b| a.0 == b.0) {
            round.iter().for_each(|(_, step)| program.push(*step));
            program.end_round();
        }
    }
}
