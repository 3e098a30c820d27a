//! How ranks' numbers are combined.

use std::sync::Arc;

use consort_sys::dtype::{Dtype, ReduceOp};
use consort_sys::view::Source;

use super::comm::{Comm, Inner};
use super::error::{Error, Result};
use super::operand::{combined, factor};

/// How ranks' numbers are combined: one of the ways that NCCL has, or a [sum](PreMulSum) that was made before.
#[derive(Clone, Copy, Debug)]
pub enum Op<'a> {
    /// One of NCCL's own; a premultiplied sum is made for the call.
    Plain(ReduceOp),
    /// One that was made.
    PreMulSum(&'a PreMulSum),
}

impl From<ReduceOp> for Op<'_> {
    fn from(op: ReduceOp) -> Self {
        Self::Plain(op)
    }
}

impl<'a> From<&'a PreMulSum> for Op<'a> {
    fn from(sum: &'a PreMulSum) -> Self {
        Self::PreMulSum(sum)
    }
}

/// A sum of numbers that are multiplied by a factor first. It belongs to a communicator and a dtype, and is forgotten
/// when it is dropped, which may be as soon as the last call with it has returned. Since 2.11.
///
/// ```no_run
/// # fn mean(comm: &consort::nccl::Comm) -> consort::nccl::Result<()> {
/// use consort::Dtype;
/// use consort::nccl::PreMulSum;
///
/// let mean = PreMulSum::new(comm, Dtype::F32, 1.0 / f64::from(comm.world()))?;
/// # drop(mean);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct PreMulSum {
    inner: Arc<Inner>,
    number: i32,
    dtype: Dtype,
}

impl PreMulSum {
    /// A sum with this factor, which is rounded to the dtype.
    ///
    /// # Errors
    /// When the dtype does not have such a number, or NCCL does not combine it, or fails.
    pub fn new(comm: &Comm, dtype: Dtype, by: f64) -> Result<Self> {
        let function = "ncclRedOpCreatePreMulSum";
        let number = combined(comm.library(), function, dtype, ReduceOp::PremulSum(by))?;
        let bytes = factor(function, dtype, by)?;
        let (_, number) =
            comm.inner().at_once(function, |handle| handle.pre_mul_sum(bytes, number))?;
        Ok(Self { inner: comm.inner().clone(), number, dtype })
    }

    /// A sum whose factor is in memory of the device, and read by each call with it when that is carried out.
    ///
    /// # Safety
    /// Until the last call with it is done the factor is there.
    ///
    /// # Errors
    /// As [`new`](Self::new); and when it is not one number.
    #[allow(unsafe_code, reason = "only the caller knows how long the factor lives")]
    pub unsafe fn of_memory(comm: &Comm, dtype: Dtype, by: Source<'_>) -> Result<Self> {
        let function = "ncclRedOpCreatePreMulSum";
        let number = combined(comm.library(), function, dtype, ReduceOp::PremulSum(1.0))?;
        if by.len() != dtype.size() {
            let reason =
                format!("the factor has {} bytes, and each {dtype} has {}", by.len(), dtype.size());
            return Err(Error::argument(function, reason));
        }
        let (_, number) = comm.inner().at_once(function, |handle| {
            // SAFETY: the caller promises it.
            unsafe { handle.pre_mul_sum_later(by.as_ptr(), number) }
        })?;
        Ok(Self { inner: comm.inner().clone(), number, dtype })
    }

    /// NCCL's number for it, for a call of this communicator and dtype.
    pub(super) fn number_for(
        &self,
        function: &'static str,
        comm: &Comm,
        dtype: Dtype,
    ) -> Result<i32> {
        if !Arc::ptr_eq(&self.inner, comm.inner()) {
            let reason = "the premultiplied sum belongs to another communicator".to_owned();
            return Err(Error::argument(function, reason));
        }
        if self.dtype != dtype {
            let reason = format!("the premultiplied sum is one of {}, not of {dtype}", self.dtype);
            return Err(Error::argument(function, reason));
        }
        Ok(self.number)
    }
}

impl Drop for PreMulSum {
    fn drop(&mut self) {
        // With the communicator it has ended too.
        let forgotten =
            self.inner.at_once("ncclRedOpDestroy", |handle| handle.forget_op(self.number));
        match forgotten {
            Ok(_) | Err(Error::Ended { .. }) => {}
            Err(error) => tracing::warn!("a premultiplied sum could not be forgotten: {error}"),
        }
    }
}
