//! Tensors that are taken from candle with their memory.

use std::sync::{Mutex, PoisonError};

#[cfg(feature = "cuda")]
use candle_core::CudaStorage;
use candle_core::{CpuStorage, InplaceOp1, Layout, Result, Storage, Tensor};

use crate::pass::Pass;

/// Gives a gradient to a pass with its memory, so that it is averaged where it is. Says whether that could
/// be done.
///
/// Candle adds up each gradient in memory of its own, which nobody needs any more when the operation of a
/// variable has been told of it: what is left behind is empty.
pub(crate) fn give(pass: &Pass, index: usize, gradient: &Tensor) -> Result<crate::Result<bool>> {
    // If candle has been asked for derivatives of derivatives, they are computed from this.
    if !pass.is_adopted(index) || gradient.track_op() {
        return Ok(Ok(false));
    }
    let Some(Storage::Cpu(numbers)) = take(gradient)? else { return Ok(Ok(false)) };
    let given = match numbers {
        CpuStorage::F32(numbers) => pass.ready_owned(index, numbers),
        CpuStorage::F64(numbers) => pass.ready_owned(index, numbers),
        CpuStorage::F16(numbers) => pass.ready_owned(index, numbers),
        CpuStorage::BF16(numbers) => pass.ready_owned(index, numbers),
        _ => return Ok(Ok(false)),
    };
    Ok(given.map(|()| true))
}

/// The memory of a tensor of numbers that are learned, if the tensor is all that is in it. Whoever else has
/// the tensor, or a view of it, is left with nothing.
pub(crate) fn take(tensor: &Tensor) -> Result<Option<Storage>> {
    let taking = Taking::default();
    tensor.inplace_op1(&taking)?;
    Ok(taking.0.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Takes a tensor's memory, if the tensor is all that is in it.
#[derive(Default)]
struct Taking(Mutex<Option<Storage>>);

impl Taking {
    fn keep(&self, taken: Storage) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(taken);
    }
}

impl InplaceOp1 for Taking {
    fn name(&self) -> &'static str {
        "taking"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
        let count = layout.shape().elem_count();
        if !layout.is_contiguous() || layout.start_offset() != 0 {
            return Ok(());
        }
        let taken = match storage {
            CpuStorage::F32(all) if all.len() == count => CpuStorage::F32(std::mem::take(all)),
            CpuStorage::F64(all) if all.len() == count => CpuStorage::F64(std::mem::take(all)),
            CpuStorage::F16(all) if all.len() == count => CpuStorage::F16(std::mem::take(all)),
            CpuStorage::BF16(all) if all.len() == count => CpuStorage::BF16(std::mem::take(all)),
            _ => return Ok(()),
        };
        self.keep(Storage::Cpu(taken));
        Ok(())
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(&self, storage: &mut CudaStorage, layout: &Layout) -> Result<()> {
        if let Some(taken) = crate::candle::cuda::take(storage, layout)? {
            self.keep(Storage::Cuda(taken));
        }
        Ok(())
    }
}
