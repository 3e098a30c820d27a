//! A point's call on a group, with its memory, ready to be made again and again.

use std::ops::Range;

use consort::{Call, Error, Group, Inputs, Outputs, Rank, Source, Target};
use rustix::time::{ClockId, clock_gettime};

use super::data::Data;
use super::op::Op;
use super::point::Point;
use super::timing::Company;

/// One rank's side of a point.
#[derive(Debug)]
pub(crate) struct Work<'a> {
    group: &'a Group,
    data: Data,
    input: Vec<u8>,
    output: Vec<u8>,
    in_place: bool,
}

impl<'a> Work<'a> {
    /// With memory of its own.
    pub(crate) fn new(group: &'a Group, point: &Point) -> Self {
        let data = Data { point: point.clone(), rank: group.rank().index(), ranks: group.world() };
        let in_place = point.in_place || point.op == Op::Broadcast;
        let (input, output) =
            if in_place { (0, point.bytes) } else { (data.contributed(), data.received()) };
        Self { group, data, input: vec![0; input], output: vec![0; output], in_place }
    }

    /// Makes the call once with fresh memory. Whether it gave what it has to.
    pub(crate) fn check(&mut self) -> Result<bool, Error> {
        self.output.fill(0xff);
        if self.in_place {
            let place = self.place_of_contribution();
            self.data.fill(&mut self.output[place]);
        } else {
            self.data.fill(&mut self.input);
        }
        self.run(1)?;
        Ok(self.data.is_right(&self.output[self.place_of_result()]))
    }

    /// In place, the contribution lies where the result will be.
    fn place_of_contribution(&self) -> Range<usize> {
        let start = match self.data.point.op {
            Op::AllGather | Op::Gather => self.data.rank * self.data.share(),
            _ => 0,
        };
        start..start + self.data.contributed()
    }

    fn place_of_result(&self) -> Range<usize> {
        let start = match self.data.point.op {
            Op::ReduceScatter | Op::Scatter if self.in_place => self.data.rank * self.data.share(),
            _ => 0,
        };
        start..start + self.data.received()
    }

    fn call(&mut self) -> Result<Call<'_>, Error> {
        let (contribution, result) = (self.place_of_contribution(), self.place_of_result());
        let Point { op, dtype, reduce, .. } = self.data.point;
        let all = Target::from(&mut self.output[..]);
        let output = all.slice(result);
        let input = if self.in_place {
            Source::from(all.slice(contribution))
        } else {
            Source::from(&self.input[..])
        };
        let (root, uneven) = (Rank::from(0), false);
        let is_root = self.data.rank == 0;
        Ok(match op {
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
            Op::SendRecv => {
                return Err(Error::Argument("ranks cannot send to each other yet".to_owned()));
            }
        })
    }
}

impl Company for Work<'_> {
    type Error = Error;

    fn run(&mut self, calls: u64) -> Result<(), Error> {
        let group = self.group;
        let call = self.call()?;
        for _ in 0..calls {
            group.call(&call)?;
        }
        Ok(())
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
        let now = clock_gettime(ClockId::Monotonic);
        now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
    }
}
