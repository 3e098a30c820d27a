//! A point's call on a group, with its memory, ready to be made again and again.

use std::ops::Range;

use consort::{Call, Error, Group, Incoming, Inputs, Outgoing, Outputs, Rank, Source, Tag, Target};

use super::data::Data;
use super::memory::Memory;
use super::op::Op;
use super::point::Point;
use super::timing::{self, Company};

/// One rank's side of a point.
#[derive(Debug)]
pub(crate) struct Work<'a> {
    group: &'a Group,
    layout: Layout,
    memory: Memory,
}

impl<'a> Work<'a> {
    /// With memory of its own: symmetric, if every rank wants that.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn new(group: &'a Group, point: &Point, symmetric: bool) -> Result<Self, Error> {
        let data = Data { point: point.clone(), rank: group.rank().index(), ranks: group.world() };
        let in_place = point.op.is_in_place(point.in_place);
        let (input, output) =
            if in_place { (0, point.bytes) } else { (data.contributed(), data.received()) };
        let memory = match symmetric {
            true => Memory::symmetric(group, input, output)?,
            false => Memory::private(input, output),
        };
        Ok(Self { group, layout: Layout { data, in_place }, memory })
    }

    /// Makes the call once with fresh memory. Whether it gave what it has to.
    ///
    /// # Errors
    /// When it fails.
    pub(crate) fn check(&mut self) -> Result<bool, Error> {
        let layout = &self.layout;
        self.memory.lend(|input, output| {
            output.fill(0xff);
            let contribution = match layout.in_place {
                true => &mut output[layout.contribution()],
                false => input,
            };
            layout.data.fill(contribution);
            Ok(())
        })?;
        self.run(1)?;
        let layout = &self.layout;
        self.memory.lend(|_, output| Ok(layout.data.is_right(&output[layout.result()])))
    }
}

/// What a point's call does with its memory.
#[derive(Debug)]
struct Layout {
    data: Data,
    in_place: bool,
}

impl Layout {
    /// In place, the contribution lies where the result will be.
    fn contribution(&self) -> Range<usize> {
        let start = match self.data.point.op {
            Op::AllGather | Op::Gather => self.data.rank * self.data.share(),
            _ => 0,
        };
        start..start + self.data.contributed()
    }

    fn result(&self) -> Range<usize> {
        let start = match self.data.point.op {
            Op::ReduceScatter | Op::Scatter if self.in_place => self.data.rank * self.data.share(),
            _ => 0,
        };
        start..start + self.data.received()
    }

    /// Makes a collective call so many times.
    fn collect(
        &self,
        group: &Group,
        input: &[u8],
        output: &mut [u8],
        calls: u64,
    ) -> Result<(), Error> {
        let all = Target::from(output);
        let input = match self.in_place {
            true => Source::from(all.slice(self.contribution())),
            false => Source::from(input),
        };
        let Some(call) = self.call(input, all) else { unreachable!("messages are no collectives") };
        (0..calls).try_for_each(|_| group.call(&call))
    }

    /// Sends to the next rank and receives from the one before, so many times.
    fn pass_on(
        &self,
        group: &Group,
        input: &[u8],
        output: &mut [u8],
        calls: u64,
    ) -> Result<(), Error> {
        let Data { point: Point { dtype, .. }, rank, ranks } = self.data;
        let (next, last) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
        let rank = |index: usize| Rank::from(u32::try_from(index).expect("ranks are small"));
        let tag = Tag::from(0);
        let outgoing = Outgoing { dtype, data: input.into(), to: rank(next), tag };
        let incoming = Incoming { dtype, buffer: output.into(), from: Some(rank(last)), tag };
        (0..calls).try_for_each(|_| group.exchange(Some(outgoing), Some(incoming)).map(drop))
    }

    /// `None` for messages.
    fn call<'m>(&self, input: Source<'m>, all: Target<'m>) -> Option<Call<'m>> {
        let output = all.slice(self.result());
        let Point { op, dtype, reduce, .. } = self.data.point;
        let (root, uneven) = (Rank::from(0), false);
        let is_root = self.data.rank == 0;
        Some(match op {
            Op::AllReduce => Call::AllReduce { dtype, op: reduce, input, output },
            Op::Broadcast => Call::Broadcast { dtype, root, buffer: all },
            Op::Reduce => {
                let output = is_root.then_some(output);
                Call::Reduce { dtype, op: reduce, root, input, output }
            }
            Op::AllGather => Call::AllGather { dtype, input, outputs: Outputs::Equal(all) },
            Op::Gather => {
                let outputs = is_root.then_some(Outputs::Equal(all));
                Call::Gather { dtype, root, uneven, input, outputs }
            }
            Op::Scatter => {
                let inputs = is_root.then_some(Inputs::Equal(input));
                Call::Scatter { dtype, root, uneven, inputs, output }
            }
            Op::ReduceScatter => {
                Call::ReduceScatter { dtype, op: reduce, inputs: Inputs::Equal(input), output }
            }
            Op::AllToAll => {
                let (inputs, outputs) = (Inputs::Equal(input), Outputs::Equal(all));
                Call::AllToAll { dtype, uneven, inputs, outputs }
            }
            Op::Barrier => Call::Barrier,
            Op::SendRecv => return None,
        })
    }
}

impl Company for Work<'_> {
    type Error = Error;

    fn run(&mut self, calls: u64) -> Result<(), Error> {
        let Self { group, layout, memory } = self;
        memory.lend(|input, output| match layout.data.point.op {
            Op::SendRecv => layout.pass_on(group, input, output, calls),
            _ => layout.collect(group, input, output, calls),
        })
    }

    fn barrier(&mut self) -> Result<(), Error> {
        self.group.barrier()
    }

    fn largest(&mut self, mine: u64) -> Result<u64, Error> {
        let mut all = [mine];
        self.group.all_reduce(&mut all, consort::ReduceOp::Max)?;
        Ok(all[0])
    }

    fn now(&self) -> u64 {
        timing::now()
    }
}
