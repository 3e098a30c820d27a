//! How numbers lie in memory, and what they are while they are combined.

use half::{bf16, f16};

use super::number::Number;
use crate::dtype::{Complex32, Complex64, F8E4m3, F8E5m2, Small};

/// A number, or a register full of numbers, of one dtype.
pub(super) trait Lane {
    /// In memory. Every bit pattern is a value.
    type Stored: Copy;

    /// While it is combined.
    type Wide: Copy;

    /// How many bytes one number has in memory.
    #[cfg(target_arch = "x86_64")]
    const ELEMENT: usize = size_of::<Self::Stored>();

    /// # Safety
    /// The processor must have the instructions that the lane is written for.
    unsafe fn widen(stored: Self::Stored) -> Self::Wide;

    fn narrow(wide: Self::Wide) -> Self::Stored;
}

macro_rules! as_they_are {
    ($($number:ty)*) => {$(
        impl Lane for $number {
            type Stored = Self;
            type Wide = Self;

            #[inline(always)]
            unsafe fn widen(stored: Self) -> Self {
                stored
            }

            #[inline(always)]
            fn narrow(wide: Self) -> Self {
                wide
            }
        }
    )*};
}

as_they_are!(f32 f64 i8 i16 i32 i64 u8 u16 u32 u64 Complex32 Complex64);

/// Combined as `f32` and rounded once.
macro_rules! small_floats {
    ($($number:ty: $bits:ty, $format:ty;)*) => {$(
        impl Lane for $number {
            type Stored = $bits;
            type Wide = f32;

            #[inline(always)]
            unsafe fn widen(stored: $bits) -> f32 {
                <$format>::widen(stored.into())
            }

            #[inline(always)]
            fn narrow(wide: f32) -> $bits {
                <$format>::narrow_canonical(wide) as $bits
            }
        }
    )*};
}

small_floats! {
    f16: u16, Small<5, 10, true>;
    bf16: u16, Small<8, 7, true>;
    F8E4m3: u8, Small<4, 3, false>;
    F8E5m2: u8, Small<5, 2, true>;
}

/// A byte that is true or false: 1 or 0 once it was read.
pub(super) struct Truth;

impl Lane for Truth {
    type Stored = u8;
    type Wide = u8;

    #[inline(always)]
    unsafe fn widen(stored: u8) -> u8 {
        stored.min(1)
    }

    #[inline(always)]
    fn narrow(wide: u8) -> u8 {
        wide
    }
}

/// An integer while a mean is made, in a type that holds every sum of them exactly.
pub(super) struct Summand<I>(I);

macro_rules! summands {
    ($($integer:ty: $wide:ty as $way:ty),*) => {$(
        impl Lane for Summand<$integer> {
            type Stored = $integer;
            type Wide = $wide;

            #[inline(always)]
            unsafe fn widen(stored: $integer) -> $wide {
                stored.into()
            }

            #[inline(always)]
            fn narrow(wide: $wide) -> $integer {
                wide as $way as $integer
            }
        }
    )*};
}

// Sums of integers are exact in `f64` below 2^53, which two million ranks with 32 bits do not
// exceed. Nor is a quotient of such numbers ever rounded up to an integer: cutting it off gives
// what an integer division gives.
summands! {
    i8: f64 as i32, i16: f64 as i32, i32: f64 as i32, u8: f64 as i32, u16: f64 as i32,
    u32: f64 as u32, i64: i128 as i64, u64: i128 as u64
}

macro_rules! complex {
    ($($complex:ident)*) => {$(
        impl Number for $complex {
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                Self::new(self.re + other.re, self.im + other.im)
            }

            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                let re = self.re * other.re - self.im * other.im;
                Self::new(re, self.re * other.im + self.im * other.re)
            }

            #[inline(always)]
            fn canonical(self) -> Self {
                Self::new(self.re.canonical(), self.im.canonical())
            }
        }
    )*};
}

complex!(Complex32 Complex64);
