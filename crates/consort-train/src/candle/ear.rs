//! How gradients are heard of while backward runs.
//!
//! Candle tells nobody when a gradient is complete, but it calls the backward of an operation when all
//! that follows it is done. So between a variable and the model there is an operation that changes
//! nothing, and whose backward is called once with the whole gradient, however often the model uses the
//! variable.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use candle_core::backprop::GradStore;
use candle_core::{Context, CpuStorage, CustomOp1, Layout, Shape, Tensor, Var, bail};

use crate::candle::numbers::{dtype, with_bytes};
use crate::candle::taking::give;
use crate::error::Result;
use crate::pass::Pass;

/// Who is told of gradients: the pass that runs.
#[derive(Debug, Default)]
pub(crate) struct Ear {
    pass: Mutex<Option<Pass>>,
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

    /// Runs a backward whose gradients belong to this pass. Gives the pass back, and the gradients of
    /// what is not the model's.
    pub(crate) fn listen(
        &self,
        pass: Pass,
        backward: impl FnOnce() -> candle_core::Result<GradStore>,
    ) -> Result<(Pass, GradStore)> {
        // There is none yet: a pass only begins when the one before is over.
        *self.pass() = Some(pass);
        let listening = Hearing(self);
        let others = backward()?;
        let pass = listening.0.pass().take().expect("it was put there, and is taken only here");
        Ok((pass, others))
    }

    fn hear(&self, index: usize, name: &str, gradient: &Tensor) -> candle_core::Result<()> {
        let pass = self.pass();
        let Some(pass) = &*pass else {
            bail!(
                "the gradient of parameter {name:?} came in a backward that its \
                 DistributedDataParallel knows nothing of: call its backward or backward_step, not \
                 that of the loss or of the optimizer"
            )
        };
        let dtype = dtype(gradient.dtype())?;
        let heard = match give(pass, index, gradient)? {
            Ok(false) => with_bytes(gradient, |bytes| pass.ready_bytes(index, dtype, bytes))?,
            given => given.map(|_| ()),
        };
        heard.with_context(|| format!("in the backward of parameter {name:?}"))
    }

    fn pass(&self) -> MutexGuard<'_, Option<Pass>> {
        self.pass.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A backward that runs. If it is left before its end, by whatever way, its pass goes with it.
struct Hearing<'a>(&'a Ear);

impl Drop for Hearing<'_> {
    fn drop(&mut self) {
        let pass = self.0.pass().take();
        drop(pass);
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
