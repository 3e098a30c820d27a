//! Hierarchical: one algorithm inside hosts, another one between them.
//!
//! Two forms, for a [`Layout`] of ranks on hosts:
//!
//! - *With leaders* (`hierarchical`): one rank of each host (its first, or the root) collects inside,
//!   talks to the other leaders, and spreads inside. `all_reduce` is a `reduce` inside, an `all_reduce`
//!   among leaders and a `broadcast` inside; the other operations are made in the same way.
//! - *By shares* (`shares`), for hosts with equally many ranks: `all_reduce` as a `reduce_scatter`
//!   inside, an `all_reduce` of each share between the ranks with the same number on their hosts, and an
//!   `all_gather` inside. All ranks of a host send at once, each a part.
//!
//! With `h` hosts of `k` ranks:
//!
//! - Chunks: those of the parts, each standing for a range of chunks of the whole vector.
//! - Rounds: those of the parts, one after the other.
//! - Bytes between hosts: what the outer algorithm sends between `h` ranks, and no more; by shares, a
//!   rank sends `1/k` of that.
//! - Rounding: inside a host first, then between hosts, as the two algorithms do.
//! - In place: yes, if both algorithms are (all are).
//!
//! Best wherever several ranks share a host: what is inside is cheap.

use super::embed::{Frame, View, embed, split};
use super::{Algorithm, Binomial, Bruck, Flat, Halving, Ring};
use crate::layout::Layout;
use crate::op::Collective;
use crate::program::{Chunks, Program, Space};

/// An algorithm inside hosts and one between them. See the top of its file.
#[derive(Debug)]
pub struct Hierarchical {
    layout: Layout,
    form: Form,
    /// What to use inside and outside instead of the usual.
    inner: Option<&'static dyn Algorithm>,
    outer: Option<&'static dyn Algorithm>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Leaders,
    Shares,
}

impl Hierarchical {
    /// With one leader on each host.
    pub fn new(layout: Layout) -> Self {
        Self { layout, form: Form::Leaders, inner: None, outer: None }
    }

    /// By shares, which every rank carries between hosts.
    pub fn shares(layout: Layout) -> Self {
        Self { layout, form: Form::Shares, inner: None, outer: None }
    }

    /// Uses this algorithm inside hosts, where it supports what is done there.
    #[must_use]
    pub fn inside(mut self, algorithm: &'static dyn Algorithm) -> Self {
        self.inner = Some(algorithm);
        self
    }

    /// Uses this algorithm between hosts, where it supports what is done there.
    #[must_use]
    pub fn between(mut self, algorithm: &'static dyn Algorithm) -> Self {
        self.outer = Some(algorithm);
        self
    }

    /// A part's program, by the algorithm that was asked for or by the usual one.
    fn part(
        &self,
        asked: Option<&'static dyn Algorithm>,
        op: Collective,
        ranks: &[u32],
        number: u32,
    ) -> Program {
        let world = ranks.len() as u32;
        let usual = || usual(op, world);
        let algorithm = asked.filter(|it| it.supports(op, world)).unwrap_or_else(usual);
        algorithm.program(op, world, number)
    }
}

impl Algorithm for Hierarchical {
    fn name(&self) -> &'static str {
        match self.form {
            Form::Leaders => "hierarchical",
            Form::Shares => "shares",
        }
    }

    fn supports(&self, op: Collective, world: u32) -> bool {
        use Collective::{AllReduce, AllToAll, Barrier, Broadcast, Reduce};
        world == self.layout.world()
            && match (self.form, op) {
                (Form::Shares, _) => op == AllReduce && self.layout.is_even(),
                (_, AllReduce | Barrier | Broadcast { .. } | Reduce { .. }) => true,
                (_, AllToAll) => false,
                _ => self.layout.is_in_order(),
            }
    }

    fn program(&self, op: Collective, world: u32, rank: u32) -> Program {
        assert!(self.supports(op, world), "{} does not support {op} here", self.name());
        let mut program = Program::default();
        match self.form {
            Form::Leaders => Part::new(self, op, rank).write(&mut program),
            Form::Shares => self.by_shares(&mut program, rank),
        }
        program
    }
}

