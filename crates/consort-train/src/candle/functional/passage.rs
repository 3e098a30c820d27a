//! How gradients go back through a call.

use std::sync::{Mutex, PoisonError};

use candle_core::{
    Context, CpuStorage, CudaStorage, CustomOp1, Layout, Result, Shape, Storage, Tensor, bail,
};
use consort::Group;
use consort::functional::{Adjoint, Collective};

use super::begin::begin_back;
use super::deferred;
use crate::candle::numbers::is_learned;
use crate::candle::taking::take;

/// The way that a value goes through a call: there, and its gradient back.
#[derive(Clone, Debug)]
pub(super) struct Passage {
    name: &'static str,
    back: Adjoint,
    /// Which of the group's calls on values it is.
    number: u64,
    group: Group,
}

impl Passage {
    /// For a value whose gradient is wanted; `None` for one whose is not.
    ///
    /// # Errors
    /// When there is no way back.
    pub(super) fn of(
        collective: &Collective,
        x: &Tensor,
        group: &Group,
    ) -> consort::Result<Option<Self>> {
        if !wants_gradient(x) {
            return Ok(None);
        }
        let back = collective.adjoint(group.world())?;
        Ok(Some(Self { name: collective.name(), back, number: 0, group: group.clone() }))
    }

    /// The same, of a call that was begun: each is counted, whether this rank wants its gradient or not.
    pub(super) fn begun(passage: Option<Self>, group: &Group) -> Option<Self> {
        let number = group.count_value();
        passage.map(|passage| Self { number, ..passage })
    }

    /// The forward that changes nothing, and adds up the gradients of all ranks.
    pub(super) fn of_replicas(group: &Group) -> Self {
        let op = consort::ReduceOp::Sum;
        let back = Adjoint { collective: Collective::AllReduce { op }, factor: 1.0 };
        Self { name: "replicate", back, number: 0, group: group.clone() }
    }

    /// What has come out, as the result of what went in.
    pub(super) fn arrive(self, x: &Tensor, result: &Tensor) -> Result<Tensor> {
        let shape = result.shape().clone();
        // Nobody else has it yet. It is taken as a row, because candle does not write to rows of nothing.
        let Some(storage) = take(&result.flatten_all()?)? else {
            bail!("the result of {} has memory that candle shares", self.name)
        };
        let result = Mutex::new(Some(storage));
        x.apply_op1(Arrived { passage: self, result, shape })
    }

    /// What was there all along.
    pub(super) fn stay(self, x: &Tensor) -> Result<Tensor> {
        self.arrive(x, &x.force_contiguous()?.detach())
    }

    /// The gradient of what went in. Waits for it, unless it belongs to a variable and somebody collects
    /// what is on its way: then there is none yet.
    fn gradient(&self, x: &Tensor, y: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        let (name, factor, shape) = (self.name, self.back.factor, x.shape().clone());
        let context = || format!("in the backward of {name}");
        if gradient.track_op() {
            bail!("{name}: the gradient of a gradient does not go back through collectives")
        }
        let begun = begin_back(&self.back, gradient, self.number, &self.group);
        let pending = begun.with_context(context)?.then(move |gradient| {
            // A single number was gathered as a row.
            let gradient = gradient.reshape(shape)?;
            if factor == 1.0 { Ok(gradient) } else { Ok((gradient * factor)?) }
        });
        match deferred::defer(x, y, pending) {
            None => Ok(None),
            Some(pending) => pending.wait().with_context(context).map(Some),
        }
    }
}

/// Whether backward asks for the gradient of a tensor.
pub(super) fn wants_gradient(x: &Tensor) -> bool {
    x.track_op() && is_learned(x.dtype())
}

/// The operation of candle's whose result is what has come out of a call.
struct Arrived {
    passage: Passage,
    /// `None` when candle has it.
    result: Mutex<Option<Storage>>,
    shape: Shape,
}

impl Arrived {
    fn take(&self) -> Option<Storage> {
        self.result.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn refuse<T>(&self, is_there: bool) -> Result<T> {
        let name = self.passage.name;
        match is_there {
            true => bail!("what has come out of {name} is on another device than what went in"),
            false => bail!("what has come out of {name} was used before"),
        }
    }
}

impl CustomOp1 for Arrived {
    fn name(&self) -> &'static str {
        self.passage.name
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        match self.take() {
            Some(Storage::Cpu(result)) => Ok((result, self.shape.clone())),
            other => self.refuse(other.is_some()),
        }
    }

    fn cuda_fwd(&self, _: &CudaStorage, _: &Layout) -> Result<(CudaStorage, Shape)> {
        match self.take() {
            Some(Storage::Cuda(result)) => Ok((result, self.shape.clone())),
            other => self.refuse(other.is_some()),
        }
    }

    fn bwd(&self, x: &Tensor, y: &Tensor, gradient: &Tensor) -> Result<Option<Tensor>> {
        self.passage.gradient(x, y, gradient)
    }
}
