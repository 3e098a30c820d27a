//! How a communicator combines numbers: as everybody knows it, or as the program has said.

use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard};

use consort::{Dtype, ReduceOp};

use super::Communicator;
use crate::failure::{Failure, Result};
use crate::kind::{FIRST_OWN, built_in};
use crate::lock;
use crate::memory::Region;
use crate::scale::Factor;

/// How numbers are combined.
#[derive(Clone, Debug)]
pub(crate) enum Combination {
    /// As everybody knows it.
    BuiltIn(ReduceOp),
    /// As the program has said.
    Own(Own),
}

/// A sum of numbers that are multiplied first.
#[derive(Clone, Debug)]
pub(crate) enum Own {
    /// By this.
    Known(Factor),
    /// By what is there when it is used.
    At(Dtype, Region),
}

impl Combination {
    /// How numbers are combined that were multiplied already.
    pub(crate) fn op(&self) -> ReduceOp {
        match self {
            Self::BuiltIn(op) => *op,
            Self::Own(_) => ReduceOp::Sum,
        }
    }
}

impl Own {
    /// What numbers are multiplied by, if they are now.
    pub(crate) fn factor(&self) -> Factor {
        match self {
            Self::Known(factor) => factor.clone(),
            Self::At(dtype, region) => Factor::new(*dtype, region.source()),
        }
    }
}

impl Communicator {
    /// A way to combine numbers of this type.
    ///
    /// # Errors
    /// When there is no such way, or it is for another type.
    pub(crate) fn combination(&self, op: c_int, dtype: Dtype) -> Result<Combination> {
        if let Some(op) = built_in(op) {
            return Ok(Combination::BuiltIn(op));
        }
        match lock(&self.ops).get(&op) {
            Some((of, own)) if *of == dtype => Ok(Combination::Own(own.clone())),
            Some((of, _)) => Err(Failure::argument(format!(
                "op {op} was made for {of}, and datatype is {dtype}"
            ))),
            None => Err(Failure::argument(format!(
                "op is {op}: there are 0 to {}, and those that ncclRedOpCreatePreMulSum has given for this \
                 communicator",
                FIRST_OWN - 1
            ))),
        }
    }

    /// Keeps a way of the program's own. Gives its code, which no other of its has, and for long no other at all.
    pub(crate) fn add_op(&self, dtype: Dtype, own: Own) -> c_int {
        let mut last = lock(&LAST_OP);
        let mut ops = lock(&self.ops);
        // A program that makes one for each call comes to the end of the numbers some day.
        *last = next_op(*last, |code| ops.contains_key(&code));
        ops.insert(*last, (dtype, own));
        *last
    }

    /// Forgets it.
    ///
    /// # Errors
    /// When it is none of this communicator's.
    pub(crate) fn remove_op(&self, op: c_int) -> Result<()> {
        match lock(&self.ops).remove(&op) {
            Some(_) => Ok(()),
            None => Err(Failure::argument(format!(
                "op is {op}, which ncclRedOpCreatePreMulSum has not given for this communicator, or was \
                 destroyed before"
            ))),
        }
    }
}

/// Has nobody keep another way of the program's until what this gives is dropped.
pub(super) fn hold() -> MutexGuard<'static, c_int> {
    lock(&LAST_OP)
}

/// The next code after another that none of a communicator's has.
fn next_op(last: c_int, is_taken: impl Fn(c_int) -> bool) -> c_int {
    let after = |code: c_int| code.checked_add(1).unwrap_or(FIRST_OWN);
    let mut code = after(last);
    while is_taken(code) {
        code = after(code);
    }
    code
}

static LAST_OP: Mutex<c_int> = Mutex::new(FIRST_OWN - 1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_begin_anew_when_there_are_no_more() {
        assert_eq!(next_op(FIRST_OWN - 1, |_| false), FIRST_OWN);
        assert_eq!(next_op(c_int::MAX, |code| code < FIRST_OWN + 2), FIRST_OWN + 2);
    }
}
