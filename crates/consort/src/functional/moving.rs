//! Values on their way: memory, and the call to be made with it.

use consort_sys::dtype::{Dtype, ReduceOp};
use consort_sys::view::{Source, Target};

use super::collective::Collective;
use super::meta::Meta;
use super::plan::Plan;
use super::value::{Memory, Value};
use super::view::View;
use crate::backend::Terms;
use crate::call::{Call, Inputs, Outputs, Purpose};
use crate::device;
use crate::error::{Error, Result};
use crate::group::{Group, Rank};
use crate::job::{Lists, OwnedCall};

/// A value that a call owns.
///
/// | call | input | output |
/// |---|---|---|
/// | broadcast, all_reduce, reduce | | the value, which is replaced |
/// | all_gather | | room for all values, with this rank's at its place; without it, if it is the input |
/// | reduce_scatter, all_to_all | the value, with the part of each rank in one piece | room for the result |
///
/// So a value is copied once on its way in, in whatever order the call needs it, and an all_gather makes no
/// copy that it would not make anyway. Values that are joined along another dimension than the first are
/// copied once more on their way out, by whoever uses them.
pub(super) struct Moving<M> {
    way: Way,
    rank: Rank,
    world: usize,
    dtype: Dtype,
    /// A digest of shape and dimension, on which ranks have to agree.
    shapes: u32,
    /// They have to agree on that, too.
    purpose: Purpose,
    input: Option<M>,
    output: M,
}

/// Which call is made.
enum Way {
    Broadcast(Rank),
    AllReduce(ReduceOp),
    Reduce(ReduceOp, Rank),
    AllGather,
    ReduceScatter(ReduceOp),
    AllToAll,
    /// With parts of so many bytes.
    AllToAllUneven {
        to: Vec<usize>,
        from: Vec<usize>,
    },
}

/// Memory that a call can own, wherever it lies.
pub(super) trait Bytes: Send + 'static {
    fn source(&self) -> Source<'_>;
    fn target(&mut self) -> Target<'_>;
}

impl<M: Memory> Bytes for M {
    fn source(&self) -> Source<'_> {
        Memory::source(self)
    }

    fn target(&mut self) -> Target<'_> {
        Memory::target(self)
    }
}

impl Bytes for device::Memory {
    fn source(&self) -> Source<'_> {
        self.source()
    }

    fn target(&mut self) -> Target<'_> {
        self.target()
    }
}

impl<M> Moving<M> {
    pub(super) fn new(plan: &Plan, group: &Group, input: Option<M>, output: M) -> Self {
        let (way, shapes) = (Way::of(plan), plan.digest());
        let (rank, world) = (group.rank(), group.world());
        let (dtype, purpose) = (plan.x.dtype, plan.purpose());
        Self { way, rank, world, dtype, shapes, purpose, input, output }
    }

    /// The memory that is written.
    pub(super) fn into_output(self) -> M {
        self.output
    }
}

impl<M: Memory> Moving<M> {
    /// Of a copy of a value. Memory that is given for the result is taken if the result is made there.
    pub(super) fn copy_of<V: Value<Memory = M>>(
        value: &V,
        plan: &Plan,
        group: &Group,
        given: &mut Option<M>,
    ) -> Result<Self> {
        let (rank, world) = (group.rank(), group.world());
        let Plan { collective, x, y, .. } = plan;
        let (input, output) = match collective {
            // Whoever only pretends goes on with what it has.
            Collective::Broadcast { root } if *root != rank && group.moves_data()? => {
                (None, zeroes(x)?)
            }
            Collective::Broadcast { .. }
            | Collective::AllReduce { .. }
            | Collective::Reduce { .. } => (None, copied(value, x, |view| view)?),
            Collective::AllGather { .. } => {
                let mut all = match given.take_if(|_| plan.joined_along().is_none()) {
                    Some(given) => given,
                    None => zeroes(y)?,
                };
                let mine = Outputs::Equal(all.target()).part(rank.index(), world);
                value.view(|view| {
                    view.check(x)?;
                    view.copy_to(mine);
                    Ok::<(), Error>(())
                })??;
                (None, all)
            }
            Collective::ReduceScatter { dim, .. } => {
                let input = copied(value, x, |view| view.cut(*dim, world))?;
                (Some(input), given.take().map_or_else(|| zeroes(y), Ok)?)
            }
            Collective::AllToAll | Collective::AllToAllUneven { .. } => {
                let input = copied(value, x, |view| view)?;
                (Some(input), given.take().map_or_else(|| zeroes(y), Ok)?)
            }
            Collective::Permute { .. } => unreachable!("values change hands by messages"),
        };
        Ok(Self::new(plan, group, input, output))
    }

