//! all_reduce, reduce and reduce_scatter, with every dtype in every way that it can be combined.

use consort::{Dtype, Group, Rank, ReduceOp};

use super::data::{PERIOD, Tile, phase, phase_of_result};
use super::edges::slot;
use super::exercise::{Caller, Exercise, What};
use super::meet::{Digest, in_worlds};
use super::oracle::{combine, operations};
use super::room::Room;
use super::sizes::{every_edge, long};

in_worlds! { every_reduction:
    are_right_in_a_world_of_1 1 [shm tcp]
    are_right_in_a_world_of_2 2 [shm tcp in_process mpi]
    are_right_in_a_world_of_3 3 [shm tcp mixed mpi]
    are_right_in_a_world_of_4 4 [shm in_process mpi]
    are_right_in_a_world_of_5 5 [shm]
    are_right_in_a_world_of_8 8 [shm]
}

fn every_reduction(group: &Group, digest: &mut Digest) {
    let world = group.world();
    reduce_everything(&Caller::here(group), digest, |dtype| {
        let mut counts = every_edge(dtype, world);
        match world {
            2 | 5 => counts.push(long(dtype)),
            // So many ranks take long for much.
            8 => counts.retain(|count| count * dtype.size() <= 2 * slot(world)),
            _ => {}
        }
        counts
    });
}

/// Every dtype in every way that it can be combined, so many elements each time.
pub(crate) fn reduce_everything(
    caller: &Caller<'_>,
    digest: &mut Digest,
    counts: impl Fn(Dtype) -> Vec<usize>,
) {
    let mut call = 0;
    for dtype in Dtype::ALL {
        let (inputs, counts) = (Tile::new(dtype), counts(dtype));
        for op in operations(dtype) {
            let reduction = Reduction::new(caller, dtype, op, &inputs);
            for &count in &counts {
                call += 1;
                digest.add(&reduction.all_reduce(count, call));
                reduction.reduce(count, call);
                // Parts of several slots are only more of the same, for every rank.
                let is_long = count * dtype.size() > 2 * slot(caller.world());
                reduction
                    .reduce_scatter(if is_long { count / caller.world() } else { count }, call);
            }
        }
    }
}

/// A way to combine numbers of one dtype, with what comes of it.
pub(crate) struct Reduction<'a> {
    caller: &'a Caller<'a>,
    dtype: Dtype,
    op: ReduceOp,
    inputs: &'a Tile,
    results: Tile,
}

impl<'a> Reduction<'a> {
    pub(crate) fn new(
        caller: &'a Caller<'a>,
        dtype: Dtype,
        op: ReduceOp,
        inputs: &'a Tile,
    ) -> Self {
        let of = |rank: usize| inputs.take(phase(rank, 0), PERIOD);
        let all: Vec<Vec<u8>> = (0..caller.world()).map(of).collect();
        let results = Tile::made_of(dtype, combine(dtype, op, &all));
        Self { caller, dtype, op, inputs, results }
    }

    /// In place or not depends on the call. Returns the result.
    pub(crate) fn all_reduce(&self, count: usize, call: usize) -> Vec<u8> {
        let elsewhere = (!call.is_multiple_of(2)).then(|| self.nothing(count, call));
        let what = What::AllReduce(self.op);
        let (input, output) = self.carry_out(what, self.mine(count, call), elsewhere);
        let result = match &output {
            Some(output) => {
                self.is_as_before(&input, count, call);
                output.bytes()
            }
            None => input.bytes(),
        };
        self.check("all_reduce", 0, count, call, result);
        result.to_vec()
    }

    pub(crate) fn reduce(&self, count: usize, call: usize) {
        let root = call % self.caller.world();
        let is_root = root == self.caller.me();
        let in_place = is_root && call % 4 < 2;
        let elsewhere = (is_root && !in_place).then(|| self.nothing(count, call));
        let what = What::Reduce(self.op, Rank::from(root as u32));
        let (input, output) = self.carry_out(what, self.mine(count, call), elsewhere);
        if in_place {
            return self.check("reduce in place", 0, count, call, input.bytes());
        }
        self.is_as_before(&input, count, call);
        output.iter().for_each(|it| self.check("reduce", 0, count, call, it.bytes()));
    }

    pub(crate) fn reduce_scatter(&self, count: usize, call: usize) {
        let (me, world) = (self.caller.me(), self.caller.world());
        let elsewhere = (!call.is_multiple_of(3)).then(|| self.nothing(count, call));
        let (what, mine) = (What::ReduceScatter(self.op), self.mine(count * world, call));
        let (input, output) = self.carry_out(what, mine, elsewhere);
        let Some(output) = output else {
            let part = count * self.dtype.size();
            let result = &input.bytes()[me * part..(me + 1) * part];
            return self.check("reduce_scatter in place", me * count, count, call, result);
        };
        self.is_as_before(&input, count * world, call);
        self.check("reduce_scatter", me * count, count, call, output.bytes());
    }

    fn carry_out(&self, what: What, input: Room, output: Option<Room>) -> (Room, Option<Room>) {
        let exercise = Exercise::new(self.caller.group, what, self.dtype, Some(input), output);
        let Exercise { input, output, .. } = self.caller.carry_out(exercise);
        (input.expect("it was there before"), output)
    }

    fn mine(&self, count: usize, call: usize) -> Room {
        Room::holding(&self.inputs.take(phase(self.caller.me(), call), count), call % 3)
    }

    fn nothing(&self, count: usize, call: usize) -> Room {
        Room::empty(count * self.dtype.size(), call % 5)
    }

    fn is_as_before(&self, input: &Room, count: usize, call: usize) {
        let from = phase(self.caller.me(), call);
        self.inputs.check(from, input.bytes(), || self.told("the input", count, call));
    }

    pub(crate) fn check(&self, what: &str, from: usize, count: usize, call: usize, result: &[u8]) {
        assert_eq!(result.len(), count * self.dtype.size());
        let from = from + phase_of_result(call);
        self.results.check(from, result, || self.told(what, count, call));
    }

    fn told(&self, what: &str, count: usize, call: usize) -> String {
        format!("{what} of {count} {} by {}, number {call}", self.dtype, self.op)
    }
}
