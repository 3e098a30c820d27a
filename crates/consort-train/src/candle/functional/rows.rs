//! Candle's tensors as values that travel.

use candle_core::{CpuStorage, Storage, Tensor, op::BackpropOp};
use consort::functional::{Memory, Meta, Value, View};
use consort::{Dtype, Element, Error, Result, Source, Target, bf16, f16};

use crate::candle::error::without_backtrace;
use crate::candle::numbers::{self, on_host};

/// A tensor without its history. One of a CUDA device goes by way of the host.
#[derive(Clone, Debug)]
pub(super) struct Rows(pub(super) Tensor);

impl Value for Rows {
    type Memory = Numbers;

    fn meta(&self) -> Result<Meta> {
        let dtype = numbers::dtype(self.0.dtype()).map_err(refuse)?;
        Ok(Meta::new(dtype, self.0.dims()))
    }

    fn view<R>(&self, look: impl FnOnce(View<'_>) -> R) -> Result<R> {
        let meta = self.meta()?;
        let tensor = on_host(&self.0).map_err(refuse)?;
        let is_in_rows = tensor.layout().stride().last().is_none_or(|&stride| stride == 1);
        // What lies in columns, or is repeated, is laid out by candle, which has loops for that.
        let tensor = if is_in_rows { tensor } else { tensor.contiguous().map_err(refuse)? };
        let (storage, layout) = tensor.storage_and_layout();
        let Storage::Cpu(storage) = &*storage else {
            let place = tensor.device().location();
            let what = format!(
                "a tensor is on {place:?}: only those of the host can travel, and, with the feature `cuda`, of CUDA"
            );
            return Err(Error::Argument(what));
        };
        let from = layout.start_offset() * meta.dtype.size();
        let all = bytes(storage)?;
        let data = all.slice(from.min(all.len())..all.len());
        Ok(look(View::strided(data, meta.dtype, layout.dims(), layout.stride())?))
    }

    fn from_memory(Numbers(storage): Numbers, meta: Meta) -> Self {
        let none = BackpropOp::none();
        Self(Tensor::from_storage(Storage::Cpu(storage), meta.shape, none, false))
    }
}

/// Memory as candle has it.
pub(super) struct Numbers(CpuStorage);

impl Memory for Numbers {
    fn zeroed(dtype: Dtype, count: usize) -> Result<Self> {
        Ok(Self(match dtype {
            Dtype::F32 => CpuStorage::F32(zeroes(dtype, count)?),
            Dtype::F64 => CpuStorage::F64(zeroes(dtype, count)?),
            Dtype::F16 => CpuStorage::F16(zeroes(dtype, count)?),
            Dtype::Bf16 => CpuStorage::BF16(zeroes(dtype, count)?),
            Dtype::U8 => CpuStorage::U8(zeroes(dtype, count)?),
            Dtype::U32 => CpuStorage::U32(zeroes(dtype, count)?),
            Dtype::I16 => CpuStorage::I16(zeroes(dtype, count)?),
            Dtype::I32 => CpuStorage::I32(zeroes(dtype, count)?),
            Dtype::I64 => CpuStorage::I64(zeroes(dtype, count)?),
            other => return Err(unknown(other)),
        }))
    }

    fn copy_of(view: &View<'_>) -> Result<Self> {
        Ok(Self(match view.dtype() {
            Dtype::F32 => CpuStorage::F32(view.collect()?),
            Dtype::F64 => CpuStorage::F64(view.collect()?),
            Dtype::F16 => CpuStorage::F16(view.collect()?),
            Dtype::Bf16 => CpuStorage::BF16(view.collect()?),
            Dtype::U8 => CpuStorage::U8(view.collect()?),
            Dtype::U32 => CpuStorage::U32(view.collect()?),
            Dtype::I16 => CpuStorage::I16(view.collect()?),
            Dtype::I32 => CpuStorage::I32(view.collect()?),
            Dtype::I64 => CpuStorage::I64(view.collect()?),
            other => return Err(unknown(other)),
        }))
    }

    fn source(&self) -> Source<'_> {
        bytes(&self.0).expect("it was made of numbers that can travel")
    }

    fn target(&mut self) -> Target<'_> {
        match &mut self.0 {
            CpuStorage::F32(all) => f32::target(all),
            CpuStorage::F64(all) => f64::target(all),
            CpuStorage::F16(all) => f16::target(all),
            CpuStorage::BF16(all) => bf16::target(all),
            CpuStorage::U8(all) => u8::target(all),
            CpuStorage::U32(all) => u32::target(all),
            CpuStorage::I16(all) => i16::target(all),
            CpuStorage::I32(all) => i32::target(all),
            CpuStorage::I64(all) => i64::target(all),
            _ => unreachable!("it was made of numbers that can travel"),
        }
    }
}

fn zeroes<T: Element>(dtype: Dtype, count: usize) -> Result<Vec<T>> {
    Memory::zeroed(dtype, count)
}

/// All that is in candle's memory.
fn bytes(storage: &CpuStorage) -> Result<Source<'_>> {
    Ok(match storage {
        CpuStorage::F32(all) => f32::source(all),
        CpuStorage::F64(all) => f64::source(all),
        CpuStorage::F16(all) => f16::source(all),
        CpuStorage::BF16(all) => bf16::source(all),
        CpuStorage::U8(all) => u8::source(all),
        CpuStorage::U32(all) => u32::source(all),
        CpuStorage::I16(all) => i16::source(all),
        CpuStorage::I32(all) => i32::source(all),
        CpuStorage::I64(all) => i64::source(all),
        _ => return Err(Error::Argument("such numbers cannot travel".to_owned())),
    })
}

fn unknown(dtype: Dtype) -> Error {
    Error::Argument(format!("candle has no tensors of {dtype}"))
}

/// What candle says, for those who know nothing of it.
fn refuse(said: candle_core::Error) -> Error {
    Error::Argument(without_backtrace(&said))
}
