//! Against tables made from the definition of the formats, and a search through them.

use proptest::prelude::*;

use super::*;

/// What a code without its sign stands for, exactly; `None` is NaN.
fn value(code: u8, exponent_bits: i32, mantissa_bits: i32, infinities: bool) -> Option<f64> {
    let exponent = i32::from(code) >> mantissa_bits;
    let mantissa = f64::from(code & ((1 << mantissa_bits) - 1));
    let highest = (1 << exponent_bits) - 1;
    if infinities && exponent == highest {
        return (mantissa == 0.0).then_some(f64::INFINITY);
    }
    if !infinities && code == 0x7f {
        return None;
    }
    let bias = (1 << (exponent_bits - 1)) - 1;
    let fraction = mantissa / f64::from(1 << mantissa_bits);
    Some(match exponent {
        0 => fraction * 2_f64.powi(1 - bias),
        _ => (1.0 + fraction) * 2_f64.powi(exponent - bias),
    })
}

fn e4m3(code: u8) -> Option<f64> {
    value(code, 4, 3, false)
}

fn e5m2(code: u8) -> Option<f64> {
    value(code, 5, 2, true)
}

/// The finite code nearest to a magnitude, found by looking at all of them. `end` is the first
/// code beyond the finite numbers and `beyond` what it would be worth if they went on.
fn nearest(magnitude: f64, table: fn(u8) -> Option<f64>, end: u8, beyond: f64) -> u8 {
    // From further away all would seem equally far.
    let magnitude = magnitude.min(2.0 * beyond);
    let distance = |code| {
        let value = if code == end { beyond } else { table(code).expect("a finite code") };
        (value - magnitude).abs()
    };
    (0..=end)
        .min_by(|&one, &other| {
            let even_first = (one & 1).cmp(&(other & 1));
            distance(one).total_cmp(&distance(other)).then(even_first)
        })
        .expect("there are codes")
}

fn nearest_e4m3(number: f32) -> u8 {
    let sign = u8::from(number.is_sign_negative()) << 7;
    if !number.is_finite() {
        return sign | 0x7f;
    }
    sign | nearest(f64::from(number).abs(), e4m3, 0x7f, 480.0)
}

fn nearest_e5m2(number: f32) -> u8 {
    let sign = u8::from(number.is_sign_negative()) << 7;
    if number.is_nan() {
        return sign | 0x7e;
    }
    sign | nearest(f64::from(number).abs(), e5m2, 0x7c, 65536.0)
}

#[test]
fn every_code_means_what_the_format_says() {
    for code in 0..=0xff {
        let sign = if code & 0x80 == 0 { 1.0 } else { -1.0 };
        let (four, five) = (F8E4m3::from_bits(code).to_f32(), F8E5m2::from_bits(code).to_f32());
        match e4m3(code & 0x7f) {
            Some(value) => assert_eq!(f64::from(four).to_bits(), (sign * value).to_bits()),
            None => assert!(four.is_nan()),
        }
        match e5m2(code & 0x7f) {
            Some(value) => assert_eq!(f64::from(five).to_bits(), (sign * value).to_bits()),
            None => assert!(five.is_nan()),
        }
    }
}

#[test]
fn every_number_comes_back_as_it_was() {
    for code in 0..=0xff {
        let (four, five) = (F8E4m3::from_bits(code), F8E5m2::from_bits(code));
        assert_eq!(F8E4m3::from_f32(four.to_f32()).to_bits(), code);
        if !five.to_f32().is_nan() {
            assert_eq!(F8E5m2::from_f32(five.to_f32()).to_bits(), code);
        }
    }
}

#[test]
fn the_ends_of_the_range_are_where_they_should_be() {
    assert_eq!(F8E4m3::from_f32(464.0).to_f32(), 448.0);
    assert!(F8E4m3::from_f32(f32::from_bits(464_f32.to_bits() + 1)).to_f32().is_nan());
    assert_eq!(F8E4m3::from_f32(-464.1).to_bits(), 0xff);
    assert_eq!(F8E5m2::from_f32(61439.0).to_f32(), 57344.0);
    assert_eq!(F8E5m2::from_f32(-61440.0).to_f32(), f32::NEG_INFINITY);
    assert_eq!(F8E4m3::from_f32(2_f32.powi(-10)).to_bits(), 0);
    assert_eq!(F8E4m3::from_f32(2_f32.powi(-10) * 1.001).to_bits(), 1);
    assert_eq!(F8E5m2::from_f32(-(2_f32.powi(-17))).to_bits(), 0x80);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn any_number_becomes_the_nearest(bits: u32) {
        let number = f32::from_bits(bits);
        prop_assert_eq!(F8E4m3::from_f32(number).to_bits(), nearest_e4m3(number));
        prop_assert_eq!(F8E5m2::from_f32(number).to_bits(), nearest_e5m2(number));
    }

    /// Most bit patterns are far outside the range of eight bits; these are not.
    #[test]
    fn any_number_within_the_range_becomes_the_nearest(
        code in 0..0x7f_u8, between in 0..=16_u32, sign: bool,
    ) {
        for table in [e4m3, e5m2] {
            let (low, high) = (table(code), table(code + 1));
            let (Some(low), Some(high)) = (low, high) else { continue };
            let magnitude = low + (high.min(65536.0) - low) * f64::from(between) / 16.0;
            let number = if sign { -magnitude } else { magnitude } as f32;
            prop_assert_eq!(F8E4m3::from_f32(number).to_bits(), nearest_e4m3(number));
            prop_assert_eq!(F8E5m2::from_f32(number).to_bits(), nearest_e5m2(number));
        }
    }
}
