//! Ways to make one number of many.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A way to make one number of many.
///
/// Which dtypes have it, and what it means for each, is told in [`reduce`](crate::reduce).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReduceOp {
    /// The sum of all.
    #[default]
    Sum,
    /// The sum of all, divided by how many they are.
    Avg,
    /// The product of all.
    Product,
    /// The least of all.
    Min,
    /// The greatest of all.
    Max,
    /// The bits that all have.
    BitAnd,
    /// The bits that any has.
    BitOr,
    /// The bits that an odd number of them have.
    BitXor,
    /// The sum of all, each multiplied by this factor first.
    PremulSum(f64),
}

impl ReduceOp {
    /// All of them, each at the place of its [code](Self::code). The factor is 1.
    pub const ALL: [Self; 9] = [
        Self::Sum,
        Self::Avg,
        Self::Product,
        Self::Min,
        Self::Max,
        Self::BitAnd,
        Self::BitOr,
        Self::BitXor,
        Self::PremulSum(1.0),
    ];

    /// What people call it: `sum`, `bit_and`, `premul_sum` and so on.
    pub const fn name(self) -> &'static str {
        NAMES[self.code() as usize]
    }

    /// What people call the operation that messages call so.
    pub fn name_of(code: u8) -> Option<&'static str> {
        NAMES.get(usize::from(code)).copied()
    }

    /// What messages call it. A factor is not part of it.
    pub const fn code(self) -> u8 {
        match self {
            Self::Sum => 0,
            Self::Avg => 1,
            Self::Product => 2,
            Self::Min => 3,
            Self::Max => 4,
            Self::BitAnd => 5,
            Self::BitOr => 6,
            Self::BitXor => 7,
            Self::PremulSum(_) => 8,
        }
    }

    /// The number that each input is multiplied by: 1 except for a premultiplied sum.
    pub const fn factor(self) -> f64 {
        match self {
            Self::PremulSum(factor) => factor,
            _ => 1.0,
        }
    }
}

/// The name, and the factor after a colon where there is one: `premul_sum:0.5`.
impl fmt::Display for ReduceOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PremulSum(factor) => write!(f, "{}:{factor}", self.name()),
            _ => f.pad(self.name()),
        }
    }
}

impl FromStr for ReduceOp {
    type Err = UnknownReduceOp;

    fn from_str(text: &str) -> Result<Self, UnknownReduceOp> {
        if let Some(factor) = text.strip_prefix("premul_sum") {
            let factor = factor.strip_prefix(':').and_then(|factor| factor.parse().ok());
            return factor.map(Self::PremulSum).ok_or(UnknownReduceOp(text.into()));
        }
        Self::ALL.into_iter().find(|op| op.name() == text).ok_or(UnknownReduceOp(text.into()))
    }
}

/// A text that names no reduce operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no reduce operation {0:?}: choose one of {names}; premul_sum needs a factor, as in \
     premul_sum:0.5",
    names = NAMES.join(", ")
)]
pub struct UnknownReduceOp(String);

/// By code.
const NAMES: [&str; 9] =
    ["sum", "avg", "product", "min", "max", "bit_and", "bit_or", "bit_xor", "premul_sum"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_found_by_what_it_is_shown_as() {
        for (code, op) in ReduceOp::ALL.into_iter().enumerate() {
            assert_eq!(op.to_string().parse(), Ok(op));
            assert_eq!(usize::from(op.code()), code);
        }
        for op in [0.5, -1e300, 1.0 / 3.0].map(ReduceOp::PremulSum) {
            assert_eq!(op.to_string().parse(), Ok(op));
        }
        assert_eq!(ReduceOp::PremulSum(0.5).to_string(), "premul_sum:0.5");
    }

    #[test]
    fn an_operation_comes_back_from_a_file() {
        for op in ReduceOp::ALL.into_iter().chain([ReduceOp::PremulSum(0.1)]) {
            let written = serde_json::to_string(&op).unwrap();
            assert_eq!(serde_json::from_str::<ReduceOp>(&written).unwrap(), op);
            assert!(written.contains(op.name()));
        }
    }

    #[test]
    fn a_wrong_name_or_a_missing_factor_is_answered_with_the_right_ones() {
        for wrong in ["mean", "premul_sum", "premul_sum:", "premul_sum:x", "premul_sum0.5", "sum:2"]
        {
            let error = wrong.parse::<ReduceOp>().unwrap_err().to_string();
            assert_eq!(
                error,
                format!(
                    "there is no reduce operation {wrong:?}: choose one of sum, avg, product, min, \
                     max, bit_and, bit_or, bit_xor, premul_sum; premul_sum needs a factor, as in \
                     premul_sum:0.5"
                )
            );
        }
    }
}
