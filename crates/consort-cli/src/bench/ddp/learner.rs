//! The two ways in which our ranks learn: together, and as if there were no others.

use std::error::Error;

use candle_core::{DType, Device, Tensor};
use candle_nn::{Optimizer, SGD, VarBuilder, VarMap};
use consort::Group;
use consort_train::candle::DistributedDataParallel;

use super::network::{Batch, Network};
use super::shape::Shape;
use super::share::Pass;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A model with an optimizer and a batch of data.
#[derive(Debug)]
pub(crate) struct Learner {
    network: Network,
    optimizer: SGD,
    batch: Batch,
    /// Whoever averages gradients, if somebody does.
    averaging: Option<DistributedDataParallel>,
}

impl Learner {
    /// One that learns together with the other ranks of the group.
    pub(crate) fn together(shape: &Shape, group: &Group) -> Result<Self> {
        let parameters = VarMap::new();
        let (averaging, network) =
            DistributedDataParallel::new(group, &parameters, DType::F32, |builder| {
                Network::new(shape, &builder)
            })?;
        let optimizer = SGD::new(averaging.vars(), LEARNING_RATE)?;
        Ok(Self { network, optimizer, batch: Batch::new(shape)?, averaging: Some(averaging) })
    }

    /// One that learns alone, as candle's own examples do.
    pub(crate) fn alone(shape: &Shape) -> Result<Self> {
        let parameters = VarMap::new();
        let builder = VarBuilder::from_varmap(&parameters, DType::F32, &Device::Cpu);
        let network = Network::new(shape, &builder)?;
        let optimizer = SGD::new(parameters.all_vars(), LEARNING_RATE)?;
        Ok(Self { network, optimizer, batch: Batch::new(shape)?, averaging: None })
    }

    /// One step: forward, backward, averaging and the optimizer's. Gives the loss before it.
    pub(crate) fn step(&mut self) -> Result<Tensor> {
        let loss = self.network.loss(&self.batch)?;
        match &mut self.averaging {
            Some(averaging) => averaging.backward_step(&mut self.optimizer, &loss)?,
            None => self.optimizer.backward_step(&loss)?,
        }
        Ok(loss)
    }

    /// Looks whether all ranks have learned the same, if they should have.
    pub(crate) fn check(&self) -> Result<()> {
        Ok(self.averaging.as_ref().map_or(Ok(()), DistributedDataParallel::verify)?)
    }

    /// What is known of the last step's communication.
    pub(crate) fn pass(&self) -> Option<Pass> {
        let times = self.averaging.as_ref()?.reducer().times()?;
        let way = times.buckets.iter().map(|bucket| (bucket.launched, bucket.done));
        Pass::spanning(way, times.backward)
    }
}

/// As small as is sensible: what is learned does not matter, but it must stay finite.
const LEARNING_RATE: f64 = 1e-4;
