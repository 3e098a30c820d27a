//! Numbers of one dtype as numbers of another.

use bytemuck::{bytes_of, pod_read_unaligned, try_cast_slice, try_cast_slice_mut};
use consort::symm::Plain;
use consort::{Dtype, bf16, f16};

use crate::error::{Error, Result};
use crate::memory::Memory;

/// Writes numbers as numbers of another dtype, rounded to the nearest.
///
/// # Errors
/// When there is no such conversion. Only real floating-point numbers of 16 bits and more have one.
pub(crate) fn convert(from: (Dtype, &[u8]), to: (Dtype, &mut [u8])) -> Result<()> {
    let ((from, source), (dtype, target)) = (from, to);
    if from == dtype {
        target.copy_from_slice(source);
        return Ok(());
    }
    match (from, dtype) {
        (Dtype::F32, Dtype::F16) => each::<f32, f16>(source, target, f16::from_f32),
        (Dtype::F32, Dtype::Bf16) => each::<f32, bf16>(source, target, bf16::from_f32),
        (Dtype::F32, Dtype::F64) => each::<f32, f64>(source, target, f64::from),
        (Dtype::F64, Dtype::F32) => each::<f64, f32>(source, target, |number| number as f32),
        (Dtype::F64, Dtype::F16) => each::<f64, f16>(source, target, f16::from_f64),
        (Dtype::F64, Dtype::Bf16) => each::<f64, bf16>(source, target, bf16::from_f64),
        (Dtype::F16, Dtype::F32) => each::<f16, f32>(source, target, f16::to_f32),
        (Dtype::F16, Dtype::F64) => each::<f16, f64>(source, target, f16::to_f64),
        (Dtype::F16, Dtype::Bf16) => {
            each::<f16, bf16>(source, target, |number| bf16::from_f32(number.to_f32()));
        }
        (Dtype::Bf16, Dtype::F32) => each::<bf16, f32>(source, target, bf16::to_f32),
        (Dtype::Bf16, Dtype::F64) => each::<bf16, f64>(source, target, bf16::to_f64),
        (Dtype::Bf16, Dtype::F16) => {
            each::<bf16, f16>(source, target, |number| f16::from_f32(number.to_f32()));
        }
        _ => {
            let what = format!("gradients of {from} cannot be reduced as {dtype}");
            return Err(Error::Argument(what));
        }
    }
    Ok(())
}

/// The same numbers where they can be read as numbers of another dtype: where they are, or in a copy.
///
/// # Errors
/// As [`convert`].
pub(crate) fn converted((from, source): (Dtype, &[u8]), dtype: Dtype) -> Result<Converted<'_>> {
    if from == dtype {
        return Ok(Converted::Same(source));
    }
    let mut memory = Memory::new(source.len() / from.size() * dtype.size());
    convert((from, source), (dtype, memory.bytes_mut()))?;
    Ok(Converted::Copy(memory))
}

/// Numbers of the dtype that was asked for.
pub(crate) enum Converted<'a> {
    Same(&'a [u8]),
    Copy(Memory),
}

impl Converted<'_> {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Same(bytes) => bytes,
            Self::Copy(memory) => memory.bytes(),
        }
    }
}

/// Whether gradients of one dtype can be reduced as another, and given back.
pub(crate) fn can_be_reduced_as(dtype: Dtype, other: Dtype) -> bool {
    convert((dtype, &[]), (other, &mut [])).is_ok()
}

fn each<A: Plain, B: Plain>(source: &[u8], target: &mut [u8], convert: impl Fn(A) -> B) {
    if let (Ok(source), Ok(target)) =
        (try_cast_slice::<u8, A>(source), try_cast_slice_mut::<u8, B>(target))
    {
        target.iter_mut().zip(source).for_each(|(target, source)| *target = convert(*source));
        return;
    }
    // One of them begins where no number can lie.
    let sources = source.chunks_exact(size_of::<A>());
    for (target, source) in target.chunks_exact_mut(size_of::<B>()).zip(sources) {
        target.copy_from_slice(bytes_of(&convert(pod_read_unaligned(source))));
    }
}

#[cfg(test)]
mod tests {
    use bytemuck::{cast_slice, cast_slice_mut};

    use super::*;

    #[test]
    fn numbers_at_odd_addresses_are_converted_too() {
        let numbers = [1.5_f32, -2.0, 3.25];
        let (mut source, mut target) = ([0_u8; 13], [0_u8; 25]);
        source[1..].copy_from_slice(cast_slice(&numbers));
        convert((Dtype::F32, &source[1..]), (Dtype::F64, &mut target[1..])).unwrap();
        let back = target[1..].chunks_exact(8).map(pod_read_unaligned::<f64>);
        assert_eq!(back.collect::<Vec<_>>(), [1.5, -2.0, 3.25]);
    }

    #[test]
    fn what_every_dtype_has_survives_any_conversion() {
        let dtypes = [Dtype::F32, Dtype::F64, Dtype::F16, Dtype::Bf16];
        let numbers = [0.0_f32, -1.5, 3.0, 256.0];
        for first in dtypes {
            for second in dtypes {
                let (mut one, mut two) = ([0_u64; 4], [0_u64; 4]);
                let one = &mut cast_slice_mut(&mut one)[..4 * first.size()];
                let two = &mut cast_slice_mut(&mut two)[..4 * second.size()];
                let mut back = [0.0_f32; 4];
                convert((Dtype::F32, cast_slice(&numbers)), (first, one)).unwrap();
                convert((first, one), (second, two)).unwrap();
                convert((second, two), (Dtype::F32, cast_slice_mut(&mut back))).unwrap();
                assert_eq!(back, numbers, "{first} {second}");
            }
        }
    }

    #[test]
    fn what_is_no_real_number_is_not_converted() {
        let (source, mut target) = ([0_u8; 4], [0_u8; 8]);
        assert!(convert((Dtype::I32, &source), (Dtype::C64, &mut target)).is_err());
    }
}
