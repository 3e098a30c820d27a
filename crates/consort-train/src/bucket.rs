//! Gradients that travel together.

mod on_device;

use std::ops::Range;
use std::sync::Arc;

use consort::symm::Plain;
use consort::{Call, Dtype, Group, Lists, OwnedCall, ReduceOp, Source, Target};

use crate::error::{Error, Result};
use crate::memory::{Attic, Given, LINE, Memory};
use crate::parameter::Parameter;

pub(crate) use self::on_device::not_on_device;

/// The gradients of some parameters of one dtype, one after the other, each beginning with a cache line.
/// Between them are zeroes.
///
/// A [hook](crate::CommHook) is given it, and gives it back with the average of all ranks' gradients. It may lie in
/// the memory of a device ([`Options::on_device`](crate::Options::on_device)): then nobody looks at its numbers
/// here, and calls of a group work on it by its name, [`target`](Self::target).
#[derive(Debug)]
pub struct Bucket {
    plan: Arc<Plan>,
    memory: Memory,
}

/// What is in a bucket: the same on every rank.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) index: usize,
    /// How many buckets there are.
    pub(crate) count: usize,
    pub(crate) dtype: Dtype,
    pub(crate) parts: Vec<Part>,
    bytes: usize,
    /// Whether it has one gradient, whose memory may be the engine's.
    is_adopted: bool,
}

/// Where a parameter's gradient is.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// The parameter's number.
    pub(crate) index: usize,
    parameter: Parameter,
    /// Its first byte.
    at: usize,
}

impl Plan {
    /// For these parameters, in this order. Their gradients are kept as numbers of `dtype`.
    pub(crate) fn new(
        (index, count): (usize, usize),
        dtype: Dtype,
        members: &[usize],
        parameters: &[Parameter],
    ) -> Self {
        Self::place((index, count), dtype, members.iter().map(|&at| (at, &parameters[at])))
    }

    fn place<'a>(
        (index, count): (usize, usize),
        dtype: Dtype,
        members: impl Iterator<Item = (usize, &'a Parameter)>,
    ) -> Self {
        let mut bytes = 0;
        let place = |(index, parameter): (usize, &Parameter)| {
            let at = bytes;
            bytes += (parameter.len() * dtype.size()).next_multiple_of(LINE);
            Part { index, parameter: parameter.clone(), at }
        };
        let parts = members.map(place).collect();
        Self { index, count, dtype, parts, bytes, is_adopted: false }
    }

    /// The same for one parameter whose gradient is sent from where the engine has it.
    pub(crate) fn adopted(mut self) -> Self {
        debug_assert_eq!(self.parts.len(), 1, "memory has one gradient");
        self.bytes = self.parts[0].parameter.len() * self.dtype.size();
        self.is_adopted = true;
        self
    }

    fn range(&self, part: &Part) -> Range<usize> {
        part.at..part.at + part.parameter.len() * self.dtype.size()
    }
}

impl Part {
    /// The parameter's number, and what is known of it.
    fn whose(&self) -> (usize, &Parameter) {
        (self.index, &self.parameter)
    }
}

/// One parameter's gradient in a bucket.
#[derive(Debug)]
pub struct Gradient<'a> {
    /// The parameter's number.
    pub index: usize,
    /// What is known of it: shape and strides say where in `bytes` which element is.
    pub parameter: &'a Parameter,
    /// The gradient; nothing, if it lies on a device.
    pub bytes: &'a [u8],
}

impl Bucket {
    pub(crate) fn new(plan: Arc<Plan>) -> Self {
        let memory =
            if plan.is_adopted { Memory::none(plan.bytes) } else { Memory::new(plan.bytes) };
        Self { plan, memory }
    }

    /// The same, in memory that all ranks of the group reach if they can. Every rank has to call it.
    pub(crate) fn shared(plan: Arc<Plan>, group: &Group) -> Result<Self> {
        if plan.is_adopted {
            return Ok(Self::new(plan));
        }
        Ok(Self { memory: Memory::shared(plan.bytes, group)?, plan })
    }

    /// The same, whose memory an engine may look at for as long as it has the attic.
    pub(crate) fn kept_by(self, attic: &Arc<Attic>) -> Self {
        Self { memory: self.memory.kept_by(attic), ..self }
    }

    /// Where each gradient is in memory: the parameter's number, and from which address to which.
    pub(crate) fn addresses(&mut self) -> impl Iterator<Item = (usize, Range<usize>)> {
        let (start, plan) = (self.memory.address(), &self.plan);
        plan.parts.iter().map(move |part| {
            let range = plan.range(part);
            (part.index, start + range.start..start + range.end)
        })
    }

    /// Its number: buckets travel in this order.
    pub fn index(&self) -> usize {
        self.plan.index
    }

    /// How many buckets there are.
    pub fn count(&self) -> usize {
        self.plan.count
    }

    /// Whether no other follows in this pass.
    pub fn is_last(&self) -> bool {
        self.plan.index + 1 == self.plan.count
    }

    /// What the numbers are.
    pub fn dtype(&self) -> Dtype {
        self.plan.dtype
    }

