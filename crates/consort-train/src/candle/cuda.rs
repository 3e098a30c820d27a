//! Tensors of CUDA devices, and memory of consort's on the same devices.
//!
//! Candle and consort have the same devices, which they call by the same numbers, in the same (primary) context of
//! the same driver. Each has memory of its own there, and bytes are copied between the two within the device, by
//! candle's stream.
//!
//! # Whose turn it is
//!
//! What consort does with its memory waits for the device's default stream, and for no other. Candle has another:
//! that of each thread (`Device::new_cuda`), or one of its own (`Device::new_cuda_with_stream`). So after copies to
//! consort's memory [the default stream waits](hand_over) for candle's, and the program goes on. What has
//! come out of a call is done when the call is; what is copied from there to candle's memory is
//! [waited for](settle), because consort's memory is given back to the driver then.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use candle_core::backend::{BackendDevice, BackendStorage};
use candle_core::cuda_backend::cudarc::driver::sys::CUdeviceptr;
use candle_core::cuda_backend::cudarc::driver::{
    CudaStream, DevicePtr, DevicePtrMut, DeviceRepr, DeviceSlice, SyncOnDrop,
};
use candle_core::cuda_backend::{CudaDType, WrapErr};
use candle_core::op::BackpropOp;
use candle_core::{
    CudaDevice, CudaStorage, DType, DeviceLocation, Layout, Result, Shape, Storage, Tensor, bail,
};
use consort::device::{Device, Driver, Memory};
use consort::{Source, Target, bf16, f16};

use crate::error::Error;

/// Does something with the type that numbers of a dtype have.
macro_rules! with_type {
    ($dtype:expr, $type:ident => $body:expr) => {
        with_type!(@ $dtype, $type => $body;
            F32: f32, F64: f64, F16: f16, BF16: bf16, U8: u8, U32: u32, I16: i16, I32: i32, I64: i64)
    };
    (@ $dtype:expr, $type:ident => $body:expr; $($name:ident: $number:ty),*) => {
        match $dtype {
            $(DType::$name => {
                type $type = $number;
                $body
            })*
            other => bail!("a tensor of {} cannot travel", other.as_str()),
        }
    };
}

/// What consort calls a device of candle's.
///
/// # Errors
/// When consort finds no driver, or no such device.
pub(crate) fn device_of(device: &CudaDevice) -> crate::Result<Device> {
    let DeviceLocation::Cuda { gpu_id } = device.location() else {
        let what = format!("a CUDA device says that it is {:?}", device.location());
        return Err(Error::Argument(what));
    };
    let number = u16::try_from(gpu_id).unwrap_or(u16::MAX);
    Ok(Driver::load()?.device(number)?)
}

/// A copy of a tensor in consort's memory of its device, row by row, [handed over](hand_over).
pub(crate) fn upload(tensor: &Tensor) -> crate::Result<Memory> {
    let device = tensor.device().as_cuda_device()?;
    let bytes = tensor.elem_count() * tensor.dtype().size_in_bytes();
    let mut memory = device_of(device)?.allocate(bytes)?;
    copy_in(tensor, memory.target())?;
    hand_over(device)?;
    Ok(memory)
}

/// Copies a tensor to memory of its device, row by row. It is candle's turn: others wait for its stream.
pub(crate) fn copy_in(tensor: &Tensor, target: Target<'_>) -> Result<()> {
    let tensor = tensor.contiguous()?;
    let (storage, layout) = tensor.storage_and_layout();
    let Storage::Cuda(storage) = &*storage else {
        bail!("a tensor is on {:?}, and not on a CUDA device", tensor.device().location())
    };
    if layout.shape().elem_count() == 0 {
        return Ok(());
    }
    let stream = storage.device.cuda_stream();
    with_type!(tensor.dtype(), T => {
        let numbers = storage.as_cuda_slice::<T>()?.slice(part_of(layout));
        stream.memcpy_dtod(&numbers, &mut Lent::<T>::target(target, &stream)).w()
    })
}

/// A tensor of a device, of what is in memory of that device, row by row. The memory has to be there until this
/// has [settled](settle).
pub(crate) fn copy_out(
    source: Source<'_>,
    dtype: DType,
    shape: &Shape,
    device: &CudaDevice,
) -> Result<Tensor> {
    if shape.elem_count() == 0 {
        return Tensor::zeros(shape, dtype, &candle_core::Device::Cuda(device.clone()));
    }
    let storage = with_type!(dtype, T => copy_of::<T>(source, device)?);
    let none = BackpropOp::none();
    Ok(Tensor::from_storage(Storage::Cuda(storage), shape.clone(), none, false))
}

