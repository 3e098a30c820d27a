//! all_reduce, reduce and reduce_scatter, with every dtype in every way that it can be combined.

use consort::{Call, Dtype, Group, Inputs, Rank, ReduceOp};

use super::data::{PERIOD, Tile, phase, phase_of_result};
use super::meet::{Digest, in_worlds};
use super::oracle::{combine, operations};
use super::room::Room;
use super::sizes::{large, small};

in_worlds! { every_reduction:
    are_right_in_a_world_of_1 1
    are_right_in_a_world_of_2 2
    are_right_in_a_world_of_3 3
    are_right_in_a_world_of_4 4
    are_right_in_a_world_of_5 5
    are_right_in_a_world_of_8 8
}

fn every_reduction(group: &Group, digest: &mut Digest) {
    let mut call = 0;
    for dtype in Dtype::ALL {
        let inputs = Tile::new(dtype);
        for (turn, op) in operations(dtype).into_iter().enumerate() {
            let reduction = Reduction::new(group, dtype, op, &inputs);
            for count in [small(dtype), large(dtype, group.world(), turn)].concat() {
                call += 1;
                digest.add(&reduction.all_reduce(count, call));
                reduction.reduce(count, call);
                reduction.reduce_scatter(count, call);
            }
        }
    }
}

/// A way to combine numbers of one dtype, with what comes of it.
pub(crate) struct Reduction<'a> {
    group: &'a Group,
    dtype: Dtype,
    op: ReduceOp,
    inputs: &'a Tile,
    results: Tile,
}

impl<'a> Reduction<'a> {
    pub(crate) fn new(group: &'a Group, dtype: Dtype, op: ReduceOp, inputs: &'a Tile) -> Self {
        let of = |rank: usize| inputs.take(phase(rank, 0), PERIOD);
        let all: Vec<Vec<u8>> = (0..group.world()).map(of).collect();
        let results = Tile::made_of(dtype, combine(dtype, op, &all));
        Self { group, dtype, op, inputs, results }
    }

    /// Returns the result.
    pub(crate) fn all_reduce(&self, count: usize, call: usize) -> Vec<u8> {
        let &Self { group, dtype, op, .. } = self;
        let mut mine = self.mine(count, call);
        let output = match call.is_multiple_of(2) {
            true => {
                let output = mine.target();
                group.call(&Call::AllReduce { dtype, op, input: output.into(), output }).unwrap();
                mine
            }
            false => {
                let mut elsewhere = Room::empty(mine.bytes().len(), call % 5);
                let (input, output) = (mine.source(), elsewhere.target());
                group.call(&Call::AllReduce { dtype, op, input, output }).unwrap();
                self.is_as_before(&mine, count, call);
                elsewhere
            }
        };
        self.check("all_reduce", 0, count, call, output.bytes());
        output.bytes().to_vec()
    }

    pub(crate) fn reduce(&self, count: usize, call: usize) {
        let &Self { group, dtype, op, .. } = self;
        let root = Rank::from((call % group.world()) as u32);
        let mut mine = self.mine(count, call);
        let mut elsewhere = Room::empty(mine.bytes().len(), call % 5);
        let is_root = root == group.rank();
        if is_root && call % 4 < 2 {
            let output = mine.target();
            let input = output.into();
            let output = Some(output);
            group.call(&Call::Reduce { dtype, op, root, input, output }).unwrap();
            return self.check("reduce in place", 0, count, call, mine.bytes());
        }
        let output = is_root.then(|| elsewhere.target());
        group.call(&Call::Reduce { dtype, op, root, input: mine.source(), output }).unwrap();
        self.is_as_before(&mine, count, call);
        match is_root {
            true => self.check("reduce", 0, count, call, elsewhere.bytes()),
            false => assert!(elsewhere.is_untouched()),
        }
    }

    pub(crate) fn reduce_scatter(&self, count: usize, call: usize) {
        let &Self { group, dtype, op, .. } = self;
        let (me, world) = (group.rank().index(), group.world());
        let mut mine = self.mine(count * world, call);
        let part = count * dtype.size();
        if call.is_multiple_of(3) {
            let all = mine.target();
            let (inputs, output) =
                (Inputs::Equal(all.into()), all.slice(me * part..(me + 1) * part));
            group.call(&Call::ReduceScatter { dtype, op, inputs, output }).unwrap();
            let result = &mine.bytes()[me * part..(me + 1) * part];
            return self.check("reduce_scatter in place", me * count, count, call, result);
        }
        let mut elsewhere = Room::empty(part, call % 5);
        let (inputs, output) = (Inputs::Equal(mine.source()), elsewhere.target());
        group.call(&Call::ReduceScatter { dtype, op, inputs, output }).unwrap();
        self.is_as_before(&mine, count * world, call);
        self.check("reduce_scatter", me * count, count, call, elsewhere.bytes());
    }

    fn mine(&self, count: usize, call: usize) -> Room {
        let from = phase(self.group.rank().index(), call);
        Room::holding(&self.inputs.take(from, count), call % 3)
    }

    fn is_as_before(&self, input: &Room, count: usize, call: usize) {
        let from = phase(self.group.rank().index(), call);
        self.inputs.check(from, input.bytes(), || self.told("the input", count, call));
    }

    fn check(&self, what: &str, from: usize, count: usize, call: usize, result: &[u8]) {
        assert_eq!(result.len(), count * self.dtype.size());
        let from = from + phase_of_result(call);
        self.results.check(from, result, || self.told(what, count, call));
    }

    fn told(&self, what: &str, count: usize, call: usize) -> String {
        format!("{what} of {count} {} by {}, number {call}", self.dtype, self.op)
    }
}