    /// Of the memory of a value itself, in which it is replaced.
    pub(super) fn in_place(memory: M, plan: &Plan, group: &Group) -> Self {
        Self::new(plan, group, None, memory)
    }

    /// The result, when the call is done, in memory that was given if there is some left.
    pub(super) fn arrive(mut self, plan: &Plan, given: Option<M>) -> Result<M> {
        if let Way::Reduce(_, root) = self.way
            && root != self.rank
        {
            self.output.target().fill(0);
        }
        let Some(dim) = plan.joined_along() else { return Ok(self.output) };
        let mut joined = given.map_or_else(|| zeroes(&plan.y), Ok)?;
        let parts = self.output.source();
        View::joined(parts, self.dtype, self.world, plan.x.around(dim))?.copy_to(joined.target());
        Ok(joined)
    }
}

impl<M: Bytes> OwnedCall for Moving<M> {
    fn call<'a>(&'a mut self, lists: &'a mut Lists<'a>) -> Call<'a> {
        let Self { ref way, rank, world, dtype, ref input, ref mut output, .. } = *self;
        let given = input.as_ref().map(Bytes::source);
        let input = || given.expect("it has one");
        let output = output.target();
        match way {
            Way::Broadcast(root) => Call::Broadcast { dtype, root: *root, buffer: output },
            Way::AllReduce(op) => Call::AllReduce { dtype, op: *op, input: output.into(), output },
            Way::Reduce(op, root) => {
                let result = (*root == rank).then_some(output);
                Call::Reduce { dtype, op: *op, root: *root, input: output.into(), output: result }
            }
            Way::AllGather => {
                let outputs = Outputs::Equal(output);
                let input = given.unwrap_or_else(|| outputs.part(rank.index(), world).into());
                Call::AllGather { dtype, input, outputs }
            }
            Way::ReduceScatter(op) => {
                Call::ReduceScatter { dtype, op: *op, inputs: Inputs::Equal(input()), output }
            }
            Way::AllToAll => {
                let (inputs, outputs) = (Inputs::Equal(input()), Outputs::Equal(output));
                Call::AllToAll { dtype, uneven: false, inputs, outputs }
            }
            Way::AllToAllUneven { to, from } => {
                let input = input();
                lists.inputs.extend(one_behind_the_other(to).map(|part| input.slice(part)));
                lists.outputs.extend(one_behind_the_other(from).map(|part| output.slice(part)));
                let (inputs, outputs) =
                    (Inputs::List(&lists.inputs), Outputs::List(&lists.outputs));
                Call::AllToAll { dtype, uneven: true, inputs, outputs }
            }
        }
    }

    fn terms(&self, terms: Terms) -> Terms {
        Terms { sizes: self.shapes, purpose: self.purpose, ..terms }
    }
}

impl Way {
    fn of(plan: &Plan) -> Self {
        let bytes = |rows: &[usize]| {
            let row = plan.x.around(1).1.saturating_mul(plan.x.dtype.size());
            rows.iter().map(|rows| rows * row).collect()
        };
        match &plan.collective {
            Collective::Broadcast { root } => Self::Broadcast(*root),
            Collective::AllReduce { op } => Self::AllReduce(*op),
            Collective::Reduce { op, root } => Self::Reduce(*op, *root),
            Collective::AllGather { .. } => Self::AllGather,
            Collective::ReduceScatter { op, .. } => Self::ReduceScatter(*op),
            Collective::AllToAll => Self::AllToAll,
            Collective::AllToAllUneven { to, from } => {
                Self::AllToAllUneven { to: bytes(to), from: bytes(from) }
            }
            Collective::Permute { .. } => unreachable!("values change hands by messages"),
        }
    }
}

fn zeroes<M: Memory>(meta: &Meta) -> Result<M> {
    M::zeroed(meta.dtype, meta.count())
}

/// A copy of a value in the order in which it is looked at.
pub(super) fn copied<V: Value>(
    value: &V,
    meta: &Meta,
    order: impl FnOnce(View<'_>) -> View<'_>,
) -> Result<V::Memory> {
    value.view(|view| {
        view.check(meta)?;
        V::Memory::copy_of(&order(view))
    })?
}

/// Ranges of these lengths.
fn one_behind_the_other(lengths: &[usize]) -> impl Iterator<Item = std::ops::Range<usize>> {
    lengths.iter().scan(0, |end, &len| {
        let start = *end;
        *end += len;
        Some(start..*end)
    })
}
