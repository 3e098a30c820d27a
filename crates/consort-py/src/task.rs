//! Calls on memory that Python keeps.

use consort::{
    Call, Dtype, Incoming, Inputs, Lists, Message, Outgoing, Outputs, OwnedCall, OwnedMessage,
    Rank, ReduceOp, Tag,
};
use pyo3::prelude::*;

use crate::region::Region;

/// A collective call, with the memory it is made on.
#[derive(Debug)]
pub(crate) enum Task {
    Barrier,
    AllReduce { dtype: Dtype, op: ReduceOp, input: Region, output: Region },
    Broadcast { dtype: Dtype, root: Rank, buffer: Region },
    Reduce { dtype: Dtype, op: ReduceOp, root: Rank, input: Region, output: Option<Region> },
    AllGather { dtype: Dtype, input: Region, outputs: Parts },
    Gather { dtype: Dtype, root: Rank, uneven: bool, input: Region, outputs: Option<Parts> },
    Scatter { dtype: Dtype, root: Rank, uneven: bool, inputs: Option<Parts>, output: Region },
    ReduceScatter { dtype: Dtype, op: ReduceOp, inputs: Parts, output: Region },
    AllToAll { dtype: Dtype, uneven: bool, inputs: Parts, outputs: Parts },
}

/// A part for each rank: a region of equal parts, or a region for each.
#[derive(Debug, FromPyObject)]
pub(crate) enum Parts {
    Equal(Region),
    List(Vec<Region>),
}

impl Task {
    /// The call. Parts that lie anywhere are put into `lists`.
    pub(crate) fn call<'a>(&'a self, lists: &'a mut Lists<'a>) -> Call<'a> {
        let Lists { inputs: read, outputs: written } = lists;
        match self {
            Self::Barrier => Call::Barrier,
            &Self::AllReduce { dtype, op, input, output } => {
                Call::AllReduce { dtype, op, input: input.source(), output: output.target() }
            }
            &Self::Broadcast { dtype, root, buffer } => {
                Call::Broadcast { dtype, root, buffer: buffer.target() }
            }
            &Self::Reduce { dtype, op, root, input, output } => {
                let output = output.map(Region::target);
                Call::Reduce { dtype, op, root, input: input.source(), output }
            }
            &Self::AllGather { dtype, input, ref outputs } => {
                Call::AllGather { dtype, input: input.source(), outputs: outputs.outputs(written) }
            }
            &Self::Gather { dtype, root, uneven, input, ref outputs } => {
                let outputs = outputs.as_ref().map(|parts| parts.outputs(written));
                Call::Gather { dtype, root, uneven, input: input.source(), outputs }
            }
            &Self::Scatter { dtype, root, uneven, ref inputs, output } => {
                let inputs = inputs.as_ref().map(|parts| parts.inputs(read));
                Call::Scatter { dtype, root, uneven, inputs, output: output.target() }
            }
            &Self::ReduceScatter { dtype, op, ref inputs, output } => {
                let inputs = inputs.inputs(read);
                Call::ReduceScatter { dtype, op, inputs, output: output.target() }
            }
            &Self::AllToAll { dtype, uneven, ref inputs, ref outputs } => {
                let (inputs, outputs) = (inputs.inputs(read), outputs.outputs(written));
                Call::AllToAll { dtype, uneven, inputs, outputs }
            }
        }
    }
}

impl Parts {
    fn inputs<'a>(&self, list: &'a mut Vec<consort::Source<'a>>) -> Inputs<'a> {
        match self {
            Self::Equal(all) => Inputs::Equal(all.source()),
            Self::List(parts) => {
                list.extend(parts.iter().map(|part| part.source()));
                Inputs::List(list)
            }
        }
    }

    fn outputs<'a>(&self, list: &'a mut Vec<consort::Target<'a>>) -> Outputs<'a> {
        match self {
            Self::Equal(all) => Outputs::Equal(all.target()),
            Self::List(parts) => {
                list.extend(parts.iter().map(|part| part.target()));
                Outputs::List(list)
            }
        }
    }
}

/// A call that keeps the tensors whose memory it is made on. A thread that has no hold on the
/// interpreter may drop it: PyO3 notes the reference, and gives it back when a thread that has one next
/// comes into this module.
pub(crate) struct Held {
    pub(crate) task: Task,
    pub(crate) _tensors: Py<PyAny>,
}

impl OwnedCall for Held {
    fn call<'a>(&'a mut self, lists: &'a mut Lists<'a>) -> Call<'a> {
        self.task.call(lists)
    }
}

/// A message that keeps its tensor.
pub(crate) struct HeldMessage {
    pub(crate) way: Way,
    pub(crate) dtype: Dtype,
    pub(crate) region: Region,
    pub(crate) tag: Tag,
    pub(crate) _tensors: Py<PyAny>,
}

/// Whether a message is sent or received.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    To(Rank),
    From(Option<Rank>),
}

impl OwnedMessage for HeldMessage {
    fn message(&mut self) -> Message<'_> {
        let Self { way, dtype, region, tag, .. } = *self;
        match way {
            Way::To(to) => Message::Out(Outgoing { dtype, data: region.source(), to, tag }),
            Way::From(from) => Message::In(Incoming { dtype, buffer: region.target(), from, tag }),
        }
    }
}
