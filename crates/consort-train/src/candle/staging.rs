//! How gradients of a CUDA device come to buckets there, and averages back.

use std::sync::{Mutex, PoisonError};

use candle_core::backprop::GradStore;
use candle_core::{CudaDevice, Tensor};
use consort::device::Memory;

use crate::candle::cuda::{copy_in, copy_out, device_of, hand_over, settle, take_over};
use crate::candle::model::Learned;
use crate::candle::numbers::dtype;
use crate::error::Result;
use crate::pass::Pass;
use crate::reduced::Reduced;

/// Memory of consort's through which gradients go from candle's memory to buckets: room for the largest so far.
/// One after the other goes through it, in the order of streams; the program does not wait.
#[derive(Debug, Default)]
pub(crate) struct Stage(Mutex<Option<Memory>>);

impl Stage {
    /// Gives a gradient to a pass.
    pub(crate) fn bring(&self, pass: &Pass, index: usize, gradient: &Tensor) -> Result<()> {
        let on = gradient.device().as_cuda_device()?;
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = 0..gradient.elem_count() * gradient.dtype().size_in_bytes();
        let mut memory = match place.take().filter(|memory| memory.len() >= room.len()) {
            Some(memory) => memory,
            None => device_of(on)?.allocate(room.len())?,
        };
        // The gradient before has been copied to its bucket then.
        take_over(on)?;
        copy_in(gradient, memory.target().slice(room.clone()))?;
        hand_over(on)?;
        let given = memory.source().slice(room);
        pass.ready_on_device(index, dtype(gradient.dtype())?, given)?;
        *place = Some(memory);
        Ok(())
    }
}

/// Puts the averages of a pass among the gradients, as tensors of a device.
pub(crate) fn write_back(
    averages: &Reduced,
    parameters: &[Learned],
    gradients: &mut GradStore,
    on: &CudaDevice,
) -> Result<()> {
    // What nobody has a gradient of was filled with zeroes there.
    take_over(on)?;
    for (index, parameter) in parameters.iter().enumerate() {
        let variable = &parameter.variable;
        if let Some(average) = averages.gradient_on_device(index)? {
            let average = copy_out(average, variable.dtype(), variable.shape(), on)?;
            gradients.insert(variable, average);
        }
    }
    // Buckets are used again after this.
    Ok(settle(on)?)
}
