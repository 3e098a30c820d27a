//! Sums of numbers that ranks have on their devices: the call that most tests make.

use consort::device::calls::{self, OnDevice};
use consort::{Dtype, Error, Group, ReduceOp};

use crate::stage::{device, download, upload};

/// A call that adds up numbers of all ranks on their devices.
pub(crate) fn sum(group: &Group, numbers: &[f32]) -> OnDevice {
    calls::all_reduce(upload(&device(group), numbers), Dtype::F32, ReduceOp::Sum)
}

/// What a rank's next such call gives.
pub(crate) fn next(group: &Group, numbers: &[f32]) -> Result<Vec<f32>, Error> {
    let work = group.call_async(sum(group, numbers)).map_err(|failed| failed.error)?;
    Ok(download(&work.wait().map_err(|failed| failed.error)?.output))
}
