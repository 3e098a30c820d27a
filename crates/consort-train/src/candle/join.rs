//! Ranks that do not have the same number of batches.

use candle_core::Tensor;
use candle_nn::Optimizer;

use crate::candle::gradients::Gradients;
use crate::candle::options::Buffers;
use crate::candle::parallel::DistributedDataParallel;
use crate::candle::together::exchange;
use crate::error::Result;
use crate::join::{Join, Joined, Uneven};

impl DistributedDataParallel {
    /// Trains on batches of which ranks have different numbers. Every rank has to call it, and trains by
    /// what it gives:
    ///
    /// ```
    /// use candle_core::{DType, Device, Tensor};
    /// use candle_nn::{Init, Optimizer, SGD, VarMap};
    /// use consort_train::Uneven;
    /// use consort_train::candle::DistributedDataParallel;
    ///
    /// # fn main() -> consort_train::Result<()> {
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// # let variables = VarMap::new();
    /// # let (ddp, weight) = DistributedDataParallel::new(&group, &variables, DType::F32, |vb| {
    /// #     vb.get_with_hints(1, "weight", Init::Const(0.0))
    /// # })?;
    /// let mut optimizer = SGD::new(ddp.vars(), 0.1)?;
    /// let mut training = ddp.join(Uneven::DivideByWorld)?;
    /// for target in 0..3 + group.rank().index() {
    ///     let loss = (&weight - target as f64)?.sqr()?.sum_all()?;
    ///     if !training.backward_step(&mut optimizer, &loss)? {
    ///         break;
    ///     }
    /// }
    /// training.finish()?; // waits for those who have more, and takes over what they have learned
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Reducer::join`](crate::Reducer::join).
    pub fn join(&self, uneven: Uneven) -> Result<Training> {
        Ok(Training { ddp: self.clone(), join: self.reducer().join(uneven)? })
    }
}

/// Training on batches of which ranks have different numbers.
///
/// Buffers that are not kept [apart](Buffers::Apart) are those of the first rank that has a batch.
#[derive(Debug)]
#[must_use = "other ranks wait until it is finished"]
pub struct Training {
    ddp: DistributedDataParallel,
    join: Join,
}

impl Training {
    /// As [`DistributedDataParallel::backward`]; `None` if another rank has no more batches, and all end
    /// with it ([`Uneven::Stop`]).
    ///
    /// # Errors
    /// As [`DistributedDataParallel::backward`].
    pub fn backward(&mut self, loss: &Tensor) -> Result<Option<Gradients>> {
        self.ddp.check_fresh()?;
        match self.join.begin()? {
            Some(pass) => self.ddp.backward_in(pass, loss).map(Some),
            None => Ok(None),
        }
    }

    /// As [`DistributedDataParallel::step`].
    ///
    /// # Errors
    /// As [`DistributedDataParallel::step`].
    pub fn step<O: Optimizer>(&mut self, optimizer: &mut O, gradients: Gradients) -> Result<()> {
        optimizer.step(gradients.store())?;
        self.ddp.refresh()?;
        match self.ddp.buffer_rule() {
            Buffers::Apart => Ok(()),
            Buffers::FromRankZero | Buffers::Averaged => {
                let Self { ddp, join } = self;
                exchange(ddp.buffers(), |pieces| join.sync_buffers(pieces))
            }
        }
    }

    /// [`backward`](Self::backward) and [`step`](Self::step). Says whether there was a step: if not,
    /// another rank has no more batches, and all end with it.
    ///
    /// # Errors
    /// As both.
    pub fn backward_step<O: Optimizer>(
        &mut self,
        optimizer: &mut O,
        loss: &Tensor,
    ) -> Result<bool> {
        match self.backward(loss)? {
            Some(gradients) => self.step(optimizer, gradients).map(|()| true),
            None => Ok(false),
        }
    }

    /// This rank has no more batches: takes part in the steps of the others until all are done, and takes
    /// over what the last of them has learned, as all do.
    ///
    /// # Errors
    /// Why the group has ended, if it has.
    pub fn finish(self) -> Result<Joined> {
        let end = self.join.finish()?;
        self.ddp.broadcast(end.last)?;
        Ok(end)
    }
}
