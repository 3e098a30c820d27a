//! Gradients that travel as bytes.

mod block;
mod journey;
mod shares;

use std::fmt;
use std::sync::Arc;

use consort::Dtype;

use super::residues::Residues;
use super::{CommHook, CompressionStats, Pending, Round};
use crate::bucket::Bucket;
use crate::error::Result;

/// Lets gradients travel as whole numbers of 8 bits: nearly four times fewer bytes than `f32`, for a
/// rounding that is known beforehand.
///
/// # What it does
///
/// The numbers of each gradient are cut into blocks of 256, as they lie in memory. A block travels as one
/// `f32`, its *scale*, which is the 127th part of its largest number, and a byte for each number, which says
/// how many scales it has. All is done in two steps, so that what a rank sends does not grow with their
/// number:
///
/// 1. each rank has a share of the blocks to add up, and all send it their bytes for these (all_to_all,
///    while backward goes on);
/// 2. it adds them up as `f32` in the order of ranks, divides, writes the averages as bytes again, and sends
///    those to all (all_gather, when the bucket is waited for).
///
/// Every rank makes its averages of the same bytes, so all have the same bits. In each step a rank sends
/// (world − 1) / world · 1.016 bytes for each number; an all_reduce of `f32` sends four where this sends 1.016.
///
/// # What it loses
///
/// A number is rounded twice, each time by half a scale at most: by the average over ranks of the largest
/// number in its block / 254, and by the largest average in its block / 254. What is much smaller than the
/// largest of its block becomes zero. With [feedback](Self::error_feedback) what was lost is added to the
/// next gradients, so that it arrives in the long run. That takes memory for a copy of all gradients as `f32`.
/// What is sent again for a parameter that no rank uses in a pass is lost: its gradient is left alone.
///
/// A number that is not finite makes its block NaN, on every rank.
///
/// # When to use it
///
/// When the network is what a step waits for ([`Noop`](crate::Noop) tells), and [`Cast`](crate::Cast) does
/// not save enough. It is far milder than [`PowerSgd`](crate::PowerSgd), and knows nothing of shapes.
///
/// Gradients of `f64`, `f16` and `bf16` are taken as `f32`; those of other dtypes travel as they are.
///
/// ```
/// use consort::Dtype;
/// use consort_train::{Int8, Options, Parameter, Reducer};
///
/// # let group = consort::Builder::new().rank(0).world(1).init()?;
/// let parameters = vec![Parameter::new("weight", Dtype::F32, &[4])];
/// let reducer = Reducer::new(&group, parameters, Options::new().hook(Int8::new()))?;
/// let pass = reducer.begin()?;
/// pass.ready(0, &[1.27_f32, 0.013, -0.5, 0.0])?;
/// let averages = pass.finish()?;
/// let given = averages.gradient::<f32>(0)?.expect("it was used");
/// // A scale is 0.01 here.
/// assert!(given.iter().zip([1.27, 0.01, -0.5, 0.0]).all(|(one, other)| (one - other).abs() < 1e-6));
/// # Ok::<(), consort_train::Error>(())
/// ```
#[derive(Default)]
pub struct Int8 {
    feedback: Option<Arc<Residues<f32>>>,
    stats: CompressionStats,
}

impl Int8 {
    /// Without feedback.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether what is lost in a pass is added to the gradients of the next: no if nothing is said.
    #[must_use]
    pub fn error_feedback(self, is_on: bool) -> Self {
        Self { feedback: is_on.then(Arc::default), ..self }
    }

    /// What it saves.
    pub fn stats(&self) -> CompressionStats {
        self.stats.clone()
    }
}

impl CommHook for Int8 {
    fn name(&self) -> &str {
        if self.feedback.is_some() { "int8 with error feedback" } else { "int8" }
    }

    fn start(&mut self, bucket: Bucket, round: &Round<'_>) -> Result<Pending> {
        if !matches!(bucket.dtype(), Dtype::F32 | Dtype::F64 | Dtype::F16 | Dtype::Bf16) {
            return round.average(bucket);
        }
        journey::begin(bucket, round, self.feedback.clone(), &self.stats)
    }

    /// Another is put in its place: a bucket that is still on its way then leaves nothing behind.
    fn reset(&mut self) {
        if let Some(feedback) = &mut self.feedback {
            *feedback = Arc::default();
        }
    }
}

impl fmt::Debug for Int8 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
