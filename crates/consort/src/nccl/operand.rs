//! What NCCL calls dtypes and operations, and which it has not.

use consort_sys::dtype::{Dtype, F8E4m3, F8E5m2, ReduceOp};
use half::{bf16, f16};

use super::error::{Error, Result};
use super::feature::Feature;
use super::library::Library;

/// How elements travel that are only copied: as which type of NCCL's, and as how many of it each. What NCCL has no
/// type for, or this version has not, travels as bytes.
pub(super) fn copied(library: Library, dtype: Dtype) -> (i32, usize) {
    match number(dtype).filter(|_| has(library, dtype)) {
        Some(number) => (number, 1),
        None => (UINT8, dtype.size()),
    }
}

/// As which type of NCCL's elements are combined.
///
/// # Errors
/// When NCCL, or this version of it, does not combine them, or not so.
pub(crate) fn combined(
    library: Library,
    function: &'static str,
    dtype: Dtype,
    op: ReduceOp,
) -> Result<i32> {
    let refuse = |reason: String| Err(Error::argument(function, reason));
    if dtype == Dtype::Bool {
        return match op {
            ReduceOp::Max | ReduceOp::Min => Ok(UINT8),
            _ => refuse(format!(
                "NCCL has no bool, whose bytes it would take for numbers: {op} of it is not to be had; max is true \
                 where any is, min where all are"
            )),
        };
    }
    let Some(number) = number(dtype) else {
        return refuse(format!(
            "NCCL does not combine {dtype}; it has i8, u8, i32, u32, i64, u64, f16, f32, f64, bf16, f8e4m3 and \
             f8e5m2, and bool for max and min"
        ));
    };
    if let Some(feature) = feature_of(dtype).filter(|feature| !library.has(*feature)) {
        let (needed, found) = (feature.since(), library.version());
        return refuse(format!("{dtype} needs NCCL {needed} or later, and {found} is loaded"));
    }
    match op {
        ReduceOp::BitAnd | ReduceOp::BitOr | ReduceOp::BitXor => {
            refuse(format!("NCCL has no {op}; it has sum, product, max, min, avg and premul_sum"))
        }
        ReduceOp::Avg if !library.has(Feature::Avg) => {
            let (needed, found) = (Feature::Avg.since(), library.version());
            refuse(format!("avg needs NCCL {needed} or later, and {found} is loaded"))
        }
        _ => Ok(number),
    }
}

/// NCCL's number for an operation of its own.
pub(super) const fn operation(op: ReduceOp) -> Option<i32> {
    Some(match op {
        ReduceOp::Sum => 0,
        ReduceOp::Product => 1,
        ReduceOp::Max => 2,
        ReduceOp::Min => 3,
        ReduceOp::Avg => 4,
        _ => return None,
    })
}

/// A factor as a number of a dtype, in as many of these bytes as that has.
///
/// # Errors
/// When the dtype does not have it.
pub(super) fn factor(function: &'static str, dtype: Dtype, factor: f64) -> Result<[u8; 8]> {
    /// The number as an integer, if it is one.
    macro_rules! whole {
        ($type:ty) => {{
            let number = factor as $type;
            // What is too large becomes the largest there is, and that may be the same as an f64.
            let fits = factor < <$type>::MAX as f64 + 1.0;
            (fits && number as f64 == factor).then_some(number.to_ne_bytes().to_vec())
        }};
    }
    let bytes = match dtype {
        Dtype::F64 => Some(factor.to_ne_bytes().to_vec()),
        Dtype::F32 => Some((factor as f32).to_ne_bytes().to_vec()),
        Dtype::F16 => Some(f16::from_f64(factor).to_ne_bytes().to_vec()),
        Dtype::Bf16 => Some(bf16::from_f64(factor).to_ne_bytes().to_vec()),
        Dtype::F8E4m3 => Some(vec![F8E4m3::from_f32(factor as f32).to_bits()]),
        Dtype::F8E5m2 => Some(vec![F8E5m2::from_f32(factor as f32).to_bits()]),
        Dtype::I8 => whole!(i8),
        Dtype::U8 => whole!(u8),
        Dtype::I32 => whole!(i32),
        Dtype::U32 => whole!(u32),
        Dtype::I64 => whole!(i64),
        Dtype::U64 => whole!(u64),
        _ => None,
    };
    let bytes = bytes.ok_or_else(|| {
        Error::argument(function, format!("{factor} is no number of the type {dtype}"))
    })?;
    let mut all = [0; 8];
    all[..bytes.len()].copy_from_slice(&bytes);
    Ok(all)
}

