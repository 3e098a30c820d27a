//! Numbers multiplied by a factor of their own type.
//!
//! This is the first half of a premultiplied sum. Each rank has a factor of its own, which consort's own
//! [`PremulSum`](consort::ReduceOp::PremulSum) does not allow, and integers have one too. As in NCCL, the product
//! is a number of the type: floating-point numbers are rounded to it, integers wrap around.

use consort::{Dtype, Element, F8E4m3, F8E5m2, Source, bf16, f16};

/// A factor of any of the types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Factor {
    dtype: Dtype,
    bytes: Vec<u8>,
}

impl Factor {
    /// The bytes of a number of this type.
    ///
    /// # Panics
    /// When they are more or fewer.
    pub(crate) fn new(dtype: Dtype, bytes: Source<'_>) -> Self {
        assert_eq!(bytes.len(), dtype.size(), "a factor is one number");
        Self { dtype, bytes: bytes.to_vec() }
    }

    /// Whole numbers of its type, each multiplied by it.
    pub(crate) fn times(&self, numbers: Source<'_>) -> Vec<u8> {
        match self.dtype {
            Dtype::I8 => self.each(numbers, i8::wrapping_mul),
            Dtype::U8 => self.each(numbers, u8::wrapping_mul),
            Dtype::I16 => self.each(numbers, i16::wrapping_mul),
            Dtype::U16 => self.each(numbers, u16::wrapping_mul),
            Dtype::I32 => self.each(numbers, i32::wrapping_mul),
            Dtype::U32 => self.each(numbers, u32::wrapping_mul),
            Dtype::I64 => self.each(numbers, i64::wrapping_mul),
            Dtype::U64 => self.each(numbers, u64::wrapping_mul),
            Dtype::F32 => self.each(numbers, |a: f32, b| a * b),
            Dtype::F64 => self.each(numbers, |a: f64, b| a * b),
            Dtype::F16 => self.each(numbers, |a: f16, b| f16::from_f32(a.to_f32() * b.to_f32())),
            Dtype::Bf16 => self.each(numbers, |a: bf16, b| bf16::from_f32(a.to_f32() * b.to_f32())),
            Dtype::F8E4m3 => {
                self.each(numbers, |a: F8E4m3, b| F8E4m3::from_f32(a.to_f32() * b.to_f32()))
            }
            Dtype::F8E5m2 => {
                self.each(numbers, |a: F8E5m2, b| F8E5m2::from_f32(a.to_f32() * b.to_f32()))
            }
            Dtype::Bool | Dtype::C64 | Dtype::C128 => unreachable!("C has no such type"),
        }
    }

    fn each<T: Element>(&self, numbers: Source<'_>, times: impl Fn(T, T) -> T) -> Vec<u8> {
        let mut factor = [T::default()];
        T::target(&mut factor).copy_from((&self.bytes[..]).into());
        let mut values = vec![T::default(); numbers.len() / size_of::<T>()];
        T::target(&mut values).copy_from(numbers);
        values.iter_mut().for_each(|value| *value = times(*value, factor[0]));
        T::source(&values).to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product<T: Element>(numbers: &[T], factor: T) -> Vec<u8> {
        Factor::new(T::DTYPE, T::source(&[factor])).times(T::source(numbers))
    }

    fn bytes<T: Element>(numbers: &[T]) -> Vec<u8> {
        T::source(numbers).to_vec()
    }

    #[test]
    fn products_are_numbers_of_the_type() {
        assert_eq!(product(&[100_i8, -3], 2), bytes(&[-56_i8, -6]));
        assert_eq!(product(&[u64::MAX, 5], 3), bytes(&[u64::MAX - 2, 15]));
        assert_eq!(product(&[1.5_f32, -2.0], 0.5), bytes(&[0.75_f32, -1.0]));
        assert_eq!(product(&[1e200_f64], 1e200), bytes(&[f64::INFINITY]));
        let (a, b) = (f16::from_f32(1.001), f16::from_f32(3.0));
        assert_eq!(product(&[a], b), bytes(&[f16::from_f32(a.to_f32() * 3.0)]));
        assert_eq!(
            product(&[bf16::from_f32(7.0)], bf16::from_f32(0.25)),
            bytes(&[bf16::from_f32(1.75)])
        );
        assert_eq!(
            product(&[F8E4m3::from_f32(3.0)], F8E4m3::from_f32(2.0)),
            bytes(&[F8E4m3::from_f32(6.0)])
        );
        assert_eq!(
            product(&[F8E5m2::from_f32(3.0)], F8E5m2::from_f32(2.0)),
            bytes(&[F8E5m2::from_f32(6.0)])
        );
        assert!(product::<u32>(&[], 2).is_empty());
    }
}
