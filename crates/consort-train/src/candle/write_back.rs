//! How averages become candle's.

use candle_core::backprop::GradStore;
use candle_core::{DType, Device, Shape, Tensor, WithDType};
use consort::symm::Plain;
use consort::{bf16, f16};

use crate::candle::model::Learned;
use crate::error::{Error, Result};
use crate::reduced::Reduced;

/// Puts the averages of a pass among the gradients. A parameter that has none on any rank gets none.
pub(crate) fn write_back(
    averages: &mut Reduced,
    parameters: &[Learned],
    gradients: &mut GradStore,
) -> Result<()> {
    #[cfg(feature = "cuda")]
    if let Some(Device::Cuda(on)) = parameters.first().map(|it| it.variable.device()) {
        return crate::candle::staging::write_back(averages, parameters, gradients, on);
    }
    for (index, parameter) in parameters.iter().enumerate() {
        let shape = parameter.variable.shape();
        let average = match parameter.variable.dtype() {
            DType::F32 => take::<f32>(averages, index, shape),
            DType::F64 => take::<f64>(averages, index, shape),
            DType::F16 => take::<f16>(averages, index, shape),
            DType::BF16 => take::<bf16>(averages, index, shape),
            other => Err(Error::Argument(format!("{} is not learned", other.as_str()))),
        }?;
        if let Some(average) = average {
            gradients.insert(&parameter.variable, average);
        }
    }
    Ok(())
}

/// An average as a tensor, in the memory in which it travelled if that was candle's.
fn take<T: WithDType + Plain>(
    averages: &mut Reduced,
    index: usize,
    shape: &Shape,
) -> Result<Option<Tensor>> {
    let numbers = averages.take::<T>(index)?;
    Ok(numbers.map(|numbers| Tensor::from_vec(numbers, shape, &Device::Cpu)).transpose()?)
}
