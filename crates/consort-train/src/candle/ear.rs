//! How gradients are heard of while backward runs.
//!
//! Candle tells nobody when a gradient is complete, but it calls the backward of an operation when all
//! that follows it is done. So between a variable and the model there is an operation that changes
//! nothing, and whose backward is called once with the whole gradient, however often the model uses the
//! variable.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use candle_core::backprop::GradStore;
use candle_core::{Context, CpuStorage, CustomOp1, Layout, Shape, Tensor, Var, bail};

use crate::candle::error::reason;
use crate::candle::numbers::{dtype, with_bytes};
use crate::candle::taking::give;
use crate::error::Result;
use crate::pass::Pass;

/// Who is told of gradients: the pass that runs.
#[derive(Debug, Default)]
pub(crate) struct Ear {
    turn: Mutex<Option<Turn>>,
    #[cfg(feature = "cuda")]
    stage: crate::candle::staging::Stage,
}

/// A backward that runs.
#[derive(Debug)]
struct Turn {
    pass: Pass,
    /// Which parameters have a part in the loss, and were not heard of yet.
    is_awaited: Vec<bool>,
}

impl Ear {
    /// What the model is given instead of a variable: a copy, of whose gradient the pass is told.
    pub(crate) fn between(
        self: &Arc<Self>,
        variable: &Var,
        index: usize,
        name: &str,
    ) -> candle_core::Result<Tensor> {
        variable.apply_op1(Listening { ear: self.clone(), index, name: name.to_owned() })
    }

    /// Runs a backward whose gradients belong to this pass: those of parameters that have a part in the
    /// loss, each once. Gives the pass back, and the gradients of what is not the model's. If it fails, the
    /// pass is dropped, and ranks that wait for it are told why.
    pub(crate) fn listen(
        &self,
        pass: Pass,
        is_awaited: Vec<bool>,
        backward: impl FnOnce() -> Result<GradStore>,
    ) -> Result<(Pass, GradStore)> {
        // There is none yet: a pass only begins when the one before is over.
        *self.turn() = Some(Turn { pass, is_awaited });
        let listening = Hearing(self);
        let done = backward();
        let turn = listening.0.turn().take();
        let Turn { pass, .. } = turn.expect("it was put there, and is taken only here");
        match done {
            Ok(others) => Ok((pass, others)),
            Err(error) => {
                pass.abandon_because(&reason(&error));
                Err(error)
            }
        }
    }

    fn hear(&self, index: usize, name: &str, gradient: &Tensor) -> candle_core::Result<()> {
        let mut turn = self.turn();
        let Some(Turn { pass, is_awaited }) = &mut *turn else {
            bail!(
                "the gradient of parameter {name:?} came in a backward that its \
                 DistributedDataParallel knows nothing of: call its backward or backward_step, not \
                 that of the loss or of the optimizer"
            )
        };
        // Candle calls each operation once in a backward.
        if !std::mem::take(&mut is_awaited[index]) {
            bail!(
                "the gradient of parameter {name:?} came in a backward within that of the loss, or beside \
                 it, and cannot be told from the gradient of the loss: an operation that differentiates \
                 something itself has to do so with a copy of the parameter (Var::from_tensor of its \
                 detached tensor)"
            )
        }
        #[cfg(feature = "cuda")]
        if gradient.device().is_cuda() {
            let heard = self.stage.bring(pass, index, gradient);
            return heard.with_context(|| format!("in the backward of parameter {name:?}"));
        }
        let dtype = dtype(gradient.dtype())?;
        let heard = match give(pass, index, gradient)? {
            Ok(false) => with_bytes(gradient, |bytes| pass.ready_bytes(index, dtype, bytes))?,
            given => given.map(|_| ()),
        };
        heard.with_context(|| format!("in the backward of parameter {name:?}"))
    }

    fn turn(&self) -> MutexGuard<'_, Option<Turn>> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// While it is there, backward runs. If that panics, its pass goes with it.
struct Hearing<'a>(&'a Ear);

impl Drop for Hearing<'_> {
    fn drop(&mut self) {
        let turn = self.0.turn().take();
        drop(turn);
    }
}

/// The operation that changes nothing.
struct Listening {
    ear: Arc<Ear>,
    index: usize,
    name: String,
}

impl CustomOp1 for Listening {
    fn name(&self) -> &'static str {
        "distributed-data-parallel"
    }

    fn cpu_fwd(
        &self,
        storage: &CpuStorage,
        layout: &Layout,
    ) -> candle_core::Result<(CpuStorage, Shape)> {
        let from = layout.start_offset();
        let part = from..from + layout.shape().elem_count();
        let copy = match storage {
            CpuStorage::F32(all) => CpuStorage::F32(all[part].to_vec()),
            CpuStorage::F64(all) => CpuStorage::F64(all[part].to_vec()),
            CpuStorage::F16(all) => CpuStorage::F16(all[part].to_vec()),
            CpuStorage::BF16(all) => CpuStorage::BF16(all[part].to_vec()),
            _ => bail!("parameter {:?} has no numbers that can be learned", self.name),
        };
        Ok((copy, layout.shape().clone()))
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        storage: &candle_core::CudaStorage,
        layout: &Layout,
    ) -> candle_core::Result<(candle_core::CudaStorage, Shape)> {
        Ok((crate::candle::cuda::copied(storage, layout)?, layout.shape().clone()))
    }

    fn bwd(
        &self,
        _: &Tensor,
        _: &Tensor,
        gradient: &Tensor,
    ) -> candle_core::Result<Option<Tensor>> {
        self.ear.hear(self.index, &self.name, gradient)?;
        // The variable's gradient is the average, which comes when all ranks have theirs.
        Ok(None)
    }
}
