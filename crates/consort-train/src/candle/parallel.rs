//! A model that many ranks train together.

use std::fmt;
use std::sync::Arc;

use candle_core::backprop::GradStore;
use candle_core::{DType, Device, Tensor, Var};
use candle_nn::{Optimizer, VarBuilder, VarMap};
use consort::Group;

use crate::candle::ear::Ear;
use crate::candle::gradients::Gradients;
use crate::candle::model::Model;
use crate::candle::options::{Buffers, Options};
use crate::candle::source::Source;
use crate::candle::together::{agree_on_buffers, all_well, average, broadcast, verify};
use crate::candle::write_back::write_back;
use crate::error::{Error, Result};
use crate::pass::Pass;
use crate::reducer::Reducer;

/// Trains a model on many ranks, each with its share of the data. [The module](super) explains how.
///
/// Every rank calls the same methods in the same order: all but [`backward_local`](Self::backward_local),
/// [`refresh`](Self::refresh) and those that only tell something wait for the others. Clones are the
/// same.
///
/// All ranks of the group get the weights of its rank 0. So where weights are
/// [parted among ranks](super::functional), it is given the group along which ranks have the *same* part, as
/// `mesh.group("data")?` is, and never the world.
#[derive(Clone)]
pub struct DistributedDataParallel {
    reducer: Reducer,
    model: Arc<Model>,
    ear: Arc<Ear>,
    buffers: Buffers,
}