impl Hierarchical {
    fn by_shares(&self, program: &mut Program, rank: u32) {
        let layout = &self.layout;
        let (host, local) = (layout.host(rank), layout.local(rank));
        let (inside, hosts) = (layout.ranks(host), layout.count());
        let across: Vec<u32> = (0..hosts).map(|host| layout.ranks(host)[local as usize]).collect();
        let world = layout.world();
        let shares = split(world, inside.len() as u32);
        let share = Chunks::output(local * hosts, hosts);
        let whole = |chunks| View::of(chunks, &shares);
        let frame = Frame {
            ranks: inside,
            input: whole(Chunks::input(0, world)),
            output: View::one(share),
            vector: shares.clone(),
        };
        let part = self.part(self.inner, Collective::ReduceScatter, inside, local);
        embed(program, &part, &frame);
        let vector: Vec<u32> = (share.start..=share.end()).collect();
        let view = View::of(share, &vector);
        let frame = Frame { ranks: &across, input: view.clone(), output: view, vector };
        embed(program, &self.part(self.outer, Collective::AllReduce, &across, host), &frame);
        let frame = Frame {
            ranks: inside,
            input: View::one(share),
            output: whole(Chunks::output(0, world)),
            vector: shares.clone(),
        };
        embed(program, &self.part(self.inner, Collective::AllGather, inside, local), &frame);
    }
}

/// One rank's part with leaders.
struct Part<'a> {
    algorithm: &'a Hierarchical,
    op: Collective,
    rank: u32,
    world: u32,
    host: u32,
    /// The ranks of this host, the number of its leader among them, and this rank's.
    inside: &'a [u32],
    leader: u32,
    local: u32,
    /// At a leader: the leaders of all hosts.
    leaders: Vec<u32>,
    /// At a leader: where the ranks of each host begin, if hosts follow each other.
    bounds: Vec<u32>,
}

impl<'a> Part<'a> {
    fn new(algorithm: &'a Hierarchical, op: Collective, rank: u32) -> Self {
        let layout = &algorithm.layout;
        let (host, world) = (layout.host(rank), layout.world());
        let lead = |host| match op.root() {
            Some(root) if layout.host(root) == host => root,
            _ => layout.ranks(host)[0],
        };
        let leader = lead(host);
        // Nobody else needs to know the leaders of all hosts, and where they begin.
        let hosts = if leader == rank { layout.count() } else { 0 };
        let first = |host| layout.ranks(host)[0];
        Self {
            algorithm,
            op,
            rank,
            world,
            host,
            inside: layout.ranks(host),
            leader: layout.local(leader),
            local: layout.local(rank),
            leaders: (0..hosts).map(lead).collect(),
            bounds: (0..hosts).map(first).chain([world]).collect(),
        }
    }

    fn write(&self, program: &mut Program) {
        let (input, output) = (Chunks::input(0, self.world), Chunks::output(0, self.world));
        match self.op {
            Collective::AllReduce => {
                self.reduce_inside(program, input, output);
                self.between(program, Collective::AllReduce, output, output);
                self.broadcast_inside(program, output);
            }
            Collective::Broadcast { .. } => {
                let root = self.root_host();
                self.between(program, Collective::Broadcast { root }, Chunks::NONE, output);
                self.broadcast_inside(program, output);
            }
            Collective::Reduce { .. } => {
                let sums = self.vector(program, Space::Out, 0..self.world);
                self.reduce_inside(program, input, sums);
                self.between(program, Collective::Reduce { root: self.root_host() }, sums, output);
            }
            Collective::Barrier => self.barrier(program),
            Collective::AllGather => {
                self.gather_inside(program, output.part(self.start(), self.size()));
                self.blocks(program, Collective::AllGather, output);
                self.broadcast_inside(program, output);
            }
            Collective::ReduceScatter => {
                let sums = self.vector(program, Space::In, 0..self.world);
                self.reduce_inside(program, input, sums);
                self.blocks(program, Collective::ReduceScatter, sums);
                self.scatter_inside(program, self.own_block(sums));
            }
            Collective::Gather { .. } => {
                let block =
                    self.vector(program, Space::Out, self.start()..self.start() + self.size());
                self.gather_inside(program, self.own_block(block));
                self.blocks(program, Collective::Gather { root: self.root_host() }, block);
            }
            Collective::Scatter { .. } => {
                let block =
                    self.vector(program, Space::In, self.start()..self.start() + self.size());
                self.blocks(program, Collective::Scatter { root: self.root_host() }, block);
                self.scatter_inside(program, self.own_block(block));
            }
            Collective::AllToAll => unreachable!("not supported"),
        }
    }

    /// Where a leader keeps a vector or a part of it: the root in the buffer it has, another one in
    /// scratch. The others have none.
    fn vector(&self, program: &mut Program, space: Space, chunks: std::ops::Range<u32>) -> Chunks {
        if self.op.root() == Some(self.rank) {
            Chunks { space, start: 0, len: self.world }
        } else if self.is_leader() {
            program.add_scratch(chunks)
        } else {
            Chunks::NONE
        }
    }

