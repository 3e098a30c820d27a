//! How buckets are averaged over all ranks.

mod boxed;
mod cast;
mod noop;
mod order;
mod passes;
mod pending;
mod post_local;
mod power_sgd;
mod quantize;
mod residues;
mod stats;

use consort::{Dtype, Group, ReduceOp, Target};
use consort_sys::reduce::Kernel;

pub use self::cast::Cast;
pub use self::noop::Noop;
pub use self::pending::Pending;
pub use self::post_local::PostLocalSgd;
pub use self::power_sgd::PowerSgd;
pub use self::quantize::Int8;
pub use self::stats::CompressionStats;
use crate::bucket::{AllReduce, Bucket};
use crate::error::{Error, Result};

/// A way to average a bucket over all ranks.
///
/// | hook | bytes for a number of `f32` | what it loses |
/// |---|---|---|
/// | [`Average`] | 4 | nothing |
/// | [`Cast`] | 2 | digits: 3 of 7 are left with `f16`, 2 with `bf16` |
/// | [`Int8`] | 1.02 | what is less than the 254th part of the largest number in a block |
/// | [`PowerSgd`] | 4 · rank · (1 / rows + 1 / columns) | what is not in a few directions |
/// | [`PostLocalSgd`] | 4 within parts, none between them | that all ranks have the same parameters |
/// | [`Noop`] | none | everything: it is for measuring |
///
/// `Int8` and `PowerSgd` can add what they have lost to the next gradients, so that it arrives later. A
/// `Cast` can be put before any of them ([`Cast::with`]).
///
/// # Writing one
///
/// It is given buckets in the same order on every rank, and has to make the same calls of the group on
/// every rank. What it begins in [`start`](Self::start) travels while backward goes on. What has to
/// follow is done when the bucket is waited for, by what the [`Pending`] holds: on every rank in the
/// order of buckets, too.
///
/// If it fails on one rank, the group is ended for all, with an error that names the rank, the hook and
/// the reason. It must not ask its own reducer for anything, which waits for it.
///
/// ```
/// use consort::ReduceOp;
/// use consort_train::{Bucket, CommHook, Pending, Round};
///
/// /// Halves what it averages.
/// struct Halved;
///
/// impl CommHook for Halved {
///     fn name(&self) -> &str {
///         "halved"
///     }
///
///     fn start(&mut self, mut bucket: Bucket, round: &Round<'_>) -> consort_train::Result<Pending> {
///         bucket.elements_mut::<f32>()?.iter_mut().for_each(|number| *number /= 2.0);
///         round.average(bucket)
///     }
/// }
/// # let group = consort::Builder::new().rank(0).world(1).init()?;
/// # let parameters = vec![consort_train::Parameter::new("a", consort::Dtype::F32, &[2])];
/// let options = consort_train::Options::new().hook(Halved);
/// let reducer = consort_train::Reducer::new(&group, parameters, options)?;
/// let pass = reducer.begin()?;
/// pass.ready(0, &[2.0_f32, 4.0])?;
/// assert_eq!(pass.finish()?.gradient::<f32>(0)?, Some(&[1.0, 2.0][..]));
/// # Ok::<(), consort_train::Error>(())
/// ```
pub trait CommHook: Send {
    /// What people call it.
    fn name(&self) -> &str;

    /// Begins with a bucket, which has this rank's gradients, not divided by anything.
    ///
    /// # Errors
    /// When it cannot be done. The group ends.
    fn start(&mut self, bucket: Bucket, round: &Round<'_>) -> Result<Pending>;

    /// Forgets what it knows of buckets and groups: there are others from now on.
    fn reset(&mut self) {}

    /// Whether it can be given buckets in the memory of a device ([`Options::on_device`](crate::Options::on_device)):
    /// it looks at no numbers, and leaves buckets to [`Round::average`], or to calls of a group on
    /// [`Bucket::target`].
    fn works_on_devices(&self) -> bool {
        false
    }
}

/// What a hook needs to know of the pass.
#[derive(Debug)]
pub struct Round<'a> {
    /// The ranks.
    pub group: &'a Group,
    /// By how much the sum is to be divided.
    pub divisor: usize,
    /// Which backward pass it is, from 1.
    pub pass: u64,
}

impl Round<'_> {
    /// Begins to average a bucket in the plainest way: an all_reduce of its numbers as they are.
    ///
    /// # Errors
    /// When the group has ended; when the bucket is on a device that cannot divide by so much.
    pub fn average(&self, bucket: Bucket) -> Result<Pending> {
        let divisor = self.divisor;
        let op = average_by(bucket.dtype(), divisor, self.group.world());
        if op == ReduceOp::Sum && bucket.device_memory().is_some() {
            let (dtype, world) = (bucket.dtype(), self.group.world());
            let what = format!(
                "sums of {dtype} are divided by the number of ranks, {world}, and not by {divisor} on devices"
            );
            return Err(Error::Argument(what));
        }
        let work = self.group.call_async(AllReduce { bucket, op }).map_err(consort::Error::from)?;
        Ok(Pending::then(work, move |AllReduce { mut bucket, .. }| {
            if op == ReduceOp::Sum {
                divide(bucket.dtype(), bucket.bytes_mut(), divisor)?;
            }
            Ok(bucket)
        }))
    }
}

/// How a group of so many ranks averages numbers that are to be divided by something. What is only added up
/// has yet to be [divided](divide).
pub(crate) fn average_by(dtype: Dtype, divisor: usize, world: usize) -> ReduceOp {
    if divisor == world {
        return ReduceOp::Avg;
    }
    // Numbers of few bits are added up with more: they are rounded once, as in an average.
    let scaled = ReduceOp::PremulSum(1.0 / divisor as f64);
    if Kernel::new(dtype, scaled, 1).is_ok() { scaled } else { ReduceOp::Sum }
}

/// Divides a sum of whole numbers as an average of them does.
pub(crate) fn divide(dtype: Dtype, numbers: &mut [u8], divisor: usize) -> Result<()> {
    let kernel = Kernel::new(dtype, ReduceOp::Avg, 1).map_err(consort::Error::from)?;
    let numbers = Target::from(numbers);
    kernel.dividing_by(divisor).reduce(&[numbers], &[numbers.into()]);
    Ok(())
}

/// The hook that is used if none is said: an all_reduce of the numbers as they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Average;

impl CommHook for Average {
    fn name(&self) -> &str {
        "average"
    }

    fn start(&mut self, bucket: Bucket, round: &Round<'_>) -> Result<Pending> {
        round.average(bucket)
    }

    fn works_on_devices(&self) -> bool {
        true
    }
}
