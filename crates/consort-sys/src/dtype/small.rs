//! Floating-point formats smaller than `f32`.
//!
//! Written without branches, so that a compiler can do many numbers at a time.

/// A format with a sign, some bits of exponent and some of mantissa, and subnormal numbers.
///
/// With `INFINITIES` the highest exponent is kept for infinity and for NaN. Without, only the code
/// of all ones is a NaN and everything below is a number.
pub(crate) struct Small<const EXPONENT: u32, const MANTISSA: u32, const INFINITIES: bool>;

impl<const EXPONENT: u32, const MANTISSA: u32, const INFINITIES: bool>
    Small<EXPONENT, MANTISSA, INFINITIES>
{
    /// The NaN that stands for all others.
    pub(crate) const NAN: u32 =
        if INFINITIES { Self::INFINITY | 1 << (MANTISSA - 1) } else { Self::ONES };

    /// The same number as an `f32`, which can hold them all.
    #[inline(always)]
    pub(crate) fn widen(code: u32) -> f32 {
        let sign = code >> (EXPONENT + MANTISSA) << 31;
        let magnitude = code & Self::ONES;
        let shifted = magnitude << (SINGLE_MANTISSA - MANTISSA);
        if Self::BIAS == SINGLE_BIAS {
            return f32::from_bits(sign | shifted);
        }
        let normal = shifted + ((SINGLE_BIAS - Self::BIAS) << SINGLE_MANTISSA);
        // As a mantissa of the least normal number, which is then taken off again.
        let subnormal =
            f32::from_bits(Self::LEAST_NORMAL | shifted) - f32::from_bits(Self::LEAST_NORMAL);
        let special = if INFINITIES { SINGLE_INFINITY | shifted } else { f32::NAN.to_bits() };

        let finite = if magnitude < 1 << MANTISSA { subnormal.to_bits() } else { normal };
        let is_special =
            if INFINITIES { magnitude >= Self::INFINITY } else { magnitude == Self::ONES };
        f32::from_bits(sign | if is_special { special } else { finite })
    }

    /// The nearest number in this format, the even one of two.
    ///
    /// What is too large becomes infinity, or NaN where there is none. A NaN keeps only its sign.
    #[inline(always)]
    pub(crate) fn narrow(number: f32) -> u32 {
        let bits = number.to_bits();
        let sign = bits >> 31 << (EXPONENT + MANTISSA);
        sign | Self::magnitude(bits & !SINGLE_SIGN)
    }

    /// Like [`narrow`](Self::narrow), but every NaN becomes the same one, without its sign.
    #[inline(always)]
    pub(crate) fn narrow_canonical(number: f32) -> u32 {
        let bits = number.to_bits();
        let sign = bits >> 31 << (EXPONENT + MANTISSA);
        let magnitude = Self::magnitude(bits & !SINGLE_SIGN);
        if magnitude == Self::NAN { Self::NAN } else { sign | magnitude }
    }

    #[inline(always)]
    fn magnitude(bits: u32) -> u32 {
        let drop = SINGLE_MANTISSA - MANTISSA;
        let half_less_one = (1 << (drop - 1)) - 1;
        let odd = (bits >> drop) & 1;
        let rebias = (SINGLE_BIAS - Self::BIAS) << MANTISSA;
        let normal = ((bits + half_less_one + odd) >> drop).wrapping_sub(rebias);
        // The units of this sum are those of the subnormal numbers: the addition rounds.
        let units = f32::from_bits(bits) + f32::from_bits(Self::UNITS);
        let subnormal = units.to_bits().wrapping_sub(Self::UNITS);

        let is_normal = Self::BIAS == SINGLE_BIAS || bits >= Self::LEAST_NORMAL;
        let rounded = if is_normal { normal } else { subnormal };
        let highest = if INFINITIES { Self::INFINITY } else { Self::NAN };
        let bounded = if rounded < highest { rounded } else { highest };
        if bits > SINGLE_INFINITY { Self::NAN } else { bounded }
    }

    const BIAS: u32 = (1 << (EXPONENT - 1)) - 1;

    /// The magnitude with every bit set.
    const ONES: u32 = (1 << (EXPONENT + MANTISSA)) - 1;

    /// The magnitude with every bit of the exponent set, and none of the mantissa.
    const INFINITY: u32 = Self::ONES >> MANTISSA << MANTISSA;

    /// The least normal number of this format, as the bits of an `f32`.
    const LEAST_NORMAL: u32 = (SINGLE_BIAS + 1 - Self::BIAS) << SINGLE_MANTISSA;

    /// The `f32` whose last bit is worth as much as the last bit of a subnormal number.
    const UNITS: u32 =
        (SINGLE_BIAS + 1 + SINGLE_MANTISSA - Self::BIAS - MANTISSA) << SINGLE_MANTISSA;
}

const SINGLE_MANTISSA: u32 = 23;
const SINGLE_BIAS: u32 = 127;
const SINGLE_SIGN: u32 = 1 << 31;
const SINGLE_INFINITY: u32 = 0xff << SINGLE_MANTISSA;

#[cfg(test)]
mod tests {
    use half::{bf16, f16};
    use proptest::prelude::*;

    use super::*;

    type F16 = Small<5, 10, true>;
    type Bf16 = Small<8, 7, true>;

    /// Equal bits, or NaN both.
    fn same(one: f32, other: f32) -> bool {
        one.to_bits() == other.to_bits() || one.is_nan() && other.is_nan()
    }

    #[test]
    fn every_half_and_bfloat_widens_to_itself_and_comes_back() {
        for code in 0..=u16::MAX {
            let (half, bfloat) = (f16::from_bits(code), bf16::from_bits(code));
            let code = u32::from(code);
            assert!(same(F16::widen(code), half.to_f32()), "{code:#x}");
            assert!(same(Bf16::widen(code), bfloat.to_f32()), "{code:#x}");
            assert!(half.is_nan() || F16::narrow(F16::widen(code)) == code, "{code:#x}");
            assert!(bfloat.is_nan() || Bf16::narrow(Bf16::widen(code)) == code, "{code:#x}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn any_single_narrows_as_another_implementation_does(bits: u32) {
            let number = f32::from_bits(bits);
            let (half, bfloat) = (f16::from_f32(number), bf16::from_f32(number));
            if number.is_nan() {
                prop_assert_eq!(F16::narrow(number) & 0x7fff, F16::NAN);
                prop_assert_eq!(Bf16::narrow(number) & 0x7fff, Bf16::NAN);
                prop_assert_eq!(F16::narrow_canonical(number), F16::NAN);
            } else {
                prop_assert_eq!(F16::narrow(number), u32::from(half.to_bits()));
                prop_assert_eq!(Bf16::narrow(number), u32::from(bfloat.to_bits()));
            }
        }

        /// Numbers around the range of half precision, with its ties and its subnormal numbers.
        #[test]
        fn any_number_near_a_half_narrows_as_another_implementation_does(
            code in 0_u16..0x7c00, fraction in 0_u32..1 << 13, tie: bool, sign: bool,
        ) {
            let low = if tie { 1 << 12 } else { fraction };
            let bits = f16::from_bits(code).to_f32().to_bits() | low | u32::from(sign) << 31;
            let number = f32::from_bits(bits);
            prop_assert_eq!(F16::narrow(number), u32::from(f16::from_f32(number).to_bits()));
        }
    }
}