/// A copy of a tensor of a device on the host.
pub(crate) fn download(tensor: &Tensor) -> Result<Tensor> {
    if tensor.elem_count() == 0 {
        return Tensor::zeros(tensor.shape(), tensor.dtype(), &candle_core::Device::Cpu);
    }
    let tensor = tensor.contiguous()?;
    let (storage, layout) = tensor.storage_and_layout();
    let Storage::Cuda(storage) = &*storage else {
        bail!("a tensor is on {:?}, and not on a CUDA device", tensor.device().location())
    };
    let stream = storage.device.cuda_stream();
    with_type!(tensor.dtype(), T => {
        let numbers = storage.as_cuda_slice::<T>()?.slice(part_of(layout));
        let numbers = stream.clone_dtoh(&numbers).w()?;
        stream.synchronize().w()?;
        Tensor::from_vec(numbers, tensor.shape(), &candle_core::Device::Cpu)
    })
}

/// A copy of what a layout that lies row by row says of candle's memory.
pub(crate) fn copied(storage: &CudaStorage, layout: &Layout) -> Result<CudaStorage> {
    let stream = storage.device.cuda_stream();
    with_type!(storage.dtype(), T => {
        let numbers = storage.as_cuda_slice::<T>()?.slice(part_of(layout));
        Ok(T::wrap_cuda_slice(stream.clone_dtod(&numbers).w()?, storage.device.clone()))
    })
}

/// Candle's memory, if a layout is all that is in it. One byte is left behind.
pub(crate) fn take(storage: &mut CudaStorage, layout: &Layout) -> Result<Option<CudaStorage>> {
    let count = layout.shape().elem_count();
    let len = with_type!(storage.dtype(), T => storage.as_cuda_slice::<T>()?.len());
    if !layout.is_contiguous() || layout.start_offset() != 0 || len != count {
        return Ok(None);
    }
    let device = storage.device.clone();
    let little = u8::wrap_cuda_slice(device.alloc_zeros::<u8>(1)?, device);
    Ok(Some(std::mem::replace(storage, little)))
}

/// Has the device's default stream, for which consort waits, wait for all that this thread has given candle's.
pub(crate) fn hand_over(device: &CudaDevice) -> Result<()> {
    let stream = device.cuda_stream();
    stream.context().default_stream().join(&stream).w()
}

/// Has candle's stream wait for all that the device's default stream was given.
pub(crate) fn take_over(device: &CudaDevice) -> Result<()> {
    let stream = device.cuda_stream();
    stream.join(&stream.context().default_stream()).w()
}

/// Waits until candle's stream has done all that this thread has given it.
pub(crate) fn settle(device: &CudaDevice) -> Result<()> {
    device.cuda_stream().synchronize().w()
}

/// Where the numbers of a layout are that lie row by row.
fn part_of(layout: &Layout) -> Range<usize> {
    let from = layout.start_offset();
    from..from + layout.shape().elem_count()
}

fn copy_of<T: CudaDType + DeviceRepr>(
    source: Source<'_>,
    device: &CudaDevice,
) -> Result<CudaStorage> {
    let stream = device.cuda_stream();
    let numbers = stream.clone_dtod(&Lent::<T>::source(source, &stream)).w()?;
    Ok(T::wrap_cuda_slice(numbers, device.clone()))
}

/// Consort's memory of a device, as candle's driver takes it. Who uses it when is said
/// [above](self#whose-turn-it-is), so nothing is waited for or noted here.
struct Lent<'a, T> {
    address: CUdeviceptr,
    len: usize,
    stream: &'a Arc<CudaStream>,
    numbers: PhantomData<&'a mut [T]>,
}

impl<'a, T> Lent<'a, T> {
    /// To be read only.
    fn source(source: Source<'a>, stream: &'a Arc<CudaStream>) -> Self {
        let address = source.as_ptr().expose_provenance() as CUdeviceptr;
        Self { address, len: source.len() / size_of::<T>(), stream, numbers: PhantomData }
    }

    fn target(target: Target<'a>, stream: &'a Arc<CudaStream>) -> Self {
        Self::source(target.into(), stream)
    }
}

impl<T> DeviceSlice<T> for Lent<'_, T> {
    fn len(&self) -> usize {
        self.len
    }

    fn stream(&self) -> &Arc<CudaStream> {
        self.stream
    }
}

impl<T> DevicePtr<T> for Lent<'_, T> {
    fn device_ptr<'a>(&'a self, _stream: &'a CudaStream) -> (CUdeviceptr, SyncOnDrop<'a>) {
        (self.address, SyncOnDrop::Record(None))
    }
}

impl<T> DevicePtrMut<T> for Lent<'_, T> {
    fn device_ptr_mut<'a>(&'a mut self, _stream: &'a CudaStream) -> (CUdeviceptr, SyncOnDrop<'a>) {
        (self.address, SyncOnDrop::Record(None))
    }
}
