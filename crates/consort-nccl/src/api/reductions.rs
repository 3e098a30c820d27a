//! The program's own ways to combine numbers.

use std::ffi::c_int;

use crate::comm::{Communicator, Own};
use crate::failure::Failure;
use crate::kind;
use crate::memory::Region;
use crate::raw::{Buffer, Handle, Out};
use crate::scale::Factor;

exports! {
    /// A sum of numbers that are multiplied first, each rank's by a factor of its own. With `ncclScalarDevice`
    /// the factor is read each time that the sum is computed, with `ncclScalarHostImmediate` now.
    fn ncclRedOpCreatePreMulSum, pncclRedOpCreatePreMulSum(
        op: Out<c_int>, scalar: Buffer, datatype: c_int, residence: c_int, comm: Handle,
    ) {
        op.check("op")?;
        let comm = Communicator::find(comm)?;
        comm.bond()?;
        let dtype = kind::dtype(datatype)?;
        let scalar = Region::new("scalar", scalar, dtype.size())?;
        let own = match residence {
            0 => Own::At(dtype, scalar),
            1 => Own::Known(Factor::new(dtype, scalar.source())),
            other => {
                let what = format!("residence is {other}, and has to be 0 or 1");
                return Err(Failure::argument(what));
            }
        };
        op.set("op", comm.add_op(dtype, own))
    }

    /// Forgets it. Calls that were made with it still have it.
    fn ncclRedOpDestroy, pncclRedOpDestroy(op: c_int, comm: Handle) {
        if kind::built_in(op).is_some() {
            return Err(Failure::argument(format!("op {op} is not the program's own")));
        }
        Communicator::find(comm)?.remove_op(op)
    }
}
