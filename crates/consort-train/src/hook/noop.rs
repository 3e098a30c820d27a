//! No communication at all.

use super::{CommHook, Pending, Round};
use crate::bucket::Bucket;
use crate::error::Result;

/// Averages nothing: every rank gets its own gradients back, as they are.
///
/// It answers one question: how much faster would a step be if gradients travelled in no time? Train a
/// few steps with [`Average`](crate::Average) and a few with this. If the two take the same, the
/// network is hidden behind backward, and no other hook will help.
///
/// It is not for learning anything: from the first step on, ranks have different parameters, and each
/// trains a model of its own on its share of the data.
///
/// ```
/// use consort::Dtype;
/// use consort_train::{Noop, Options, Parameter, Reducer};
///
/// # let group = consort::Builder::new().rank(0).world(1).init()?;
/// let parameters = vec![Parameter::new("weight", Dtype::F32, &[2])];
/// let reducer = Reducer::new(&group, parameters, Options::new().hook(Noop))?;
/// let pass = reducer.begin()?;
/// pass.ready(0, &[1.0_f32, 2.0])?;
/// assert_eq!(pass.finish()?.gradient::<f32>(0)?, Some(&[1.0, 2.0][..]));
/// # Ok::<(), consort_train::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Noop;

impl CommHook for Noop {
    fn name(&self) -> &str {
        "no averaging"
    }

    fn start(&mut self, bucket: Bucket, _round: &Round<'_>) -> Result<Pending> {
        Ok(Pending::new(move || Ok(bucket)))
    }

    fn works_on_devices(&self) -> bool {
        true
    }
}
