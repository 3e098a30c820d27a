//! Reductions, element by element.

use std::cmp::Ordering;

use consort::{Dtype, F8E4m3, F8E5m2, ReduceOp};
use half::{bf16, f16};

/// The operations that a dtype has.
pub(crate) fn operations(dtype: Dtype) -> Vec<ReduceOp> {
    use ReduceOp::{Avg, BitAnd, BitOr, BitXor, Max, Min, PremulSum, Product, Sum};
    let factor = PremulSum(0.3);
    match dtype {
        Dtype::F32 | Dtype::F64 | Dtype::F16 | Dtype::Bf16 | Dtype::F8E4m3 | Dtype::F8E5m2 => {
            vec![Sum, Avg, Product, Min, Max, factor]
        }
        Dtype::C64 | Dtype::C128 => vec![Sum, Avg, Product, factor],
        Dtype::Bool => vec![Sum, Product, Min, Max, BitAnd, BitOr, BitXor],
        _ => vec![Sum, Avg, Product, Min, Max, BitAnd, BitOr, BitXor],
    }
}

/// The combination of these buffers, in their order.
pub(crate) fn combine(dtype: Dtype, op: ReduceOp, buffers: &[Vec<u8>]) -> Vec<u8> {
    macro_rules! integer {
        ($integer:ty) => {
            each(
                buffers,
                |bytes| i128::from(<$integer>::from_le_bytes(bytes)),
                |all| (integer(op, all) as $integer).to_le_bytes(),
            )
        };
    }
    match dtype {
        Dtype::F32 => each(buffers, f32::from_le_bytes, |all| single(op, all).to_le_bytes()),
        Dtype::F64 => each(buffers, f64::from_le_bytes, |all| double(op, all).to_le_bytes()),
        Dtype::F16 => each(
            buffers,
            |bytes| f16::from_le_bytes(bytes).to_f32(),
            |all| canonical_half(f16::from_f32(single(op, all))).to_le_bytes(),
        ),
        Dtype::Bf16 => each(
            buffers,
            |bytes| bf16::from_le_bytes(bytes).to_f32(),
            |all| canonical_bfloat(bf16::from_f32(single(op, all))).to_le_bytes(),
        ),
        Dtype::F8E4m3 => each(
            buffers,
            |[code]| F8E4m3::from_bits(code).to_f32(),
            |all| [canonical_e4m3(F8E4m3::from_f32(single(op, all)))],
        ),
        Dtype::F8E5m2 => each(
            buffers,
            |[code]| F8E5m2::from_bits(code).to_f32(),
            |all| [canonical_e5m2(F8E5m2::from_f32(single(op, all)))],
        ),
        Dtype::I8 => integer!(i8),
        Dtype::I16 => integer!(i16),
        Dtype::I32 => integer!(i32),
        Dtype::I64 => integer!(i64),
        Dtype::U8 => integer!(u8),
        Dtype::U16 => integer!(u16),
        Dtype::U32 => integer!(u32),
        Dtype::U64 => integer!(u64),
        Dtype::Bool => each(buffers, |[byte]| byte != 0, |all| [truth(op, all).into()]),
        Dtype::C64 => each(
            buffers,
            |bytes: [u8; 8]| halves(bytes).map(f32::from_le_bytes),
            |all| joined(complex_single(op, all).map(f32::to_le_bytes)),
        ),
        Dtype::C128 => each(
            buffers,
            |bytes: [u8; 16]| halves(bytes).map(f64::from_le_bytes),
            |all| joined(complex_double(op, all).map(f64::to_le_bytes)),
        ),
    }
}

/// Combines the first elements of all buffers, then the second ones, and so on.
fn each<const N: usize, W>(
    buffers: &[Vec<u8>],
    read: impl Fn([u8; N]) -> W,
    combine: impl Fn(&[W]) -> [u8; N],
) -> Vec<u8> {
    let element = |buffer: &Vec<u8>, at: usize| read(buffer[at * N..][..N].try_into().unwrap());
    let combined = (0..buffers[0].len() / N).flat_map(|at| {
        let all: Vec<W> = buffers.iter().map(|buffer| element(buffer, at)).collect();
        combine(&all)
    });
    combined.collect()
}

