//! Floating-point formats smaller than `f32`, sixteen numbers at a time.

use std::arch::x86_64::*;

use super::super::lane::Lane;
use super::F32x8;

/// Sixteen `f16`.
pub(in super::super) struct F16x16;

/// Sixteen `bf16`.
pub(in super::super) struct Bf16x16;

/// Sixteen `F8E4m3`.
pub(in super::super) struct E4m3x16;

/// Sixteen `F8E5m2`.
pub(in super::super) struct E5m2x16;

macro_rules! lanes {
    ($($name:ident: $stored:ty, $widen:ident, $narrow:ident;)*) => {$(
        impl Lane for $name {
            type Stored = $stored;
            type Wide = [F32x8; 2];

            const ELEMENT: usize = size_of::<$stored>() / 16;

            #[inline(always)]
            unsafe fn widen(stored: $stored) -> [F32x8; 2] {
                // SAFETY: the caller knows that there are the instructions.
                let [one, other] = unsafe { $widen(stored) };
                [F32x8(one), F32x8(other)]
            }

            #[inline(always)]
            fn narrow(wide: [F32x8; 2]) -> $stored {
                // SAFETY: there are such registers, so there are the instructions.
                unsafe { $narrow(wide[0].0, wide[1].0) }
            }
        }
    )*};
}

lanes! {
    F16x16: [__m128i; 2], widen_f16, narrow_f16;
    Bf16x16: __m256i, widen_bf16, narrow_bf16;
    E4m3x16: __m128i, widen_e4m3, narrow_e4m3;
    E5m2x16: __m128i, widen_e5m2, narrow_e5m2;
}

/// In two parts, so that they can be converted on the way from and to memory.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn widen_f16([lower, upper]: [__m128i; 2]) -> [__m256; 2] {
    [_mm256_cvtph_ps(lower), _mm256_cvtph_ps(upper)]
}

#[inline]
#[target_feature(enable = "avx2,f16c")]
fn narrow_f16(lower: __m256, upper: __m256) -> [__m128i; 2] {
    let lower = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(lower);
    [lower, _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(upper)]
}

/// The even ones and the odd ones apart, so that none has to go to another place.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn widen_bf16(numbers: __m256i) -> [__m256; 2] {
    let even = _mm256_slli_epi32::<16>(numbers);
    let odd = _mm256_and_si256(numbers, _mm256_set1_epi32(UPPER_HALF));
    [_mm256_castsi256_ps(even), _mm256_castsi256_ps(odd)]
}

/// A NaN is the canonical one here, which rounding leaves as it is.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn narrow_bf16(even: __m256, odd: __m256) -> __m256i {
    let (even, odd) = (_mm256_castps_si256(even), _mm256_castps_si256(odd));
    let even = _mm256_srli_epi32::<16>(to_nearest_upper_half(even));
    _mm256_blend_epi16::<0b1010_1010>(even, to_nearest_upper_half(odd))
}

/// Rounded so that the upper half of each is the nearest one; the lower half is to be ignored.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn to_nearest_upper_half(bits: __m256i) -> __m256i {
    let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
    _mm256_add_epi32(_mm256_add_epi32(bits, odd), _mm256_set1_epi32(0x7fff))
}

/// It has the exponent of an `f16`, and the upper two bits of its mantissa.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn widen_e5m2(codes: __m128i) -> [__m256; 2] {
    widen_f16(parts(_mm256_slli_epi16::<8>(_mm256_cvtepu8_epi16(codes))))
}

#[inline]
#[target_feature(enable = "avx2,f16c")]
fn narrow_e5m2(lower: __m256, upper: __m256) -> __m128i {
    let halves = odd_f16(lower, upper);
    let magnitude = _mm256_and_si256(halves, _mm256_set1_epi16(0x7fff));
    let odd = _mm256_and_si256(_mm256_srli_epi16::<8>(magnitude), _mm256_set1_epi16(1));
    let rounded = _mm256_add_epi16(_mm256_add_epi16(magnitude, odd), _mm256_set1_epi16(0x7f));
    let sign = _mm256_and_si256(_mm256_srli_epi16::<8>(halves), _mm256_set1_epi16(0x80));
    to_bytes(_mm256_or_si256(_mm256_srli_epi16::<8>(rounded), sign))
}

