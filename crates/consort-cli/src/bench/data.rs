//! What the buffers of a point hold, and what they have to hold afterwards.
//!
//! Element i of rank r is a small number made from both, so that a wrong rank, a wrong place and a
//! rank counted twice all show, and sums stay exact. The peers use the same.

use consort_sys::dtype::{Dtype, F8E4m3, F8E5m2, ReduceOp};
use half::{bf16, f16};

use super::op::Op;
use super::point::Point;

/// A point as one of its ranks sees it.
#[derive(Clone, Debug)]
pub(crate) struct Data {
    pub(crate) point: Point,
    pub(crate) rank: usize,
    pub(crate) ranks: usize,
}

impl Data {
    /// How many bytes one rank's share of all is.
    pub(crate) fn share(&self) -> usize {
        if self.point.op.is_shared_out() { self.point.bytes / self.ranks } else { self.point.bytes }
    }

    /// How many bytes this rank contributes.
    pub(crate) fn contributed(&self) -> usize {
        match self.point.op {
            Op::AllGather | Op::Gather => self.share(),
            Op::Broadcast | Op::Scatter if self.rank != 0 => 0,
            _ => self.point.bytes,
        }
    }

    /// How many bytes this rank receives.
    pub(crate) fn received(&self) -> usize {
        match self.point.op {
            Op::ReduceScatter | Op::Scatter => self.share(),
            Op::Reduce | Op::Gather if self.rank != 0 => 0,
            _ => self.point.bytes,
        }
    }

    /// Writes this rank's contribution.
    pub(crate) fn fill(&self, contribution: &mut [u8]) {
        let dtype = self.point.dtype;
        let first = contribution.len().min(PERIOD * dtype.size());
        for (i, element) in contribution[..first].chunks_exact_mut(dtype.size()).enumerate() {
            put(dtype, self.value(self.rank, i), element);
        }
        let mut done = first;
        while done > 0 && done < contribution.len() {
            let more = done.min(contribution.len() - done);
            contribution.copy_within(..more, done);
            done += more;
        }
    }

    /// Whether this is what the call has to give. Looks at every element of a small result, and at
    /// tens of thousands of a large one.
    pub(crate) fn is_right(&self, result: &[u8]) -> bool {
        let dtype = self.point.dtype;
        let count = result.len() / dtype.size();
        let looks = (0..count).step_by(count / LOOKS + 1).chain(count.checked_sub(1));
        result.len() == self.received()
            && looks.into_iter().all(|i| {
                let found = get(dtype, &result[i * dtype.size()..]);
                let expected = self.expected(i);
                (found - expected).abs() <= tolerance(dtype) * expected.abs()
            })
    }

    fn expected(&self, i: usize) -> f64 {
        let share = self.share() / self.point.dtype.size();
        let mine = self.rank * share;
        match self.point.op {
            Op::AllReduce | Op::Reduce => self.combined(i),
            Op::ReduceScatter => self.combined(mine + i),
            Op::Broadcast => self.value(0, i),
            Op::Scatter => self.value(0, mine + i),
            Op::AllToAll => self.value(i / share, mine + i % share),
            Op::SendRecv => self.value((self.rank + self.ranks - 1) % self.ranks, i),
            Op::AllGather | Op::Gather | Op::Barrier => self.value(i / share, i % share),
        }
    }

    fn value(&self, rank: usize, i: usize) -> f64 {
        let both = rank * 7 + i % PERIOD;
        match (self.point.dtype, self.point.reduce) {
            (Dtype::Bool, _) => (both % 2) as f64,
            (_, ReduceOp::Product) => {
                if both.is_multiple_of(8) {
                    2.0
                } else {
                    1.0
                }
            }
            _ => (both % VALUES) as f64,
        }
    }

    fn combined(&self, i: usize) -> f64 {
        let values = (0..self.ranks).map(|rank| self.value(rank, i));
        let bits = |combine: fn(i64, i64) -> i64| {
            let all = (0..self.ranks).map(|rank| self.value(rank, i) as i64).reduce(combine);
            all.unwrap_or(0) as f64
        };
        let all = match self.point.reduce {
            ReduceOp::Sum => values.sum(),
            ReduceOp::Avg => values.sum::<f64>() / self.ranks as f64,
            ReduceOp::Product => values.product(),
            ReduceOp::Min => values.fold(f64::INFINITY, f64::min),
            ReduceOp::Max => values.fold(0.0, f64::max),
            ReduceOp::BitAnd => bits(|a, b| a & b),
            ReduceOp::BitOr => bits(|a, b| a | b),
            ReduceOp::BitXor => bits(|a, b| a ^ b),
            ReduceOp::PremulSum(factor) => values.sum::<f64>() * factor,
        };
        match self.point.dtype {
            Dtype::Bool => all.min(1.0),
            dtype if is_integer(dtype) => all.trunc(),
            _ => all,
        }
    }
}

