//! What becomes of calls on tensors of CUDA devices without the feature `cuda`.

use candle_core::Tensor;
use consort::Group;
use consort::functional::Collective;

use super::Pending;
use crate::candle::no_cuda;
use crate::error::{Error, Result};

pub(super) fn start(_: Collective, _: &Tensor, _: Option<u64>, _: &Group) -> Result<Pending> {
    Err(Error::Argument(no_cuda()))
}

pub(super) fn coalesced(_: &[(Collective, &Tensor)], _: &Group) -> Result<Pending<Vec<Tensor>>> {
    Err(Error::Argument(no_cuda()))
}