    fn reduce_inside(&self, program: &mut Program, input: Chunks, sums: Chunks) {
        let vector = split(self.world, self.size());
        let op = Collective::Reduce { root: self.leader };
        let output = if self.is_leader() { View::of(sums, &vector) } else { View::none() };
        self.inside(program, op, View::of(input, &vector), output, vector);
    }

    fn broadcast_inside(&self, program: &mut Program, chunks: Chunks) {
        let vector = split(self.world, self.size());
        let op = Collective::Broadcast { root: self.leader };
        self.inside(program, op, View::none(), View::of(chunks, &vector), vector);
    }

    fn gather_inside(&self, program: &mut Program, block: Chunks) {
        let vector = self.own_chunks();
        let op = Collective::Gather { root: self.leader };
        let output = if self.is_leader() { View::of(block, &vector) } else { View::none() };
        self.inside(program, op, View::one(Chunks::input(0, 1)), output, vector);
    }

    fn scatter_inside(&self, program: &mut Program, block: Chunks) {
        let vector = self.own_chunks();
        let op = Collective::Scatter { root: self.leader };
        let input = if self.is_leader() { View::of(block, &vector) } else { View::none() };
        self.inside(program, op, input, View::one(Chunks::output(0, 1)), vector);
    }

    fn inside(
        &self,
        program: &mut Program,
        op: Collective,
        input: View,
        output: View,
        vector: Vec<u32>,
    ) {
        let part = self.algorithm.part(self.algorithm.inner, op, self.inside, self.local);
        embed(program, &part, &Frame { ranks: self.inside, input, output, vector });
    }

    /// Leaders do something with whole vectors.
    fn between(&self, program: &mut Program, op: Collective, input: Chunks, output: Chunks) {
        if !self.is_leader() {
            return;
        }
        let vector = split(self.world, self.leaders.len() as u32);
        let view = |chunks: Chunks, space| match op.chunks(space, self.hosts(), self.host) {
            0 => View::none(),
            _ => View::of(chunks, &vector),
        };
        let (input, output) = (view(input, Space::In), view(output, Space::Out));
        let part = self.algorithm.part(self.algorithm.outer, op, &self.leaders, self.host);
        embed(program, &part, &Frame { ranks: &self.leaders, input, output, vector });
    }

    /// Leaders do something in which a host's chunks are one: `kept` is the vector or the host's
    /// part of it, where this one comes from or goes to.
    fn blocks(&self, program: &mut Program, op: Collective, kept: Chunks) {
        if !self.is_leader() {
            return;
        }
        let view = |space| match op.chunks(space, self.hosts(), self.host) {
            0 => View::none(),
            1 if self.hosts() > 1 || kept.len != self.world => View::one(self.own_block(kept)),
            _ => View::of(kept, &self.bounds),
        };
        let (input, output) = (view(Space::In), view(Space::Out));
        let vector = self.bounds.clone();
        let part = self.algorithm.part(self.algorithm.outer, op, &self.leaders, self.host);
        embed(program, &part, &Frame { ranks: &self.leaders, input, output, vector });
    }

    fn barrier(&self, program: &mut Program) {
        let signal = |program: &mut Program| {
            self.inside(program, Collective::Barrier, View::none(), View::none(), vec![0]);
        };
        signal(program);
        self.between(program, Collective::Barrier, Chunks::NONE, Chunks::NONE);
        signal(program);
    }

    /// This host's part of a vector, or all there is.
    fn own_block(&self, kept: Chunks) -> Chunks {
        if kept.len == self.world { kept.part(self.start(), self.size()) } else { kept }
    }

    /// The chunks of this host's ranks, each for itself.
    fn own_chunks(&self) -> Vec<u32> {
        (self.start()..=self.start() + self.size()).collect()
    }

    fn is_leader(&self) -> bool {
        self.local == self.leader
    }

    fn root_host(&self) -> u32 {
        self.op.root().map_or(0, |root| self.algorithm.layout.host(root))
    }

    fn start(&self) -> u32 {
        self.inside[0]
    }

    fn size(&self) -> u32 {
        self.inside.len() as u32
    }

    fn hosts(&self) -> u32 {
        self.leaders.len() as u32
    }
}

/// What a part is done with when nothing else is asked for.
fn usual(op: Collective, world: u32) -> &'static dyn Algorithm {
    match op {
        // A world that is no power of two pays for folding, a ring for every rank.
        Collective::AllReduce if world.is_power_of_two() || world > LARGEST_RING => &Halving,
        Collective::AllReduce => &Ring,
        Collective::ReduceScatter | Collective::AllGather => &Ring,
        Collective::Barrier => &Bruck,
        Collective::AllToAll => &Flat,
        _ => &Binomial,
    }
}

const LARGEST_RING: u32 = 32;