/// NCCL's number for a dtype.
const fn number(dtype: Dtype) -> Option<i32> {
    Some(match dtype {
        Dtype::I8 => 0,
        Dtype::U8 => UINT8,
        Dtype::I32 => 2,
        Dtype::U32 => 3,
        Dtype::I64 => 4,
        Dtype::U64 => 5,
        Dtype::F16 => 6,
        Dtype::F32 => 7,
        Dtype::F64 => 8,
        Dtype::Bf16 => 9,
        Dtype::F8E4m3 => 10,
        Dtype::F8E5m2 => 11,
        Dtype::Bool | Dtype::I16 | Dtype::U16 | Dtype::C64 | Dtype::C128 => return None,
    })
}

/// What a version must have for a dtype.
const fn feature_of(dtype: Dtype) -> Option<Feature> {
    match dtype {
        Dtype::Bf16 => Some(Feature::Bf16),
        Dtype::F8E4m3 | Dtype::F8E5m2 => Some(Feature::Float8),
        _ => None,
    }
}

fn has(library: Library, dtype: Dtype) -> bool {
    feature_of(dtype).is_none_or(|feature| library.has(feature))
}

const UINT8: i32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dtype_of_nccl_has_one_number() {
        let mut numbers: Vec<_> = Dtype::ALL.into_iter().filter_map(number).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..12).collect::<Vec<_>>());
    }

    #[test]
    fn operations_of_nccl_have_its_numbers() {
        let numbers: Vec<_> = ReduceOp::ALL.into_iter().filter_map(operation).collect();
        assert_eq!(numbers, [0, 4, 1, 3, 2]);
    }

    #[test]
    fn a_factor_is_a_number_of_the_dtype() {
        let first = |dtype, number| factor("f", dtype, number).map(|bytes| bytes[0]);
        assert_eq!(factor("f", Dtype::F32, 0.5).unwrap()[..4], 0.5_f32.to_ne_bytes());
        assert_eq!(factor("f", Dtype::F64, 0.1).unwrap(), 0.1_f64.to_ne_bytes());
        assert_eq!(first(Dtype::I8, -3.0).unwrap(), (-3_i8) as u8);
        assert_eq!(first(Dtype::F8E5m2, 1.0).unwrap(), 0x3c);
        let (least, most) = (-2_f64.powi(63), 2_f64.powi(64) - 2048.0);
        assert_eq!(factor("f", Dtype::I64, least).unwrap(), i64::MIN.to_ne_bytes());
        assert_eq!(factor("f", Dtype::U64, most).unwrap(), (u64::MAX - 2047).to_ne_bytes());
        assert_eq!(first(Dtype::U8, 255.0).unwrap(), 255);
        for (dtype, number) in [
            (Dtype::I32, 0.5),
            (Dtype::U8, -1.0),
            (Dtype::U8, 256.0),
            (Dtype::I64, f64::NAN),
            (Dtype::I64, 2_f64.powi(63)),
            (Dtype::U64, 2_f64.powi(64)),
            (Dtype::I32, 2_f64.powi(31)),
            (Dtype::C64, 1.0),
        ] {
            assert!(first(dtype, number).is_err(), "{number} as {dtype}");
        }
    }
}
