//! What is measured: an operation on some memory, by each of those who carry it out.

use consort::{Dtype, Element, Group, Incoming, Outgoing, Rank, ReduceOp, Result, Tag};

use crate::mpi::Mpi;
use crate::nccl::{Handle, Nccl};

/// An operation, whose root is rank 0.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    AllReduceInPlace,
    AllReduce,
    AllGather,
    Broadcast,
    /// To the next rank, from the one before.
    SendRecv,
}

impl Operation {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::AllReduceInPlace => "all_reduce, in place",
            Self::AllReduce => "all_reduce",
            Self::AllGather => "all_gather",
            Self::Broadcast => "broadcast",
            Self::SendRecv => "send and recv",
        }
    }

    /// By a group's own call.
    pub(crate) fn by_group(self, group: &Group, on: &mut Buffers) -> Result<()> {
        let (input, output) = (&on.input[..], &mut on.output[..]);
        match self {
            Self::AllReduceInPlace => group.all_reduce(output, ReduceOp::Sum),
            Self::AllReduce => group.all_reduce_into(input, output, ReduceOp::Sum),
            Self::AllGather => group.all_gather(input, output),
            Self::Broadcast => group.broadcast(output, 0),
            Self::SendRecv => {
                let (dtype, tag) = (Dtype::F32, Tag::from(0));
                let (data, to) = (f32::source(input), Rank::from(on.next));
                let (buffer, from) = (f32::target(output), Some(Rank::from(on.previous)));
                let outgoing = Outgoing { dtype, data, to, tag };
                group
                    .exchange(Some(outgoing), Some(Incoming { dtype, buffer, from, tag }))
                    .map(drop)
            }
        }
    }

    /// By NCCL's C API, on a stream.
    pub(crate) fn by_nccl(self, nccl: &Nccl, stream: Handle, on: &mut Buffers) -> Result<()> {
        let (input, output) = (&on.input[..], &mut on.output[..]);
        match self {
            Self::AllReduceInPlace => nccl.all_reduce(None, output, stream),
            Self::AllReduce => nccl.all_reduce(Some(input), output, stream),
            Self::AllGather => nccl.all_gather(input, output, stream),
            Self::Broadcast => nccl.broadcast(output, stream),
            Self::SendRecv => nccl.send_recv((input, on.next), (output, on.previous), stream),
        }
        Ok(())
    }

    /// By MPI's own call.
    pub(crate) fn by_mpi(self, mpi: &Mpi, on: &mut Buffers) -> Result<()> {
        let (input, output) = (&on.input[..], &mut on.output[..]);
        match self {
            Self::AllReduceInPlace => mpi.all_reduce(None, output),
            Self::AllReduce => mpi.all_reduce(Some(input), output),
            Self::AllGather => mpi.all_gather(input, output),
            Self::Broadcast => mpi.broadcast(output),
            Self::SendRecv => mpi.send_recv((input, on.next), (output, on.previous)),
        }
        Ok(())
    }
}

/// The memory of a point.
pub(crate) struct Buffers {
    operation: Operation,
    rank: u32,
    world: u32,
    next: u32,
    previous: u32,
    input: Vec<f32>,
    output: Vec<f32>,
}

impl Buffers {
    pub(crate) fn new(operation: Operation, bytes: usize, group: &Group) -> Self {
        let (rank, world) = (group.rank().get(), group.world() as u32);
        let count = bytes / size_of::<f32>();
        let given = if operation == Operation::AllGather { count / world as usize } else { count };
        let (next, previous) = ((rank + 1) % world, (rank + world - 1) % world);
        let (input, output) = (vec![0.0; given], vec![0.0; count]);
        Self { operation, rank, world, next, previous, input, output }
    }

    /// Fills them with numbers that tell rank and place.
    pub(crate) fn fill(&mut self) {
        let rank = self.rank;
        self.input.iter_mut().enumerate().for_each(|(at, number)| *number = value(rank, at));
        let in_place = matches!(self.operation, Operation::AllReduceInPlace | Operation::Broadcast);
        let number = |at| if in_place { value(rank, at) } else { -1.0 };
        self.output.iter_mut().enumerate().for_each(|(at, place)| *place = number(at));
    }

    /// Looks at the result.
    ///
    /// # Panics
    /// When it is wrong: then times mean nothing.
    pub(crate) fn check(&self) {
        let sum = |at| (0..self.world).map(|rank| value(rank, at)).sum();
        for (at, found) in self.output.iter().enumerate() {
            let expected: f32 = match self.operation {
                Operation::AllReduceInPlace | Operation::AllReduce => sum(at),
                Operation::AllGather => {
                    value((at / self.input.len()) as u32, at % self.input.len())
                }
                Operation::Broadcast => value(0, at),
                Operation::SendRecv => value(self.previous, at),
            };
            assert_eq!(*found, expected, "{} of {}", at, self.operation.name());
        }
    }

    pub(crate) fn clear(&mut self) {
        self.input.fill(0.0);
        self.output.fill(0.0);
    }
}

/// Small numbers, which repeat after a prime.
fn value(rank: u32, at: usize) -> f32 {
    ((rank as usize * 7 + at % 1021) % 64) as f32
}

/// All that are measured.
pub(crate) const OPERATIONS: [Operation; 5] = [
    Operation::AllReduceInPlace,
    Operation::AllReduce,
    Operation::AllGather,
    Operation::Broadcast,
    Operation::SendRecv,
];
