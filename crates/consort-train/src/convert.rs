//! Numbers of one dtype as numbers of another.

use bytemuck::{cast_slice, cast_slice_mut};
use consort::symm::Plain;
use consort::{Dtype, bf16, f16};

use crate::error::{Error, Result};

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

fn each<A: Plain, B: Plain>(source: &[u8], target: &mut [u8], convert: impl Fn(A) -> B) {
    let (source, target) = (cast_slice::<u8, A>(source), cast_slice_mut::<u8, B>(target));
    target.iter_mut().zip(source).for_each(|(target, source)| *target = convert(*source));
}

#[cfg(test)]
mod tests {
    use super::*;

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
