//! What the bytes of a buffer mean, and how they can be combined.
//!
//! A [`Dtype`] names a type of numbers, a [`ReduceOp`] a way to make one number of many. Both have
//! names for people and codes for messages; neither changes between versions. An [`Element`] is a
//! Rust type that has a dtype.

mod complex;
mod element;
mod float8;
mod op;
mod small;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use complex::{Complex32, Complex64};
pub use element::Element;
pub use float8::{F8E4m3, F8E5m2};
pub use op::{ReduceOp, UnknownReduceOp};
pub(crate) use small::Small;

/// A type of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
    /// IEEE half precision.
    F16,
    /// The upper half of a single-precision number.
    Bf16,
    /// Eight bits: four of exponent, three of mantissa. It has no infinities and reaches 448.
    F8E4m3,
    /// Eight bits: five of exponent, two of mantissa, otherwise like half precision.
    F8E5m2,
    /// Signed, 8 bits.
    I8,
    /// Signed, 16 bits.
    I16,
    /// Signed, 32 bits.
    I32,
    /// Signed, 64 bits.
    I64,
    /// Unsigned, 8 bits.
    U8,
    /// Unsigned, 16 bits.
    U16,
    /// Unsigned, 32 bits.
    U32,
    /// Unsigned, 64 bits.
    U64,
    /// True or false, in a byte. Any byte but 0 is read as true, which is always written as 1.
    Bool,
    /// Complex: two [`F32`](Self::F32).
    C64,
    /// Complex: two [`F64`](Self::F64).
    C128,
}

impl Dtype {
    /// All of them, each at the place of its [code](Self::code).
    pub const ALL: [Self; 17] = [
        Self::F32,
        Self::F64,
        Self::F16,
        Self::Bf16,
        Self::F8E4m3,
        Self::F8E5m2,
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::Bool,
        Self::C64,
        Self::C128,
    ];

    /// How many bytes an element has.
    pub const fn size(self) -> usize {
        match self {
            Self::F8E4m3 | Self::F8E5m2 | Self::I8 | Self::U8 | Self::Bool => 1,
            Self::F16 | Self::Bf16 | Self::I16 | Self::U16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F64 | Self::I64 | Self::U64 | Self::C64 => 8,
            Self::C128 => 16,
        }
    }

    /// The alignment of the Rust type: nothing here needs it, slices of elements do.
    pub const fn align(self) -> usize {
        match self {
            Self::C64 => Self::F32.size(),
            Self::C128 => Self::F64.size(),
            _ => self.size(),
        }
    }

    /// What people call it: `f32`, `bf16`, `f8e4m3`, `c64` and so on.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::F8E4m3 => "f8e4m3",
            Self::F8E5m2 => "f8e5m2",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::Bool => "bool",
            Self::C64 => "c64",
            Self::C128 => "c128",
        }
    }

    /// What messages call it.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The dtype that messages call so.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Dtype {
    type Err = UnknownDtype;

    fn from_str(name: &str) -> Result<Self, UnknownDtype> {
        Self::ALL.into_iter().find(|dtype| dtype.name() == name).ok_or(UnknownDtype(name.into()))
    }
}

/// A name that no dtype has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no dtype {0:?}: choose one of {names}", names = Dtype::ALL.map(Dtype::name).join(", "))]
pub struct UnknownDtype(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dtype_is_found_by_its_name_and_by_its_code() {
        for (code, dtype) in (0..).zip(Dtype::ALL) {
            assert_eq!(dtype.code(), code);
            assert_eq!(Dtype::from_code(code), Some(dtype));
            assert_eq!(dtype.to_string().parse(), Ok(dtype));
        }
        assert_eq!(Dtype::from_code(17), None);
    }

    #[test]
    fn a_dtype_is_written_in_files_by_its_name() {
        for dtype in Dtype::ALL {
            assert_eq!(serde_json::to_value(dtype).unwrap(), dtype.name());
        }
    }

    #[test]
    fn a_wrong_name_is_answered_with_the_right_ones() {
        let error = "float".parse::<Dtype>().unwrap_err().to_string();
        assert_eq!(
            error,
            "there is no dtype \"float\": choose one of f32, f64, f16, bf16, f8e4m3, f8e5m2, i8, \
             i16, i32, i64, u8, u16, u32, u64, bool, c64, c128"
        );
    }
}
