//! Single and double precision.

use std::arch::x86_64::*;

use super::super::lane::Lane;
use super::super::number::{Mean, Number, Ordered, Real};
use super::{as_it_is, methods};

/// Eight `f32`.
#[derive(Clone, Copy)]
pub(in super::super) struct F32x8(pub(super) __m256);

/// Four `f64`.
#[derive(Clone, Copy)]
pub(in super::super) struct F64x4(__m256d);

macro_rules! floats {
    (
        $name:ident, $register:ty, $number:ty: $set:ident $add:ident $mul:ident $div:ident
        $min:ident $max:ident $and:ident $or:ident $cmp:ident $blend:ident
    ) => {
        as_it_is!($name, $register, $number);

        impl Number for $name {
            methods! { $register:
                add(one, other) { $add(one, other) }
                mul(one, other) { $mul(one, other) }
            }
            methods! { $register: canonical(one) {
                $blend(one, $set(<$number>::NAN), $cmp::<_CMP_UNORD_Q>(one, one))
            } }
        }

        // Of two zeros, and if one is NaN, the instructions return their second operand.
        impl Ordered for $name {
            methods! { $register:
                lower(one, other) { $or($min(one, other), $min(other, one)) }
                higher(one, other) {
                    let higher = $and($max(one, other), $max(other, one));
                    $or(higher, $cmp::<_CMP_UNORD_Q>(one, other))
                }
            }
        }

        impl Mean for $name {
            methods! { $register: over(sum, world: usize) { $div(sum, $set(world as $number)) } }
        }

        impl Real for $name {
            methods! { $register: times(one, factor: f64) { $mul(one, $set(factor as $number)) } }
        }
    };
}

floats! {
    F32x8, __m256, f32: _mm256_set1_ps _mm256_add_ps _mm256_mul_ps _mm256_div_ps _mm256_min_ps
    _mm256_max_ps _mm256_and_ps _mm256_or_ps _mm256_cmp_ps _mm256_blendv_ps
}

floats! {
    F64x4, __m256d, f64: _mm256_set1_pd _mm256_add_pd _mm256_mul_pd _mm256_div_pd _mm256_min_pd
    _mm256_max_pd _mm256_and_pd _mm256_or_pd _mm256_cmp_pd _mm256_blendv_pd
}
