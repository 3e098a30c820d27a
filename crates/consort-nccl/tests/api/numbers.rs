//! Numbers of every dtype, and what becomes of them, reckoned in the plainest way.

use consort::{Dtype, F8E4m3, F8E5m2, ReduceOp, bf16, f16};

/// The dtypes that NCCL has.
pub(crate) const NUMBERS: [Dtype; 12] = [
    Dtype::I8,
    Dtype::U8,
    Dtype::I32,
    Dtype::U32,
    Dtype::I64,
    Dtype::U64,
    Dtype::F16,
    Dtype::F32,
    Dtype::F64,
    Dtype::Bf16,
    Dtype::F8E4m3,
    Dtype::F8E5m2,
];

/// Whether its numbers are integers.
pub(crate) fn is_whole(dtype: Dtype) -> bool {
    use Dtype::{I8, I32, I64, U8, U32, U64};
    matches!(dtype, I8 | U8 | I32 | U32 | I64 | U64)
}

/// A rank's number at a place: so small that every dtype has all sums and products of four ranks.
pub(crate) fn number(rank: u32, at: usize) -> f64 {
    1.0 + ((rank as usize * 7 + at * 3 + at / 5) % 2) as f64
}

/// The bytes of numbers.
pub(crate) fn encode(dtype: Dtype, numbers: impl Iterator<Item = f64>) -> Vec<u8> {
    numbers.flat_map(|number| one(dtype, number)).collect()
}

fn one(dtype: Dtype, number: f64) -> Vec<u8> {
    match dtype {
        Dtype::I8 => (number as i8).to_ne_bytes().to_vec(),
        Dtype::U8 | Dtype::Bool => (number as u8).to_ne_bytes().to_vec(),
        Dtype::I32 => (number as i32).to_ne_bytes().to_vec(),
        Dtype::U32 => (number as u32).to_ne_bytes().to_vec(),
        Dtype::I64 => (number as i64).to_ne_bytes().to_vec(),
        Dtype::U64 => (number as u64).to_ne_bytes().to_vec(),
        Dtype::F16 => f16::from_f64(number).to_ne_bytes().to_vec(),
        Dtype::F32 => (number as f32).to_ne_bytes().to_vec(),
        Dtype::F64 => number.to_ne_bytes().to_vec(),
        Dtype::Bf16 => bf16::from_f64(number).to_ne_bytes().to_vec(),
        Dtype::F8E4m3 => vec![F8E4m3::from_f32(number as f32).to_bits()],
        Dtype::F8E5m2 => vec![F8E5m2::from_f32(number as f32).to_bits()],
        dtype => panic!("NCCL has no {dtype}"),
    }
}

/// What becomes of all ranks' numbers at a place. Averages of integers are cut off when they are encoded.
pub(crate) fn combined(world: u32, at: usize, op: ReduceOp) -> f64 {
    let all = (0..world).map(|rank| number(rank, at));
    match op {
        ReduceOp::Sum => all.sum(),
        ReduceOp::Product => all.product(),
        ReduceOp::Max => all.fold(f64::MIN, f64::max),
        ReduceOp::Min => all.fold(f64::MAX, f64::min),
        ReduceOp::Avg => all.sum::<f64>() / f64::from(world),
        ReduceOp::PremulSum(factor) => all.map(|number| number * factor).sum(),
        op => panic!("NCCL has no {op}"),
    }
}

/// Bytes that tell whose they are, and where.
pub(crate) fn coded(rank: u32, len: usize) -> Vec<u8> {
    (0..len).map(|at| (rank as usize * 59 + at * 7 + at / 251) as u8).collect()
}
