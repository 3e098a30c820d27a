//! Numbers that can be combined, one or many at a time.
//!
//! Everything is written for a number, for a register full of them, and for an array of either.

use std::array;

pub(super) trait Number: Copy {
    fn add(self, other: Self) -> Self;

    fn mul(self, other: Self) -> Self;

    /// The same, or the one NaN that stands for all others.
    ///
    /// Which NaN an addition gives depends on the order the compiler chose, and so on the length
    /// and the place of a buffer.
    fn canonical(self) -> Self;
}

/// Numbers with an order.
pub(super) trait Ordered: Number {
    /// The lower of the two. NaN if either is NaN; of two zeros the negative one.
    fn lower(self, other: Self) -> Self;

    /// The higher of the two. NaN if either is NaN; of two zeros the positive one.
    fn higher(self, other: Self) -> Self;
}

/// Numbers that have a mean.
pub(super) trait Mean: Number {
    /// A sum of as many as the world has, divided by how many these are.
    fn over(self, world: usize) -> Self;
}

/// Floating-point numbers.
pub(super) trait Real: Mean + Ordered {
    /// Multiplied by the nearest number to this factor.
    fn times(self, factor: f64) -> Self;
}

/// Numbers of bits.
pub(super) trait Bits: Copy {
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
}

impl<W: Number, const N: usize> Number for [W; N] {
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        array::from_fn(|i| self[i].add(other[i]))
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        array::from_fn(|i| self[i].mul(other[i]))
    }

    #[inline(always)]
    fn canonical(self) -> Self {
        array::from_fn(|i| self[i].canonical())
    }
}

impl<W: Ordered, const N: usize> Ordered for [W; N] {
    #[inline(always)]
    fn lower(self, other: Self) -> Self {
        array::from_fn(|i| self[i].lower(other[i]))
    }

    #[inline(always)]
    fn higher(self, other: Self) -> Self {
        array::from_fn(|i| self[i].higher(other[i]))
    }
}

impl<W: Mean, const N: usize> Mean for [W; N] {
    #[inline(always)]
    fn over(self, world: usize) -> Self {
        array::from_fn(|i| self[i].over(world))
    }
}

impl<W: Real, const N: usize> Real for [W; N] {
    #[inline(always)]
    fn times(self, factor: f64) -> Self {
        array::from_fn(|i| self[i].times(factor))
    }
}

impl<W: Bits, const N: usize> Bits for [W; N] {
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        array::from_fn(|i| self[i].and(other[i]))
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        array::from_fn(|i| self[i].or(other[i]))
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        array::from_fn(|i| self[i].xor(other[i]))
    }
}

macro_rules! floats {
    ($($float:ty)*) => {$(
        impl Number for $float {
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self + other
            }

            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self * other
            }

            #[inline(always)]
            fn canonical(self) -> Self {
                if self.is_nan() { Self::NAN } else { self }
            }
        }

        impl Ordered for $float {
            #[inline(always)]
            fn lower(self, other: Self) -> Self {
                // The two differ in bits only for NaN, which stays one under `or`, and for zeros.
                let one = if self < other { self } else { other };
                let two = if other < self { other } else { self };
                Self::from_bits(one.to_bits() | two.to_bits())
            }

            #[inline(always)]
            fn higher(self, other: Self) -> Self {
                let one = if self > other { self } else { other };
                let two = if other > self { other } else { self };
                let higher = Self::from_bits(one.to_bits() & two.to_bits());
                if self.is_nan() | other.is_nan() { Self::NAN } else { higher }
            }
        }

        impl Mean for $float {
            #[inline(always)]
            fn over(self, world: usize) -> Self {
                self / world as $float
            }
        }

        impl Real for $float {
            #[inline(always)]
            fn times(self, factor: f64) -> Self {
                self * factor as $float
            }
        }
    )*};
}

macro_rules! integers {
    ($($integer:ty)*) => {$(
        impl Number for $integer {
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }

            #[inline(always)]
            fn canonical(self) -> Self {
                self
            }
        }

        impl Ordered for $integer {
            #[inline(always)]
            fn lower(self, other: Self) -> Self {
                self.min(other)
            }

            #[inline(always)]
            fn higher(self, other: Self) -> Self {
                self.max(other)
            }
        }
    )*};
}

floats!(f32 f64);
integers!(i8 i16 i32 i64 u8 u16 u32 u64 i128);

/// The mean of 64-bit integers, whose sum needs more bits.
impl Mean for i128 {
    #[inline(always)]
    fn over(self, world: usize) -> Self {
        match i64::try_from(self) {
            Ok(sum) => Self::from(sum / world as i64),
            Err(_) => self / world as Self,
        }
    }
}

impl Bits for u8 {
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        self & other
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        self | other
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        self ^ other
    }
}
