//! Integers and truths.

use std::arch::x86_64::*;

use super::super::lane::Lane;
use super::super::number::{Bits, Number, Ordered};
use super::{as_it_is, methods};

macro_rules! integers {
    ($($name:ident, $number:ty: $add:ident $mul:ident $min:ident $max:ident;)*) => {$(
        #[doc = concat!("As many `", stringify!($number), "` as a register has room for.")]
        #[derive(Clone, Copy)]
        pub(in super::super) struct $name(__m256i);

        as_it_is!($name, __m256i, $number);

        impl Number for $name {
            methods! { __m256i:
                add(one, other) { $add(one, other) }
                mul(one, other) { $mul(one, other) }
            }

            #[inline(always)]
            fn canonical(self) -> Self {
                self
            }
        }

        impl Ordered for $name {
            methods! { __m256i:
                lower(one, other) { $min(one, other) }
                higher(one, other) { $max(one, other) }
            }
        }
    )*};
}

integers! {
    I8x32, i8: _mm256_add_epi8 mul_8 _mm256_min_epi8 _mm256_max_epi8;
    I16x16, i16: _mm256_add_epi16 _mm256_mullo_epi16 _mm256_min_epi16 _mm256_max_epi16;
    I32x8, i32: _mm256_add_epi32 _mm256_mullo_epi32 _mm256_min_epi32 _mm256_max_epi32;
    I64x4, i64: _mm256_add_epi64 mul_64 min_i64 max_i64;
    U8x32, u8: _mm256_add_epi8 mul_8 _mm256_min_epu8 _mm256_max_epu8;
    U16x16, u16: _mm256_add_epi16 _mm256_mullo_epi16 _mm256_min_epu16 _mm256_max_epu16;
    U32x8, u32: _mm256_add_epi32 _mm256_mullo_epi32 _mm256_min_epu32 _mm256_max_epu32;
    U64x4, u64: _mm256_add_epi64 mul_64 min_u64 max_u64;
}

impl Bits for U8x32 {
    methods! { __m256i:
        and(one, other) { _mm256_and_si256(one, other) }
        or(one, other) { _mm256_or_si256(one, other) }
        xor(one, other) { _mm256_xor_si256(one, other) }
    }
}

/// Thirty-two bytes that are true or false: 1 or 0 once they were read.
pub(in super::super) struct Truths;

impl Lane for Truths {
    type Stored = __m256i;
    type Wide = U8x32;

    const ELEMENT: usize = 1;

    #[inline(always)]
    unsafe fn widen(stored: __m256i) -> U8x32 {
        #[inline]
        #[target_feature(enable = "avx2")]
        fn at_most_1(bytes: __m256i) -> __m256i {
            _mm256_min_epu8(bytes, _mm256_set1_epi8(1))
        }
        // SAFETY: the caller knows that there are the instructions.
        U8x32(unsafe { at_most_1(stored) })
    }

    #[inline(always)]
    fn narrow(wide: U8x32) -> __m256i {
        wide.0
    }
}

/// There are products of 16 bits only: those of the even bytes, and those of the odd ones, whose
/// lower half is moved up.
#[inline]
#[target_feature(enable = "avx2")]
fn mul_8(one: __m256i, other: __m256i) -> __m256i {
    let even = _mm256_mullo_epi16(one, other);
    let odd = _mm256_mullo_epi16(_mm256_srli_epi16::<8>(one), _mm256_srli_epi16::<8>(other));
    let lower = _mm256_and_si256(even, _mm256_set1_epi16(0xff));
    _mm256_or_si256(lower, _mm256_slli_epi16::<8>(odd))
}

/// There are products of 32 bits only: those of the lower halves, and the two that are half above.
#[inline]
#[target_feature(enable = "avx2")]
fn mul_64(one: __m256i, other: __m256i) -> __m256i {
    let lower = _mm256_mul_epu32(one, other);
    let rising = _mm256_mul_epu32(_mm256_srli_epi64::<32>(one), other);
    let falling = _mm256_mul_epu32(one, _mm256_srli_epi64::<32>(other));
    let upper = _mm256_slli_epi64::<32>(_mm256_add_epi64(rising, falling));
    _mm256_add_epi64(lower, upper)
}

#[inline]
#[target_feature(enable = "avx2")]
fn min_i64(one: __m256i, other: __m256i) -> __m256i {
    _mm256_blendv_epi8(one, other, _mm256_cmpgt_epi64(one, other))
}

#[inline]
#[target_feature(enable = "avx2")]
fn max_i64(one: __m256i, other: __m256i) -> __m256i {
    _mm256_blendv_epi8(other, one, _mm256_cmpgt_epi64(one, other))
}

#[inline]
#[target_feature(enable = "avx2")]
fn min_u64(one: __m256i, other: __m256i) -> __m256i {
    _mm256_blendv_epi8(one, other, exceeds_u64(one, other))
}

#[inline]
#[target_feature(enable = "avx2")]
fn max_u64(one: __m256i, other: __m256i) -> __m256i {
    _mm256_blendv_epi8(other, one, exceeds_u64(one, other))
}

/// There are comparisons of signed numbers only; with the highest bit turned over these are that.
#[inline]
#[target_feature(enable = "avx2")]
fn exceeds_u64(one: __m256i, other: __m256i) -> __m256i {
    let highest = _mm256_set1_epi64x(i64::MIN);
    _mm256_cmpgt_epi64(_mm256_xor_si256(one, highest), _mm256_xor_si256(other, highest))
}
