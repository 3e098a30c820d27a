//! Gradients that travel with fewer bits.

use std::fmt;

use consort::Dtype;

use super::{Average, CommHook, Pending, Round};
use crate::bucket::Bucket;
use crate::convert::convert;
use crate::error::{Error, Result};

/// Lets gradients travel as numbers of another dtype, mostly of 16 bits: half the bytes, for a rounding.
///
/// ```
/// use consort_train::{Cast, Options};
///
/// let smaller = Options::new().hook(Cast::bf16());
/// // Any other hook can be given the smaller numbers.
/// let same = Options::new().hook(Cast::bf16().with(consort_train::Average));
/// ```
pub struct Cast {
    name: String,
    dtype: Dtype,
    inner: Box<dyn CommHook>,
}

impl Cast {
    /// As `bf16`: the range of `f32`, with 8 bits of precision.
    pub fn bf16() -> Self {
        Self::to(Dtype::Bf16)
    }

    /// As `f16`: 11 bits of precision, and nothing beyond 65,504.
    pub fn f16() -> Self {
        Self::to(Dtype::F16)
    }

    fn to(dtype: Dtype) -> Self {
        Self { name: format!("{dtype} average"), dtype, inner: Box::new(Average) }
    }

    /// The same, with another hook for the smaller numbers.
    #[must_use]
    pub fn with(self, hook: impl CommHook + 'static) -> Self {
        Self { name: format!("{} {}", self.dtype, hook.name()), inner: Box::new(hook), ..self }
    }
}

impl CommHook for Cast {
    fn name(&self) -> &str {
        &self.name
    }

    fn start(&mut self, bucket: Bucket, round: &Round<'_>) -> Result<Pending> {
        if bucket.dtype() == self.dtype {
            return self.inner.start(bucket, round);
        }
        let mut small = bucket.of_dtype(self.dtype);
        recast(&bucket, &mut small)?;
        let pending = self.inner.start(small, round)?;
        Ok(pending.and_then(move |small| {
            let mut bucket = bucket;
            recast(&small, &mut bucket)?;
            Ok(bucket)
        }))
    }

    fn reset(&mut self) {
        self.inner.reset();
    }
}

/// Copies gradients from one bucket to another with the same parameters.
fn recast(from: &Bucket, to: &mut Bucket) -> Result<()> {
    if from.plan().parts.len() != to.plan().parts.len() {
        return Err(Error::Argument("a hook gave back another bucket".to_owned()));
    }
    let (source, target) = (from.dtype(), to.dtype());
    for at in 0..from.plan().parts.len() {
        convert((source, from.part(at)), (target, to.part_mut(at)))?;
    }
    Ok(())
}

impl fmt::Debug for Cast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