/// Floating-point numbers, rounded after every rank.
macro_rules! float {
    ($name:ident, $complex:ident, $float:ident) => {
        fn $name(op: ReduceOp, all: &[$float]) -> $float {
            let fold = |join: fn($float, $float) -> $float| all.iter().copied().reduce(join);
            let least = |one: $float, other: $float| match one.total_cmp(&other) {
                _ if one.is_nan() || other.is_nan() => $float::NAN,
                Ordering::Less => one,
                _ => other,
            };
            let combined = match op {
                ReduceOp::Sum => fold(|sum, one| sum + one).unwrap(),
                ReduceOp::Avg => fold(|sum, one| sum + one).unwrap() / all.len() as $float,
                ReduceOp::Product => fold(|product, one| product * one).unwrap(),
                ReduceOp::Min => fold(least).unwrap(),
                ReduceOp::Max => -all.iter().map(|one| -one).reduce(least).unwrap(),
                ReduceOp::PremulSum(factor) => {
                    let scaled = all.iter().map(|one| one * factor as $float);
                    scaled.reduce(|sum, one| sum + one).unwrap()
                }
                _ => unreachable!("floating-point numbers have no {op}"),
            };
            if combined.is_nan() { $float::NAN } else { combined }
        }

        fn $complex(op: ReduceOp, all: &[[$float; 2]]) -> [$float; 2] {
            let parts = |part: usize| -> Vec<$float> { all.iter().map(|it| it[part]).collect() };
            let [re, im] = match op {
                ReduceOp::Product => {
                    let product =
                        all.iter().copied().reduce(|[a, b], [c, d]| [a * c - b * d, a * d + b * c]);
                    product.unwrap()
                }
                _ => [0, 1].map(|part| $name(op, &parts(part))),
            };
            [re, im].map(|part| if part.is_nan() { $float::NAN } else { part })
        }
    };
}

float!(single, complex_single, f32);
float!(double, complex_double, f64);

/// Integers of any size, of which only the lowest bits are kept afterwards.
fn integer(op: ReduceOp, all: &[i128]) -> i128 {
    let fold = |join: fn(i128, i128) -> i128| all.iter().copied().reduce(join).unwrap();
    match op {
        ReduceOp::Sum => fold(|sum, one| sum + one),
        ReduceOp::Avg => fold(|sum, one| sum + one) / all.len() as i128,
        ReduceOp::Product => fold(i128::wrapping_mul),
        ReduceOp::Min => fold(i128::min),
        ReduceOp::Max => fold(i128::max),
        ReduceOp::BitAnd => fold(|bits, one| bits & one),
        ReduceOp::BitOr => fold(|bits, one| bits | one),
        ReduceOp::BitXor => fold(|bits, one| bits ^ one),
        ReduceOp::PremulSum(_) => unreachable!("integers have no {op}"),
    }
}

fn truth(op: ReduceOp, all: &[bool]) -> bool {
    match op {
        ReduceOp::Sum | ReduceOp::Max | ReduceOp::BitOr => all.contains(&true),
        ReduceOp::Product | ReduceOp::Min | ReduceOp::BitAnd => !all.contains(&false),
        ReduceOp::BitXor => all.iter().filter(|&&one| one).count() % 2 == 1,
        ReduceOp::Avg | ReduceOp::PremulSum(_) => unreachable!("truths have no {op}"),
    }
}

fn canonical_half(number: f16) -> f16 {
    if number.is_nan() { f16::NAN } else { number }
}

fn canonical_bfloat(number: bf16) -> bf16 {
    if number.is_nan() { bf16::NAN } else { number }
}

fn canonical_e4m3(number: F8E4m3) -> u8 {
    if number.to_f32().is_nan() { 0x7f } else { number.to_bits() }
}

fn canonical_e5m2(number: F8E5m2) -> u8 {
    if number.to_f32().is_nan() { 0x7e } else { number.to_bits() }
}

fn halves<const N: usize, const HALF: usize>(bytes: [u8; N]) -> [[u8; HALF]; 2] {
    let (re, im) = bytes.split_at(HALF);
    [re.try_into().unwrap(), im.try_into().unwrap()]
}

fn joined<const N: usize, const HALF: usize>(parts: [[u8; HALF]; 2]) -> [u8; N] {
    parts.concat().try_into().unwrap()
}
