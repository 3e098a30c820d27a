//! How averages become candle's.

use candle_core::backprop::GradStore;

use crate::candle::model::Learned;
use crate::candle::numbers::filled;
use crate::error::Result;
use crate::reduced::Reduced;

/// Puts the averages of a pass among the gradients. A parameter that has none on any rank gets none.
pub(crate) fn write_back(
    averages: &Reduced,
    parameters: &[Learned],
    gradients: &mut GradStore,
) -> Result<()> {
    for (index, parameter) in parameters.iter().enumerate() {
        if averages.is_used(index) {
            let (dtype, shape) = (parameter.variable.dtype(), parameter.variable.shape());
            let copy = |room: &mut [u8]| averages.copy_to(index, room).map(|_| ());
            gradients.insert(&parameter.variable, filled(dtype, shape, copy)?);
        }
    }
    Ok(())
}
