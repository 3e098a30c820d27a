//! What a reduction should give, computed one number at a time and without any haste.

use half::{bf16, f16};

use crate::dtype::{Dtype, F8E4m3, F8E5m2, ReduceOp};

/// The bytes that a reduction of these buffers should give.
pub(super) fn expected(dtype: Dtype, op: ReduceOp, inputs: &[Vec<u8>]) -> Vec<u8> {
    let size = dtype.size();
    let elements = 0..inputs[0].len() / size;
    elements
        .flat_map(|i| {
            let column: Vec<&[u8]> =
                inputs.iter().map(|bytes| &bytes[i * size..][..size]).collect();
            match dtype {
                Dtype::Bool => truth(op, &column),
                Dtype::C64 | Dtype::C128 => complex(dtype, op, &column),
                Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => integer(true, op, &column),
                Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => integer(false, op, &column),
                _ => real(dtype, op, &column),
            }
        })
        .collect()
}

fn real(dtype: Dtype, op: ReduceOp, column: &[&[u8]]) -> Vec<u8> {
    let numbers: Vec<f64> = column.iter().map(|bytes| decode(dtype, bytes)).collect();
    encode(dtype, reduced(rounding(dtype), op, &numbers))
}

/// In `f64`, rounded after every step to the precision that the dtype is computed in: for `f32`
/// this gives what `f32` gives.
fn reduced(round: fn(f64) -> f64, op: ReduceOp, numbers: &[f64]) -> f64 {
    let sum = |one: &[f64]| one.iter().copied().reduce(|a, b| round(a + b)).expect("a rank");
    match op {
        ReduceOp::Sum => sum(numbers),
        ReduceOp::Avg => round(sum(numbers) / numbers.len() as f64),
        ReduceOp::Product => numbers.iter().copied().reduce(|a, b| round(a * b)).expect("a rank"),
        ReduceOp::PremulSum(factor) => {
            let scaled: Vec<f64> = numbers.iter().map(|one| round(round(factor) * one)).collect();
            sum(&scaled)
        }
        ReduceOp::Min | ReduceOp::Max if numbers.iter().any(|one| one.is_nan()) => f64::NAN,
        ReduceOp::Min => numbers.iter().copied().min_by(f64::total_cmp).expect("a rank"),
        ReduceOp::Max => numbers.iter().copied().max_by(f64::total_cmp).expect("a rank"),
        _ => panic!("real numbers have no {op}"),
    }
}

fn complex(dtype: Dtype, op: ReduceOp, column: &[&[u8]]) -> Vec<u8> {
    let part = if dtype == Dtype::C64 { Dtype::F32 } else { Dtype::F64 };
    let round = rounding(part);
    let numbers: Vec<(f64, f64)> = column
        .iter()
        .map(|bytes| bytes.split_at(part.size()))
        .map(|(re, im)| (decode(part, re), decode(part, im)))
        .collect();
    let (re, im) = if op == ReduceOp::Product {
        let product = |(a, b): (f64, f64), (c, d): (f64, f64)| {
            (round(round(a * c) - round(b * d)), round(round(a * d) + round(b * c)))
        };
        numbers.into_iter().reduce(product).expect("a rank")
    } else {
        let (re, im): (Vec<f64>, Vec<f64>) = numbers.into_iter().unzip();
        (reduced(round, op, &re), reduced(round, op, &im))
    };
    [encode(part, re), encode(part, im)].concat()
}

fn integer(signed: bool, op: ReduceOp, column: &[&[u8]]) -> Vec<u8> {
    let numbers = column.iter().map(|bytes| {
        let sign = if signed && bytes.last().expect("a byte") & 0x80 != 0 { 0xff } else { 0 };
        let mut wide = [sign; 16];
        wide[..bytes.len()].copy_from_slice(bytes);
        i128::from_le_bytes(wide)
    });
    let result = match op {
        ReduceOp::Sum => numbers.sum(),
        ReduceOp::Avg => numbers.sum::<i128>() / column.len() as i128,
        ReduceOp::Product => numbers.reduce(i128::wrapping_mul).expect("a rank"),
        ReduceOp::Min => numbers.min().expect("a rank"),
        ReduceOp::Max => numbers.max().expect("a rank"),
        ReduceOp::BitAnd => numbers.reduce(|a, b| a & b).expect("a rank"),
        ReduceOp::BitOr => numbers.reduce(|a, b| a | b).expect("a rank"),
        ReduceOp::BitXor => numbers.reduce(|a, b| a ^ b).expect("a rank"),
        ReduceOp::PremulSum(_) => panic!("integers have no {op}"),
    };
    result.to_le_bytes()[..column[0].len()].to_vec()
}

fn truth(op: ReduceOp, column: &[&[u8]]) -> Vec<u8> {
    let mut truths = column.iter().map(|bytes| bytes[0] != 0);
    let result = match op {
        ReduceOp::Sum | ReduceOp::Max | ReduceOp::BitOr => truths.any(|truth| truth),
        ReduceOp::Product | ReduceOp::Min | ReduceOp::BitAnd => truths.all(|truth| truth),
        ReduceOp::BitXor => truths.filter(|truth| *truth).count() % 2 == 1,
        ReduceOp::Avg | ReduceOp::PremulSum(_) => panic!("truths have no {op}"),
    };
    vec![u8::from(result)]
}

fn rounding(dtype: Dtype) -> fn(f64) -> f64 {
    match dtype {
        Dtype::F64 => |number| number,
        _ => |number| f64::from(number as f32),
    }
}

fn decode(dtype: Dtype, bytes: &[u8]) -> f64 {
    match dtype {
        Dtype::F32 => f32::from_le_bytes(bytes.try_into().unwrap()).into(),
        Dtype::F64 => f64::from_le_bytes(bytes.try_into().unwrap()),
        Dtype::F16 => f16::from_le_bytes(bytes.try_into().unwrap()).into(),
        Dtype::Bf16 => bf16::from_le_bytes(bytes.try_into().unwrap()).into(),
        Dtype::F8E4m3 => F8E4m3::from_bits(bytes[0]).to_f32().into(),
        Dtype::F8E5m2 => F8E5m2::from_bits(bytes[0]).to_f32().into(),
        _ => panic!("{dtype} is no real number"),
    }
}

/// The number is one that `f32` can hold, for all but `f64`.
fn encode(dtype: Dtype, number: f64) -> Vec<u8> {
    let single = number as f32;
    match dtype {
        Dtype::F32 if number.is_nan() => 0x7fc0_0000_u32.to_le_bytes().to_vec(),
        Dtype::F64 if number.is_nan() => 0x7ff8_0000_0000_0000_u64.to_le_bytes().to_vec(),
        Dtype::F16 if number.is_nan() => 0x7e00_u16.to_le_bytes().to_vec(),
        Dtype::Bf16 if number.is_nan() => 0x7fc0_u16.to_le_bytes().to_vec(),
        Dtype::F8E5m2 if number.is_nan() => vec![0x7e],
        Dtype::F32 => single.to_le_bytes().to_vec(),
        Dtype::F64 => number.to_le_bytes().to_vec(),
        Dtype::F16 => f16::from_f32(single).to_le_bytes().to_vec(),
        Dtype::Bf16 => bf16::from_f32(single).to_le_bytes().to_vec(),
        Dtype::F8E5m2 => vec![F8E5m2::from_f32(single).to_bits()],
        Dtype::F8E4m3 => match F8E4m3::from_f32(single).to_bits() {
            0xff => vec![0x7f],
            code => vec![code],
        },
        _ => panic!("{dtype} is no real number"),
    }
}