impl DistributedDataParallel {
    /// Builds a model, whose variables are those of a map, and gives all ranks the parameters and
    /// buffers of rank 0.
    ///
    /// `build` is given what a model is built with, and has to ask it for all variables in the same
    /// order on every rank. The model gets copies of its parameters, which a
    /// [step](Self::step) brings up to date, so it has to be built here to be trained.
    ///
    /// # Errors
    /// That of `build`, and [`Error::Elsewhere`] on the other ranks; [`Error::Differs`] on every rank
    /// when their models are not the same; and why the group has ended, if it has.
    pub fn new<M>(
        group: &Group,
        variables: &VarMap,
        dtype: DType,
        build: impl FnOnce(VarBuilder<'static>) -> candle_core::Result<M>,
    ) -> Result<(Self, M)> {
        Self::with_options(group, variables, dtype, Options::new(), build)
    }

    /// The same with options.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_options<M>(
        group: &Group,
        variables: &VarMap,
        dtype: DType,
        options: Options,
        build: impl FnOnce(VarBuilder<'static>) -> candle_core::Result<M>,
    ) -> Result<(Self, M)> {
        let Options { reducer, buffers, is_buffer, device } = options;
        let (device, ear) = (device.unwrap_or(Device::Cpu), Arc::new(Ear::default()));
        let source = Source::new(variables, is_buffer, device.clone(), ear.clone());
        let built = build(source.builder(dtype)).map_err(Error::from).and_then(|built| {
            let model = source.complete();
            let (parameters, reducer) = (model.described()?, placed(reducer, &device)?);
            match parameters.is_empty() {
                true => Err(Error::Argument(NO_PARAMETERS.to_owned())),
                false => Ok((built, model, parameters, reducer)),
            }
        });
        let well = all_well(group, BUILD, built.as_ref().err().map(Error::to_string));
        let (built, model, parameters, reducer) = built?;
        well?;
        let reducer = Reducer::new(group, parameters, reducer.adopt_unless_said(ADOPT))?;
        let ddp = Self { reducer, model: Arc::new(model), ear, buffers };
        ddp.start(group)?;
        Ok((ddp, built))
    }

    /// The parameters in the order in which the model asked for them: what an optimizer is to change.
    pub fn vars(&self) -> Vec<Var> {
        self.model.parameters.iter().map(|parameter| parameter.variable.clone()).collect()
    }

    /// Computes the gradients of a loss, and averages them over all ranks while others are computed,
    /// with what [`backward_local`](Self::backward_local) has left.
    ///
    /// The loss has to be computed with the tensors that the model was given, also where it has terms of
    /// parameters alone, such as a penalty for large ones: gradients of [`vars`](Self::vars) themselves are
    /// not averaged, and refused. An operation whose own backward differentiates something has to do so
    /// with copies of parameters: it cannot be told whether such gradients belong to the loss.
    ///
    /// # Errors
    /// [`Error::Stale`] when parameters were changed and the model does not know, as far as is
    /// [seen](super#how-it-works-and-what-it-costs); what [`Reducer::begin`] and [`Pass::finish`] say;
    /// [`Error::Bypassed`] when the loss was computed with variables; and [`Error::Candle`] when candle
    /// cannot differentiate the loss. If gradients were on their way by then, the others wait for the rest:
    /// the group is ended for all, with the reason. Otherwise the group goes on; what was added up before is
    /// forgotten if gradients had come.
    pub fn backward(&self, loss: &Tensor) -> Result<Gradients> {
        self.check_fresh()?;
        self.backward_in(self.reducer.begin()?, loss)
    }

    /// Computes the gradients of a loss, and adds them to those of this rank until the next
    /// [`backward`](Self::backward): for batches that are too large to be computed at once. Nothing
    /// travels. Gradients are added, not averaged, so divide the loss by the number of parts.
    ///
    /// # Errors
    /// As [`backward`](Self::backward), but nobody waits. If gradients had come before the failure, all that
    /// was added up is forgotten, that of earlier parts, too: begin with the first part again.
    pub fn backward_local(&self, loss: &Tensor) -> Result<()> {
        self.model.check_fresh()?;
        let (pass, _) = self.listen(self.reducer.begin_local()?, loss)?;
        pass.finish().map(|_| ())
    }

    /// Has an optimizer change the parameters, gives the model what they are now, and
    /// [synchronises](Self::sync_buffers) the buffers.
    ///
    /// # Errors
    /// That of the optimizer; and why the group has ended, if it has.
    pub fn step<O: Optimizer>(&self, optimizer: &mut O, gradients: Gradients) -> Result<()> {
        optimizer.step(gradients.store())?;
        self.refresh()?;
        self.sync_buffers()
    }

    /// [`backward`](Self::backward) and [`step`](Self::step): the one line of a training loop that
    /// changes.
    ///
    /// # Errors
    /// As both.
    pub fn backward_step<O: Optimizer>(&self, optimizer: &mut O, loss: &Tensor) -> Result<()> {
        let gradients = self.backward(loss)?;
        self.step(optimizer, gradients)
    }

    /// Gives the model what its parameters are now, if they were changed by other means than
    /// [`step`](Self::step).
    ///
    /// # Errors
    /// When candle cannot do it.
    pub fn refresh(&self) -> Result<()> {
        Ok(self.model.refresh()?)
    }

    /// Gives all ranks the parameters and buffers of one of them.
    ///
    /// # Errors
    /// When there is no such rank; and why the group has ended, if it has.
    pub fn broadcast(&self, root: u32) -> Result<()> {
        let variables = self.model.variables().map(|(_, variable)| variable);
        broadcast(&self.reducer.group(), variables, root)?;
        self.refresh()
    }

    /// Makes buffers the same on all ranks in the way that the [options](Options::buffers) say. A
    /// [step](Self::step) does it, too; it is needed where buffers have changed since, as before the
    /// model is tried out.
    ///
    /// # Errors
    /// Why the group has ended, if it has.
    pub fn sync_buffers(&self) -> Result<()> {
        match self.buffers {
            Buffers::FromRankZero => broadcast(&self.reducer.group(), self.buffers(), 0),
            Buffers::Averaged => average(&self.reducer.group(), self.buffers()),
            Buffers::Apart => Ok(()),
        }
    }

    /// Looks whether the parameters are the same bits on all ranks, as they always should be.
    ///
    /// # Errors
    /// [`Error::Diverged`], the same on every rank, when they are not; and why the group has ended, if
    /// it has.
    pub fn verify(&self) -> Result<()> {
        verify(&self.reducer.group(), &self.model)
    }

    /// Goes on with another group: the survivors of a rank that is gone, or one that has grown. Every
    /// rank of it has to call this, or [`new`](Self::new) if it has only come. All get the parameters and
    /// buffers of its rank 0, since a failure may have come between two ranks' steps.
    ///
    /// What an optimizer knows of earlier steps is its own, and cannot be sent: one that knows something,
    /// like `AdamW`, has to be made anew on all ranks. A layer that has a group, like
    /// [`SyncBatchNorm`](super::SyncBatchNorm), has to be given the other one, too.
    ///
    /// # Errors
    /// As [`Reducer::set_group`] and [`broadcast`](Self::broadcast).
    pub fn set_group(&self, group: &Group) -> Result<()> {
        // The same calls as those of one who has only come.
        all_well(group, BUILD, None)?;
        self.reducer.set_group(group)?;
        self.start(group)
    }

    /// What averages the gradients.
    pub fn reducer(&self) -> &Reducer {
        &self.reducer
    }

    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    /// Begins with a group, in which all have the same parameters.
    fn start(&self, group: &Group) -> Result<()> {
        agree_on_buffers(group, &self.model, self.buffers)?;
        self.broadcast(0)
    }

    /// Computes the gradients of a loss in a pass that has begun.
    pub(crate) fn backward_in(&self, pass: Pass, loss: &Tensor) -> Result<Gradients> {
        let (pass, mut gradients) = self.listen(pass, loss)?;
        for buffer in &self.model.buffers {
            gradients.remove(&buffer.variable);
        }
        write_back(&mut pass.finish()?, &self.model.parameters, &mut gradients)?;
        Ok(Gradients::new(self.model.clone(), gradients))
    }

    /// Whether the model computes with what its parameters are now.
    pub(crate) fn check_fresh(&self) -> Result<()> {
        self.model.check_fresh()
    }

    /// What becomes of buffers after each step.
    pub(crate) fn buffer_rule(&self) -> Buffers {
        self.buffers
    }

    /// The variables that are not learned.
    pub(crate) fn buffers(&self) -> impl Iterator<Item = &Var> + Clone {
        self.model.buffers.iter().map(|buffer| &buffer.variable)
    }

    fn listen(&self, pass: Pass, loss: &Tensor) -> Result<(Pass, GradStore)> {
        self.ear.listen(pass, self.model.parts_of(loss), || {
            let gradients = loss.backward()?;
            self.model.check_through(&gradients)?;
            Ok(gradients)
        })
    }
}

impl fmt::Debug for DistributedDataParallel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DistributedDataParallel")
            .field("parameters", &self.model.parameters.len())
            .field("buffers", &self.model.buffers.len())
            .field("group", &self.reducer.group().name())
            .finish_non_exhaustive()
    }
}

/// How gradients are reduced where the model is.
fn placed(options: crate::Options, device: &Device) -> Result<crate::Options> {
    match device {
        Device::Cpu => Ok(options),
        #[cfg(feature = "cuda")]
        Device::Cuda(device) => Ok(options.on_device(crate::candle::cuda::device_of(device)?)),
        #[cfg(not(feature = "cuda"))]
        Device::Cuda(_) => Err(Error::Argument(crate::candle::no_cuda())),
        other => Err(Error::Argument(format!(
            "models are trained on the host and on CUDA devices, not on {:?}",
            other.location()
        ))),
    }
}

/// Gradients of so many bytes and more are averaged in candle's memory. Smaller ones are copied sooner than
/// a call is made for each.
const ADOPT: usize = 256 << 10;
const BUILD: &str = "build the model";
const NO_PARAMETERS: &str = "the model has asked for no parameter: it has to be built with the VarBuilder \
     that it is given here";
