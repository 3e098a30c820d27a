//! A call of all ranks, with its memory and what should be there in the end.

use consort_plan::{Collective, Layout};
use consort_sys::dtype::{Dtype, ReduceOp};
use consort_sys::reduce::Kernel;
use consort_sys::view::{Source, Target};

use super::super::Choices;
use super::super::links::mem::{Dice, Room};
use super::sweep;
use crate::call::{Call, Inputs, Outputs};
use crate::group::Rank;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Barrier,
    AllReduce,
    Broadcast,
    Reduce,
    AllGather,
    Gather,
    Scatter,
    ReduceScatter,
    AllToAll,
}

impl Kind {
    pub(super) const ALL: [Self; 9] = [
        Self::Barrier,
        Self::AllReduce,
        Self::Broadcast,
        Self::Reduce,
        Self::AllGather,
        Self::Gather,
        Self::Scatter,
        Self::ReduceScatter,
        Self::AllToAll,
    ];
}

#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) kind: Kind,
    pub(super) world: usize,
    pub(super) root: usize,
    pub(super) algorithm: Option<&'static str>,
    pub(super) is_crowded: bool,
    pub(super) dtype: Dtype,
    pub(super) op: ReduceOp,
    /// Elements of a vector, or about as many of each part.
    pub(super) count: usize,
    pub(super) uneven: bool,
    pub(super) listed: bool,
    pub(super) in_place: bool,
    pub(super) room: Room,
    pub(super) seed: u64,
}

/// What one rank has: a row of parts to read, and one to write.
struct Memory {
    input: Vec<u8>,
    output: Vec<u8>,
    sources: Vec<usize>,
    targets: Vec<usize>,
}

impl Case {
    /// Carries it out and looks at everything.
    pub(super) fn check(&self) {
        let mut memory: Vec<Memory> = (0..self.world).map(|rank| self.memory(rank)).collect();
        let given: Vec<Vec<u8>> = memory.iter().map(|it| it.input.clone()).collect();
        let wanted: Vec<Option<Vec<u8>>> =
            (0..self.world).map(|rank| self.wanted(rank, &given)).collect();
        let results = self.run(&mut memory);
        for rank in 0..self.world {
            let Some(wanted) = &wanted[rank] else { continue };
            if self.is_in_order() {
                assert!(results[rank] == *wanted, "rank {rank} has the wrong bytes");
            } else if self.kind == Kind::AllReduce {
                assert!(results[rank] == results[0], "ranks 0 and {rank} differ");
            }
        }
        for (rank, (memory, given)) in memory.iter().zip(&given).enumerate() {
            assert!(self.in_place || memory.input == *given, "rank {rank} has lost its input");
        }
    }

    /// Whether values are such that the order does not matter, or the order is that of ranks.
    fn is_in_order(&self) -> bool {
        self.is_tame() || !self.is_combined_on_the_way()
    }

    fn is_combined_on_the_way(&self) -> bool {
        let bytes = self.count * self.dtype.size();
        let (op, bytes) = match self.kind {
            Kind::AllReduce => (Collective::AllReduce, bytes),
            Kind::Reduce => (Collective::Reduce { root: 0 }, bytes),
            Kind::ReduceScatter => {
                let parts = (0..self.world).map(|to| self.part(0, to));
                (Collective::ReduceScatter, parts.sum())
            }
            _ => return false,
        };
        self.choices().combining(op, bytes, (self.dtype, self.op)).is_some()
    }

    fn choices(&self) -> Choices {
        let hosts = if self.is_crowded { 1 } else { self.world.div_ceil(2) as u32 };
        let layout = Layout::even(self.world as u32, hosts);
        Choices::new(self.algorithm, layout).unwrap().sharing(1)
    }

    fn is_tame(&self) -> bool {
        !self.seed.is_multiple_of(4)
    }

    /// How many bytes go from one rank to another, where there is a part for each.
    fn part(&self, from: usize, to: usize) -> usize {
        let knows = |rank: usize| match self.uneven || self.has_listed_sizes() {
            true => self.count * [2, 0, 1, 3, 1][rank % 5] / 2 + rank % 3,
            false => self.count,
        };
        self.dtype.size()
            * match self.kind {
                Kind::AllGather | Kind::Gather => knows(from),
                Kind::Scatter | Kind::ReduceScatter => knows(to),
                // In place, what a rank gives another is as long as what it gets.
                Kind::AllToAll if self.in_place => knows(from + to),
                Kind::AllToAll => knows(2 * from + to),
                _ => self.count,
            }
    }