/// As the `f16` with these bits of exponent and mantissa, which is 2^8 times smaller.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn widen_e4m3(codes: __m128i) -> [__m256; 2] {
    let codes = _mm256_cvtepu8_epi16(codes);
    let magnitude = _mm256_and_si256(codes, _mm256_set1_epi16(0x7f));
    let sign = _mm256_slli_epi16::<8>(_mm256_xor_si256(codes, magnitude));
    let is_nan = _mm256_cmpeq_epi16(magnitude, _mm256_set1_epi16(0x7f));
    let nan = _mm256_and_si256(is_nan, _mm256_set1_epi16(0x7e00));
    let number = _mm256_or_si256(_mm256_slli_epi16::<7>(magnitude), sign);
    let [lower, upper] = widen_f16(parts(_mm256_or_si256(number, nan)));
    let times = _mm256_set1_ps(256.0);
    [_mm256_mul_ps(lower, times), _mm256_mul_ps(upper, times)]
}

#[inline]
#[target_feature(enable = "avx2,f16c")]
fn narrow_e4m3(lower: __m256, upper: __m256) -> __m128i {
    let share = _mm256_set1_ps(1.0 / 256.0);
    let halves = odd_f16(_mm256_mul_ps(lower, share), _mm256_mul_ps(upper, share));
    let magnitude = _mm256_and_si256(halves, _mm256_set1_epi16(0x7fff));
    let odd = _mm256_and_si256(_mm256_srli_epi16::<7>(magnitude), _mm256_set1_epi16(1));
    let rounded = _mm256_add_epi16(_mm256_add_epi16(magnitude, odd), _mm256_set1_epi16(0x3f));
    let nan = _mm256_set1_epi16(0x7f);
    let code = _mm256_min_epu16(_mm256_srli_epi16::<7>(rounded), nan);
    let sign = _mm256_and_si256(_mm256_srli_epi16::<8>(halves), _mm256_set1_epi16(0x80));
    let sign = _mm256_andnot_si256(_mm256_cmpeq_epi16(code, nan), sign);
    to_bytes(_mm256_or_si256(code, sign))
}

/// The two nearest `f16` are a lower and a higher one, of which one is odd: the odd one, or the
/// number itself where it is one. Rounding this once more gives what rounding the number gives.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn odd_f16(lower: __m256, upper: __m256) -> __m256i {
    let lower_cut = _mm256_cvtps_ph::<_MM_FROUND_TO_ZERO>(lower);
    let upper_cut = _mm256_cvtps_ph::<_MM_FROUND_TO_ZERO>(upper);
    let lower_differs = _mm256_cmp_ps::<_CMP_NEQ_UQ>(lower, _mm256_cvtph_ps(lower_cut));
    let upper_differs = _mm256_cmp_ps::<_CMP_NEQ_UQ>(upper, _mm256_cvtph_ps(upper_cut));
    // Packing takes 128 bits of each in turn.
    let differs =
        _mm256_packs_epi32(_mm256_castps_si256(lower_differs), _mm256_castps_si256(upper_differs));
    let differs = _mm256_permute4x64_epi64::<0b11_01_10_00>(differs);
    let last_bit = _mm256_and_si256(differs, _mm256_set1_epi16(1));
    _mm256_or_si256(_mm256_set_m128i(upper_cut, lower_cut), last_bit)
}

/// The lower byte of each.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn to_bytes(pairs: __m256i) -> __m128i {
    let [lower, upper] = parts(pairs);
    _mm_packus_epi16(lower, upper)
}

#[inline]
#[target_feature(enable = "avx2,f16c")]
fn parts(whole: __m256i) -> [__m128i; 2] {
    [_mm256_castsi256_si128(whole), _mm256_extracti128_si256::<1>(whole)]
}

const UPPER_HALF: i32 = 0xffff_0000_u32.cast_signed();
