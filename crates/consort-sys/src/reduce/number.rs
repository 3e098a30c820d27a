//! Numbers that can be combined, one or many at a time.
//!
//! Everything is written for a number and for a register full of them.

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

/// Numbers that need two registers while they are combined.
impl<W: Number> Number for [W; 2] {
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        [self[0].add(other[0]), self[1].add(other[1])]
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        [self[0].mul(other[0]), self[1].mul(other[1])]
    }

    #[inline(always)]
    fn canonical(self) -> Self {
        [self[0].canonical(), self[1].canonical()]
    }
}

impl<W: Ordered> Ordered for [W; 2] {
    #[inline(always)]
    fn lower(self, other: Self) -> Self {
        [self[0].lower(other[0]), self[1].lower(other[1])]
    }

    #[inline(always)]
    fn higher(self, other: Self) -> Self {
        [self[0].higher(other[0]), self[1].higher(other[1])]
    }
}

impl<W: Mean> Mean for [W; 2] {
    #[inline(always)]
    fn over(self, world: usize) -> Self {
        [self[0].over(world), self[1].over(world)]
    }
}

impl<W: Real> Real for [W; 2] {
    #[inline(always)]
    fn times(self, factor: f64) -> Self {
        [self[0].times(factor), self[1].times(factor)]
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