    /// Operations without an uneven form take lists of any sizes.
    fn has_listed_sizes(&self) -> bool {
        self.listed && matches!(self.kind, Kind::AllGather | Kind::ReduceScatter)
    }

    /// Parts of one slice are equal.
    fn is_listed(&self) -> bool {
        self.listed || self.uneven
    }

    fn memory(&self, rank: usize) -> Memory {
        let all = 0..self.world;
        let is_root = rank == self.root;
        let (sources, targets): (Vec<usize>, Vec<usize>) = match self.kind {
            Kind::Barrier => (vec![], vec![]),
            Kind::AllReduce => (vec![self.part(rank, rank)], vec![self.part(rank, rank)]),
            Kind::Reduce if is_root => (vec![self.part(rank, rank)], vec![self.part(rank, rank)]),
            Kind::Reduce => (vec![self.part(rank, rank)], vec![]),
            Kind::Broadcast => (vec![self.part(rank, rank)], vec![self.part(rank, rank)]),
            Kind::Gather if !is_root => (vec![self.part(rank, 0)], vec![]),
            Kind::AllGather | Kind::Gather => {
                (vec![self.part(rank, 0)], all.map(|from| self.part(from, rank)).collect())
            }
            Kind::Scatter if !is_root => (vec![], vec![self.part(0, rank)]),
            Kind::Scatter | Kind::ReduceScatter => {
                (all.map(|to| self.part(rank, to)).collect(), vec![self.part(rank, rank)])
            }
            Kind::AllToAll => (
                all.clone().map(|to| self.part(rank, to)).collect(),
                all.map(|from| self.part(from, rank)).collect(),
            ),
        };
        let input = self.values(rank, sources.iter().sum());
        let output = vec![0xEE; targets.iter().sum()];
        Memory { input, output, sources, targets }
    }

    /// Bytes that say whose they are and where.
    fn values(&self, rank: usize, len: usize) -> Vec<u8> {
        let mut dice =
            Dice((self.seed ^ (rank as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)) | 1);
        let floats = match self.dtype {
            Dtype::F32 | Dtype::C64 => 4,
            Dtype::F64 | Dtype::C128 => 8,
            _ => 0,
        };
        if floats == 0 || !self.is_tame() {
            return (0..len).map(|_| dice.roll(251) as u8).collect();
        }
        let is_complex = matches!(self.dtype, Dtype::C64 | Dtype::C128);
        let mut number = |at: usize| match self.op {
            ReduceOp::Product if is_complex && at % 2 == 1 => 0.0,
            ReduceOp::Product => [1.0_f64, 2.0][dice.roll(2)],
            _ => dice.roll(100) as f64,
        };
        let bytes = |number: f64| match floats {
            4 => (number as f32).to_le_bytes().to_vec(),
            _ => number.to_le_bytes().to_vec(),
        };
        (0..len / floats).flat_map(|at| bytes(number(at))).collect()
    }

    /// What a rank's output should be, if it has one.
    fn wanted(&self, rank: usize, given: &[Vec<u8>]) -> Option<Vec<u8>> {
        // Where a part for a rank is in what a rank gives.
        let part = |from: usize, to: usize| {
            let start: usize = (0..to).map(|before| self.part(from, before)).sum();
            &given[from][start..start + self.part(from, to)]
        };
        let all = 0..self.world;
        let is_root = rank == self.root;
        match self.kind {
            Kind::Barrier => None,
            Kind::Reduce | Kind::Gather if !is_root => None,
            Kind::AllReduce | Kind::Reduce => {
                Some(self.combined(given.iter().map(|it| &it[..]).collect()))
            }
            Kind::ReduceScatter => Some(self.combined(all.map(|from| part(from, rank)).collect())),
            Kind::Broadcast => Some(given[self.root].clone()),
            Kind::AllGather | Kind::Gather => Some(given.concat()),
            Kind::Scatter => Some(part(self.root, rank).to_vec()),
            Kind::AllToAll => Some(all.flat_map(|from| part(from, rank).to_vec()).collect()),
        }
    }

    fn combined(&self, operands: Vec<&[u8]>) -> Vec<u8> {
        let mut result = vec![0; operands[0].len()];
        let sources: Vec<Source<'_>> = operands.into_iter().map(Source::from).collect();
        let kernel = Kernel::new(self.dtype, self.op, self.world).unwrap();
        kernel.reduce(&[Target::from(&mut result[..])], &sources);
        result
    }

