//! Numbers to test with.

use half::{bf16, f16};

use crate::dtype::{Dtype, F8E4m3, F8E5m2};

/// A stream of numbers that is the same in every run.
pub(super) struct Values {
    state: u64,
}

impl Values {
    pub(super) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The bytes of so many elements.
    pub(super) fn of(&mut self, dtype: Dtype, count: usize) -> Vec<u8> {
        (0..count).flat_map(|_| self.element(dtype)).collect()
    }

    /// Mostly an everyday number, now and then an extreme one or any bits at all.
    fn element(&mut self, dtype: Dtype) -> Vec<u8> {
        match dtype {
            Dtype::C64 => [self.element(Dtype::F32), self.element(Dtype::F32)].concat(),
            Dtype::C128 => [self.element(Dtype::F64), self.element(Dtype::F64)].concat(),
            _ => match self.next() % 32 {
                0..2 => self.extreme(dtype),
                2..4 => self.bits(dtype),
                _ => self.everyday(dtype),
            },
        }
    }

    fn everyday(&mut self, dtype: Dtype) -> Vec<u8> {
        let number = (self.next() % 4001) as f64 / 500.0 - 4.0;
        match dtype {
            Dtype::F32 => (number as f32).to_le_bytes().to_vec(),
            Dtype::F64 => number.to_le_bytes().to_vec(),
            Dtype::F16 => f16::from_f64(number).to_le_bytes().to_vec(),
            Dtype::Bf16 => bf16::from_f64(number).to_le_bytes().to_vec(),
            Dtype::F8E4m3 => vec![F8E4m3::from_f32(number as f32).to_bits()],
            Dtype::F8E5m2 => vec![F8E5m2::from_f32(number as f32).to_bits()],
            Dtype::Bool => vec![(self.next() % 2) as u8],
            _ => self.bits(dtype),
        }
    }

    fn bits(&mut self, dtype: Dtype) -> Vec<u8> {
        self.next().to_le_bytes()[..dtype.size()].to_vec()
    }

    /// For every format there is a zero of either sign, a least and a greatest number, infinity and
    /// NaN among these, or their counterparts for integers.
    fn extreme(&mut self, dtype: Dtype) -> Vec<u8> {
        let bits = 8 * dtype.size() as u32;
        let mantissa = match dtype {
            Dtype::F32 => 23,
            Dtype::F64 => 52,
            Dtype::F16 => 10,
            Dtype::Bf16 => 7,
            Dtype::F8E4m3 => 3,
            Dtype::F8E5m2 => 2,
            _ => bits - 2,
        };
        let sign = 1_u64 << (bits - 1);
        let infinity = (sign - 1) >> mantissa << mantissa;
        let magnitudes = [0, 1, 1 << mantissa, infinity - 1, infinity, infinity + 1, sign - 1];
        let magnitude = magnitudes[(self.next() % 7) as usize];
        let signed = magnitude | ((self.next() % 2) << (bits - 1));
        signed.to_le_bytes()[..dtype.size()].to_vec()
    }

    /// The generator known as SplitMix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// Two buffers in which every code of 8 bits meets every other, or every code of 16 bits one that
/// is chosen by chance.
pub(super) fn pairs(dtype: Dtype) -> Vec<Vec<u8>> {
    if dtype.size() == 1 {
        let codes = || 0..=u8::MAX;
        let one = codes().flat_map(|code| codes().map(move |_| code)).collect();
        return vec![one, codes().flat_map(|_| codes()).collect()];
    }
    let mut chance = Values::new(1);
    let one = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    vec![one, (0..=u16::MAX).flat_map(|_| chance.bits(dtype)).collect()]
}
