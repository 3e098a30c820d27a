//! Candle's tensors as the bytes that travel.

use bytemuck::Pod;
use candle_core::{CpuStorage, DType, Device, Result, Shape, Storage, Tensor, WithDType, bail};
use consort::{Dtype, bf16, f16};

use crate::error::Error;

/// What consort calls numbers of this kind.
///
/// # Errors
/// When they cannot travel.
pub(crate) fn dtype(of: DType) -> Result<Dtype> {
    Ok(match of {
        DType::F32 => Dtype::F32,
        DType::F64 => Dtype::F64,
        DType::F16 => Dtype::F16,
        DType::BF16 => Dtype::Bf16,
        DType::U8 => Dtype::U8,
        DType::U32 => Dtype::U32,
        DType::I16 => Dtype::I16,
        DType::I32 => Dtype::I32,
        DType::I64 => Dtype::I64,
        other => bail!("variables of {} cannot be shared between ranks", other.as_str()),
    })
}

/// Whether there are gradients of such numbers.
pub(crate) fn is_learned(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64 | DType::F16 | DType::BF16)
}

/// The tensor, or a copy of it on the host, if it is on a CUDA device.
pub(crate) fn on_host(tensor: &Tensor) -> Result<Tensor> {
    #[cfg(feature = "cuda")]
    if tensor.device().is_cuda() {
        return crate::candle::cuda::download(tensor);
    }
    Ok(tensor.clone())
}

/// Looks at a tensor's elements, row by row. Those of a CUDA device are copied to the host.
pub(crate) fn with_bytes<R>(tensor: &Tensor, look: impl FnOnce(&[u8]) -> R) -> Result<R> {
    let tensor = on_host(tensor)?.contiguous()?;
    let (storage, layout) = tensor.storage_and_layout();
    let Storage::Cpu(storage) = &*storage else {
        let place = tensor.device().location();
        bail!(
            "a tensor is on {place:?}: only those of the host can travel, and, with the feature `cuda`, of CUDA"
        )
    };
    let from = layout.start_offset();
    let part = from..from + layout.shape().elem_count();
    let bytes: &[u8] = match storage {
        CpuStorage::F32(all) => bytemuck::cast_slice(&all[part]),
        CpuStorage::F64(all) => bytemuck::cast_slice(&all[part]),
        CpuStorage::F16(all) => bytemuck::cast_slice(&all[part]),
        CpuStorage::BF16(all) => bytemuck::cast_slice(&all[part]),
        CpuStorage::U8(all) => &all[part],
        CpuStorage::U32(all) => bytemuck::cast_slice(&all[part]),
        CpuStorage::I16(all) => bytemuck::cast_slice(&all[part]),
        CpuStorage::I32(all) => bytemuck::cast_slice(&all[part]),
        CpuStorage::I64(all) => bytemuck::cast_slice(&all[part]),
        _ => bail!("a tensor of {} cannot travel", tensor.dtype().as_str()),
    };
    Ok(look(bytes))
}

/// A tensor of the host whose elements are filled in as bytes, row by row.
pub(crate) fn filled(
    dtype: DType,
    shape: &Shape,
    fill: impl FnOnce(&mut [u8]) -> crate::Result<()>,
) -> crate::Result<Tensor> {
    match dtype {
        DType::F32 => of::<f32>(shape, fill),
        DType::F64 => of::<f64>(shape, fill),
        DType::F16 => of::<f16>(shape, fill),
        DType::BF16 => of::<bf16>(shape, fill),
        DType::U8 => of::<u8>(shape, fill),
        DType::U32 => of::<u32>(shape, fill),
        DType::I16 => of::<i16>(shape, fill),
        DType::I32 => of::<i32>(shape, fill),
        DType::I64 => of::<i64>(shape, fill),
        other => Err(Error::Argument(format!("a tensor of {} cannot travel", other.as_str()))),
    }
}

fn of<T: WithDType + Pod>(
    shape: &Shape,
    fill: impl FnOnce(&mut [u8]) -> crate::Result<()>,
) -> crate::Result<Tensor> {
    let mut numbers = vec![T::zeroed(); shape.elem_count()];
    fill(bytemuck::cast_slice_mut(&mut numbers))?;
    Ok(Tensor::from_vec(numbers, shape, &Device::Cpu)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dtype_survives_as_bytes() {
        for dtype in [
            DType::F32,
            DType::F64,
            DType::F16,
            DType::BF16,
            DType::U8,
            DType::U32,
            DType::I16,
            DType::I32,
            DType::I64,
        ] {
            let numbers = Tensor::arange(0_u32, 6, &Device::Cpu).unwrap();
            let tensor = numbers.reshape((2, 3)).unwrap().to_dtype(dtype).unwrap();
            // Column by column, and from the second row on.
            for tensor in [tensor.t().unwrap(), tensor.narrow(0, 1, 1).unwrap(), tensor] {
                let bytes = with_bytes(&tensor, <[u8]>::to_vec).unwrap();
                let fill = |room: &mut [u8]| {
                    room.copy_from_slice(&bytes);
                    Ok(())
                };
                let back = filled(dtype, tensor.shape(), fill).unwrap();
                assert_eq!(back.dtype(), dtype);
                let [tensor, back] = [tensor, back].map(|it| it.to_dtype(DType::F64).unwrap());
                assert_eq!(back.to_vec2::<f64>().unwrap(), tensor.to_vec2::<f64>().unwrap());
            }
        }
    }
}
