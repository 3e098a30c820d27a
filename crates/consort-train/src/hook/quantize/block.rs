//! Blocks of numbers as bytes. Pure arithmetic: the same numbers give the same bytes on every rank.

/// Writes numbers as whole numbers from −127 to 127 of the returned scale: the largest is 127, and each
/// is off by half a scale at most.
///
/// A number that is not finite makes the scale NaN, and so the whole block.
pub(crate) fn quantise(numbers: &[f32], bytes: &mut [u8]) -> f32 {
    // Without their sign, floating-point numbers are ordered as their bits are; infinity and NaN are last.
    let largest = numbers.iter().map(|number| number.abs().to_bits() as i32).max().unwrap_or(0);
    let largest = f32::from_bits(largest as u32);
    let scale = (largest / STEPS).min(LARGEST);
    if !largest.is_finite() || scale < f32::MIN_POSITIVE {
        bytes.fill(0);
        return if largest.is_finite() { 0.0 } else { f32::NAN };
    }
    for (byte, number) in bytes.iter_mut().zip(numbers) {
        // So large a number has no bits for a fraction: the sum is rounded to a whole number, to the
        // nearest, and its last byte is that number's. A conversion to `i8` would take several times as long.
        *byte = (number / scale + ROUNDING).to_bits() as u8;
    }
    scale
}

/// Gives each number of a block.
pub(crate) fn dequantise(bytes: &[u8], scale: f32) -> impl Iterator<Item = f32> {
    bytes.iter().map(move |&byte| f32::from(byte as i8) * scale)
}

/// So many steps the largest number has.
const STEPS: f32 = 127.0;
/// The scale of the largest numbers, rounded so that they do not become infinite.
const LARGEST: f32 = (f32::MAX / STEPS).next_down();
/// 1.5 · 2²³
const ROUNDING: f32 = 12_582_912.0;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn there_and_back(numbers: &[f32]) -> (f32, Vec<f32>) {
        let mut bytes = vec![0; numbers.len()];
        let scale = quantise(numbers, &mut bytes);
        (scale, dequantise(&bytes, scale).collect())
    }

    #[test]
    fn whole_numbers_up_to_127_survive() {
        let numbers: Vec<f32> = (-127..=127).map(|number| number as f32 * 0.25).collect();
        assert_eq!(there_and_back(&numbers), (0.25, numbers));
    }

    #[test]
    fn a_block_without_anything_in_it_is_zero() {
        assert_eq!(there_and_back(&[0.0, -0.0]), (0.0, vec![0.0, 0.0]));
        assert_eq!(there_and_back(&[]), (0.0, vec![]));
        // Too small for a scale that is precise.
        assert_eq!(there_and_back(&[1e-37, -1e-40]), (0.0, vec![0.0, 0.0]));
    }

    #[test]
    fn a_number_that_is_not_finite_spoils_its_block() {
        for odd in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let (scale, numbers) = there_and_back(&[1.0, odd, 0.0]);
            assert!(scale.is_nan() && numbers.iter().all(|number| number.is_nan()), "{odd}");
        }
    }

    proptest! {
        #[test]
        fn every_number_is_off_by_half_a_step_at_most(
            numbers in prop::collection::vec(-1.0_f32..1.0, 1..300),
            size in -30..30_i32,
        ) {
            let numbers: Vec<f32> = numbers.iter().map(|number| number * 10_f32.powi(size)).collect();
            let largest = numbers.iter().fold(0.0_f32, |largest, number| largest.max(number.abs()));
            let (scale, back) = there_and_back(&numbers);
            prop_assert_eq!(scale, largest / 127.0);
            for (number, back) in numbers.iter().zip(back) {
                prop_assert!((number - back).abs() <= scale * 0.50001, "{} {}", number, back);
            }
        }

        #[test]
        fn the_largest_numbers_there_are_stay_finite(share in 0.5_f32..=1.0) {
            let (_, back) = there_and_back(&[f32::MAX * share, -f32::MAX]);
            prop_assert!(back[0].is_finite() && back[1] < -0.999 * f32::MAX, "{:?}", back);
        }
    }
}