    /// Makes the call on every rank, and says what is in the outputs then.
    fn run(&self, memory: &mut [Memory]) -> Vec<Vec<u8>> {
        let choices = self.choices();
        let mut all: Vec<Views<'_>> = Vec::new();
        for (rank, memory) in memory.iter_mut().enumerate() {
            all.push(self.views(rank, memory));
        }
        let calls: Vec<Call<'_>> =
            (0..self.world).map(|rank| self.call(rank, &all[rank])).collect();
        for (rank, call) in calls.iter().enumerate() {
            call.check(Rank::from(rank as u32), self.world).unwrap();
        }
        let seen = sweep::carry_out(&calls, &choices, self.room, self.seed).unwrap();
        assert!(seen.longest <= 1 << 20, "a message of {} bytes is too long", seen.longest);
        assert!(seen.most_away <= 8 * self.world, "{} messages wait at once", seen.most_away);
        all.iter()
            .map(|it| it.result.iter().flat_map(|it| Source::from(*it).to_vec()).collect())
            .collect()
    }

    fn views<'m>(&self, rank: usize, memory: &'m mut Memory) -> Views<'m> {
        let input = Target::from(&mut memory.input[..]);
        let output = Target::from(&mut memory.output[..]);
        let (inputs, outputs) = (cut(input, &memory.sources), cut(output, &memory.targets));
        let (mut inputs_used, mut result) = (inputs.clone(), outputs.clone());
        let (mut whole_in, mut whole_out) = (input, output);
        if self.in_place {
            match self.kind {
                Kind::Barrier | Kind::Broadcast => {}
                // One part that is read from among all that are written.
                Kind::AllGather | Kind::Gather if !outputs.is_empty() => {
                    outputs[rank].copy_from(inputs[0].into());
                    inputs_used = vec![outputs[rank]];
                    whole_in = outputs[rank];
                }
                // One part that is written to among all that are read.
                Kind::Scatter | Kind::ReduceScatter if !inputs.is_empty() => {
                    result = vec![inputs[rank]];
                    whole_out = inputs[rank];
                }
                Kind::AllReduce | Kind::Reduce | Kind::AllToAll if !outputs.is_empty() => {
                    result = inputs.clone();
                    whole_out = input;
                }
                _ => {}
            }
        }
        if self.kind == Kind::Broadcast && rank == self.root {
            output.copy_from(input.into());
        }
        let sources = inputs_used.iter().map(|it| Source::from(*it)).collect();
        Views { sources, result, input: whole_in.into(), output: whole_out }
    }

    fn call<'v>(&self, rank: usize, views: &'v Views<'v>) -> Call<'v> {
        let Self { dtype, op, uneven, .. } = *self;
        let root = Rank::from(self.root as u32);
        let (input, output) = (views.input, views.output);
        let listed = self.is_listed();
        let inputs = if listed { Inputs::List(&views.sources) } else { Inputs::Equal(views.input) };
        let outputs =
            if listed { Outputs::List(&views.result) } else { Outputs::Equal(views.output) };
        let is_root = rank == self.root;
        match self.kind {
            Kind::Barrier => Call::Barrier,
            Kind::AllReduce => Call::AllReduce { dtype, op, input, output },
            Kind::Broadcast => Call::Broadcast { dtype, root, buffer: output },
            Kind::Reduce => {
                Call::Reduce { dtype, op, root, input, output: is_root.then_some(output) }
            }
            Kind::AllGather => Call::AllGather { dtype, input, outputs },
            Kind::Gather => {
                let outputs = is_root.then_some(outputs);
                Call::Gather { dtype, root, uneven, input, outputs }
            }
            Kind::Scatter => {
                let inputs = is_root.then_some(inputs);
                Call::Scatter { dtype, root, uneven, inputs, output }
            }
            Kind::ReduceScatter => Call::ReduceScatter { dtype, op, inputs, output },
            Kind::AllToAll => Call::AllToAll { dtype, uneven, inputs, outputs },
        }
    }
}

/// What a rank's call looks at.
struct Views<'m> {
    sources: Vec<Source<'m>>,
    result: Vec<Target<'m>>,
    input: Source<'m>,
    output: Target<'m>,
}

fn cut<'m>(all: Target<'m>, sizes: &[usize]) -> Vec<Target<'m>> {
    let mut start = 0;
    let part = |size: &usize| {
        start += size;
        all.slice(start - size..start)
    };
    sizes.iter().map(part).collect()
}
