//! Floating-point numbers of eight bits.

use std::cmp::Ordering;
use std::fmt;

use bytemuck::{Pod, Zeroable};

use super::Small;

/// Eight bits of sign, exponent and mantissa: 1, 4 and 3. Dtype [`F8E4m3`](super::Dtype::F8E4m3).
///
/// It has numbers up to ±448, no infinities, and one NaN of either sign. A conversion from `f32`
/// takes the nearest number, the even one of two; what would be beyond 448 becomes NaN.
#[derive(Clone, Copy, Default, Pod, Zeroable)]
#[repr(transparent)]
pub struct F8E4m3(u8);

/// Eight bits of sign, exponent and mantissa: 1, 5 and 2. Dtype [`F8E5m2`](super::Dtype::F8E5m2).
///
/// It has numbers up to ±57344, infinities, and NaN, like half precision. A conversion from `f32`
/// takes the nearest number, the even one of two; what would be beyond 57344 becomes infinity.
#[derive(Clone, Copy, Default, Pod, Zeroable)]
#[repr(transparent)]
pub struct F8E5m2(u8);

macro_rules! float8 {
    ($name:ident, $format:ty) => {
        impl $name {
            /// The number with this code.
            pub const fn from_bits(code: u8) -> Self {
                Self(code)
            }

            /// Its code.
            pub const fn to_bits(self) -> u8 {
                self.0
            }

            /// The nearest to this number.
            pub fn from_f32(number: f32) -> Self {
                Self(<$format>::narrow(number) as u8)
            }

            /// The same number.
            pub fn to_f32(self) -> f32 {
                <$format>::widen(self.0.into())
            }
        }

        impl From<$name> for f32 {
            fn from(number: $name) -> Self {
                number.to_f32()
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.to_f32() == other.to_f32()
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                self.to_f32().partial_cmp(&other.to_f32())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.to_f32(), f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.to_f32(), f)
            }
        }
    };
}

float8!(F8E4m3, Small<4, 3, false>);
float8!(F8E5m2, Small<5, 2, true>);

#[cfg(test)]
mod tests;