    /// All of it by name, wherever it lies: for calls that read it.
    pub fn source(&self) -> Source<'_> {
        self.memory.source()
    }

    /// All of it by name, wherever it lies: for calls that write it.
    pub fn target(&mut self) -> Target<'_> {
        self.memory.target()
    }

    /// All of it; nothing, if it lies on a device.
    pub fn bytes(&self) -> &[u8] {
        self.memory.bytes()
    }

    /// All of it, to be replaced; nothing, if it lies on a device.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.memory.bytes_mut()
    }

    /// All of it, as numbers.
    ///
    /// # Errors
    /// When they are of another dtype, or lie on a device.
    pub fn elements<T: Plain>(&self) -> Result<&[T]> {
        self.check::<T>()?;
        Ok(bytemuck::cast_slice(self.bytes()))
    }

    /// All of it, as numbers to be replaced.
    ///
    /// # Errors
    /// When they are of another dtype, or lie on a device.
    pub fn elements_mut<T: Plain>(&mut self) -> Result<&mut [T]> {
        self.check::<T>()?;
        Ok(bytemuck::cast_slice_mut(self.bytes_mut()))
    }

    /// The gradients in it.
    pub fn gradients(&self) -> impl ExactSizeIterator<Item = Gradient<'_>> {
        self.plan.parts.iter().map(|part| Gradient {
            index: part.index,
            parameter: &part.parameter,
            bytes: self.memory.bytes().get(self.plan.range(part)).unwrap_or_default(),
        })
    }

    /// An empty one for the same parameters, with numbers of another dtype.
    pub(crate) fn of_dtype(&self, dtype: Dtype) -> Self {
        let Plan { index, count, parts, .. } = &*self.plan;
        Self::new(Arc::new(Plan::place((*index, *count), dtype, parts.iter().map(Part::whose))))
    }

    /// An empty one for some of the parameters.
    pub(crate) fn of_parts(&self, parts: &[usize]) -> Self {
        let Plan { index, count, dtype, parts: all, .. } = &*self.plan;
        let some = parts.iter().map(|&part| all[part].whose());
        Self::new(Arc::new(Plan::place((*index, *count), *dtype, some)))
    }

    /// What a parameter is called whose gradient is in it.
    pub(crate) fn name_of(&self, at: usize) -> &str {
        self.plan.parts[at].parameter.name()
    }

    pub(crate) fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Makes room for all of it, if there is none because it was to be given.
    pub(crate) fn ensure(&mut self) {
        self.memory.ensure();
    }

    /// Takes the memory of its one gradient, if it may be the engine's; or gives it back.
    pub(crate) fn adopt<M: Given>(&mut self, memory: M) -> Result<(), M> {
        if !self.plan.is_adopted || memory.bytes().len() != self.memory.len() {
            return Err(memory);
        }
        self.memory.adopt(Box::new(memory));
        Ok(())
    }

    /// The memory of its one gradient, if the engine gave it, and it is of this type.
    pub(crate) fn give_back<M: Given>(&mut self) -> Option<M> {
        self.memory.take()
    }

    /// How many bytes there are.
    pub(crate) fn size(&self) -> usize {
        self.memory.len()
    }

    /// A part of it.
    pub(crate) fn part(&self, at: usize) -> &[u8] {
        &self.memory.bytes()[self.plan.range(&self.plan.parts[at])]
    }

    /// A part of it, to be replaced.
    pub(crate) fn part_mut(&mut self, at: usize) -> &mut [u8] {
        let range = self.plan.range(&self.plan.parts[at]);
        &mut self.memory.bytes_mut()[range]
    }

    fn check<T: Plain>(&self) -> Result<()> {
        if let Some(memory) = self.memory.device() {
            let (index, number) = (self.index(), memory.device().number());
            let what = format!(
                "bucket {index} lies in the memory of device {number}, whose numbers are not looked at here: \
                 Bucket::source and Bucket::target name it for calls of a group"
            );
            return Err(Error::Argument(what));
        }
        if T::DTYPE == self.dtype() {
            return Ok(());
        }
        let what = format!("bucket {} has {}, not {}", self.index(), self.dtype(), T::DTYPE);
        Err(Error::Argument(what))
    }
}

/// An all_reduce of a bucket that is carried out in the background.
#[derive(Debug)]
pub(crate) struct AllReduce {
    pub(crate) bucket: Bucket,
    pub(crate) op: ReduceOp,
}

impl OwnedCall for AllReduce {
    fn call<'a>(&'a mut self, _lists: &'a mut Lists<'a>) -> Call<'a> {
        let (dtype, op) = (self.bucket.dtype(), self.op);
        let output = self.bucket.target();
        Call::AllReduce { dtype, op, input: output.into(), output }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_gradient_begins_with_a_line_and_knows_its_layout() {
        let parameters = [
            Parameter::new("a", Dtype::F32, &[3]),
            Parameter::new("b", Dtype::F32, &[2, 20]).with_strides(&[1, 2]).unwrap(),
            Parameter::new("c", Dtype::F32, &[1]),
        ];
        let plan = Plan::new((0, 1), Dtype::F32, &[2, 1, 0], &parameters);
        let mut bucket = Bucket::new(Arc::new(plan));
        bucket.part_mut(1).fill(1);
        let all: Vec<_> = bucket.gradients().collect();
        assert_eq!(all.iter().map(|it| it.index).collect::<Vec<_>>(), [2, 1, 0]);
        assert_eq!(all.iter().map(|it| it.bytes.len()).collect::<Vec<_>>(), [4, 160, 12]);
        assert!(all.iter().all(|it| it.bytes.as_ptr().addr().is_multiple_of(LINE)));
        assert_eq!(all[1].parameter.strides(), [1, 2]);
        assert!(all[1].bytes.iter().all(|byte| *byte == 1));
        assert_eq!(bucket.bytes().iter().map(|byte| usize::from(*byte)).sum::<usize>(), 160);
    }

    #[test]
    fn numbers_of_another_dtype_are_refused() {
        let parameters = [Parameter::new("a", Dtype::F32, &[3])];
        let plan = Plan::new((0, 1), Dtype::F32, &[0], &parameters);
        let mut bucket = Bucket::new(Arc::new(plan));
        assert_eq!(bucket.elements_mut::<f32>().unwrap().len(), 16);
        assert!(bucket.elements::<f64>().is_err());
    }
}
