//! Registers of AVX2, which most x86 servers have had since 2013, with the conversions of F16C.
//!
//! A register type is made only by [`Lane::widen`], whose caller knows that the instructions are
//! there. So to have one is proof that they are.
//!
//! [`Lane::widen`]: super::lane::Lane::widen

mod float;
mod integer;
mod small;
mod sweep;

pub(super) use float::{F32x8, F64x4};
pub(super) use integer::{I8x32, I16x16, I32x8, I64x4, Truths, U8x32, U16x16, U32x8, U64x4};
pub(super) use small::{Bf16x16, E4m3x16, E5m2x16, F16x16};
pub(super) use sweep::{numbers, registers};

/// Whether the processor has the instructions.
pub(super) fn is_here() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c")
}

/// Methods of a register type, of two registers, or of one and a number.
macro_rules! methods {
    ($register:ty: $($name:ident($one:ident, $other:ident) $body:block)*) => {$(
        #[inline(always)]
        fn $name(self, other: Self) -> Self {
            #[inline]
            #[target_feature(enable = "avx2")]
            fn inner($one: $register, $other: $register) -> $register $body
            // SAFETY: there is such a register, so there are the instructions.
            Self(unsafe { inner(self.0, other.0) })
        }
    )*};
    ($register:ty: $name:ident($one:ident, $number:ident: $type:ty) $body:block) => {
        #[inline(always)]
        fn $name(self, number: $type) -> Self {
            #[inline]
            #[target_feature(enable = "avx2")]
            fn inner($one: $register, $number: $type) -> $register $body
            // SAFETY: there is such a register, so there are the instructions.
            Self(unsafe { inner(self.0, number) })
        }
    };
    ($register:ty: $name:ident($one:ident) $body:block) => {
        #[inline(always)]
        fn $name(self) -> Self {
            #[inline]
            #[target_feature(enable = "avx2")]
            fn inner($one: $register) -> $register $body
            // SAFETY: there is such a register, so there are the instructions.
            Self(unsafe { inner(self.0) })
        }
    };
}

/// A register that is combined as it is stored.
macro_rules! as_it_is {
    ($name:ident, $register:ty, $element:ty) => {
        impl Lane for $name {
            type Stored = $register;
            type Wide = Self;

            const ELEMENT: usize = size_of::<$element>();

            #[inline(always)]
            unsafe fn widen(stored: $register) -> Self {
                Self(stored)
            }

            #[inline(always)]
            fn narrow(wide: Self) -> $register {
                wide.0
            }
        }
    };
}

use {as_it_is, methods};
