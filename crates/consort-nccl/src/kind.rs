//! What C calls types of numbers, and ways to combine them.

use std::ffi::c_int;

use consort::{Dtype, ReduceOp};

use crate::failure::{Failure, Result};

/// What C calls a type of numbers: `ncclDataType_t`.
///
/// # Errors
/// When there is no such type.
pub(crate) fn dtype(code: c_int) -> Result<Dtype> {
    let place = usize::try_from(code).ok();
    place.and_then(|place| DTYPES.get(place).copied()).ok_or_else(|| {
        Failure::argument(format!(
            "datatype is {code}, and the types are 0 to {}",
            DTYPES.len() - 1
        ))
    })
}

/// What C calls a way to combine numbers, if it is not one that the program has made: `ncclRedOp_t`.
pub(crate) fn built_in(code: c_int) -> Option<ReduceOp> {
    OPS.get(usize::try_from(code).ok()?).copied()
}

/// The first code that the program's own ways have.
pub(crate) const FIRST_OWN: c_int = OPS.len() as c_int;

/// By code.
const DTYPES: [Dtype; 12] = [
    Dtype::I8,
    Dtype::U8,
    Dtype::I32,
    Dtype::U32,
    Dtype::I64,
    Dtype::U64,
    Dtype::F16,
    Dtype::F32,
    Dtype::F64,
    Dtype::Bf16,
    Dtype::F8E4m3,
    Dtype::F8E5m2,
];

/// By code.
const OPS: [ReduceOp; 5] =
    [ReduceOp::Sum, ReduceOp::Product, ReduceOp::Max, ReduceOp::Min, ReduceOp::Avg];