fn is_integer(dtype: Dtype) -> bool {
    use Dtype::{I8, I16, I32, I64, U8, U16, U32, U64};
    matches!(dtype, I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64)
}

/// Writes a small number as an element; of complex ones, the real part.
fn put(dtype: Dtype, number: f64, element: &mut [u8]) {
    let small = number as f32;
    let whole = number as i64;
    element.fill(0);
    let mut write = |bytes: &[u8]| element[..bytes.len()].copy_from_slice(bytes);
    match dtype {
        Dtype::F32 | Dtype::C64 => write(&small.to_ne_bytes()),
        Dtype::F64 | Dtype::C128 => write(&number.to_ne_bytes()),
        Dtype::F16 => write(&f16::from_f32(small).to_ne_bytes()),
        Dtype::Bf16 => write(&bf16::from_f32(small).to_ne_bytes()),
        Dtype::F8E4m3 => write(&[F8E4m3::from_f32(small).to_bits()]),
        Dtype::F8E5m2 => write(&[F8E5m2::from_f32(small).to_bits()]),
        Dtype::I8 | Dtype::U8 | Dtype::Bool => write(&(whole as i8).to_ne_bytes()),
        Dtype::I16 | Dtype::U16 => write(&(whole as i16).to_ne_bytes()),
        Dtype::I32 | Dtype::U32 => write(&(whole as i32).to_ne_bytes()),
        Dtype::I64 | Dtype::U64 => write(&whole.to_ne_bytes()),
    }
}

/// The element that these bytes begin with.
fn get(dtype: Dtype, bytes: &[u8]) -> f64 {
    match dtype {
        Dtype::F32 | Dtype::C64 => f32::from_ne_bytes(first(bytes)).into(),
        Dtype::F64 | Dtype::C128 => f64::from_ne_bytes(first(bytes)),
        Dtype::F16 => f16::from_ne_bytes(first(bytes)).into(),
        Dtype::Bf16 => bf16::from_ne_bytes(first(bytes)).into(),
        Dtype::F8E4m3 => F8E4m3::from_bits(bytes[0]).to_f32().into(),
        Dtype::F8E5m2 => F8E5m2::from_bits(bytes[0]).to_f32().into(),
        Dtype::I8 => i8::from_ne_bytes(first(bytes)).into(),
        Dtype::I16 => i16::from_ne_bytes(first(bytes)).into(),
        Dtype::I32 => i32::from_ne_bytes(first(bytes)).into(),
        Dtype::I64 => i64::from_ne_bytes(first(bytes)) as f64,
        Dtype::U8 | Dtype::Bool => bytes[0].into(),
        Dtype::U16 => u16::from_ne_bytes(first(bytes)).into(),
        Dtype::U32 => u32::from_ne_bytes(first(bytes)).into(),
        Dtype::U64 => u64::from_ne_bytes(first(bytes)) as f64,
    }
}

fn first<const N: usize>(bytes: &[u8]) -> [u8; N] {
    *bytes.first_chunk().expect("there is a whole element")
}

/// How far a sum of a few small numbers may be from the exact one, in parts of it.
fn tolerance(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F8E5m2 => 1.0 / 8.0,
        Dtype::F8E4m3 => 1.0 / 16.0,
        Dtype::Bf16 => 1.0 / 256.0,
        Dtype::F16 => 1.0 / 2048.0,
        Dtype::F32 | Dtype::C64 => 1e-6,
        Dtype::F64 | Dtype::C128 => 1e-14,
        _ => 0.0,
    }
}

const VALUES: usize = 5;

/// After how many elements the numbers repeat: a prime, so that no shift by a power of two hides.
const PERIOD: usize = 1021;

const LOOKS: usize = 20_000;

#[cfg(test)]
mod tests;
