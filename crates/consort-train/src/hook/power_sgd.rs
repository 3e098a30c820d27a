//! Gradients that travel as a few columns.

mod chance;
mod grouping;
mod journey;
mod kept;
mod matrix;
mod settings;

use std::fmt;
use std::sync::Arc;

use consort::Dtype;

use self::kept::Kept;
use self::settings::Settings;
use super::passes::Passes;
use super::{CommHook, CompressionStats, Pending, Round};
use crate::bucket::Bucket;
use crate::error::{Error, Result};

/// Lets gradients that are matrices travel as the product of two thin ones: tens to hundreds of times
/// fewer bytes, for a gradient that is only nearly right.
///
/// # What it does
///
/// A gradient of shape `[n, …]` is a matrix M of n rows and m columns, whatever its strides. Such matrices
/// mostly have a few directions in which nearly everything lies. PowerSGD keeps `rank` of them: it looks
/// for n × rank numbers P and m × rank numbers Q whose product P·Qᵀ is near the average of all ranks' M,
/// by one step of a power iteration:
///
/// 1. P = M·Q with the Q of the last pass, added up over all ranks: it is on its way while backward goes on;
/// 2. the columns of P are made perpendicular, on every rank alike;
/// 3. Q = Mᵀ·P, averaged over all ranks, when the bucket is waited for;
/// 4. P·Qᵀ is the gradient, with the same bits on every rank.
///
/// So (n + m) · rank numbers travel instead of n · m: for a layer of 4096 × 4096 and rank 4 that is 512
/// times fewer. Gradients that would not become smaller by at least the
/// [rate](Self::min_compression_rate), as those of biases, travel as they are, all of a bucket together.
///
/// # What it loses
///
/// What the columns do not show is lost in this pass. With [feedback](Self::error_feedback), which is on
/// if nothing is said, each rank keeps what was lost and adds it to its next gradient: in the long run
/// everything arrives, later. That takes memory for a second copy of the compressed gradients. A parameter
/// that nobody has used in a pass is left as it is, and what was kept of it does not arrive.
///
/// A gradient with a number that is not finite becomes NaN as a whole, on every rank, and what was kept
/// of it is forgotten.
///
/// # When to use it
///
/// When the network is what a step waits for ([`Noop`](crate::Noop) tells), and matrices are large. The
/// model may need a few more steps, or a higher rank, to learn as much. Early gradients change too fast
/// for it, so the first [1000 passes](Self::after) are averaged as they are.
///
/// It computes with `f32` for gradients of 32 and 16 bits, with `f64` for those of 64; P and Q travel so.
/// Gradients of other dtypes travel as they are. A [`Cast`](crate::Cast) before it makes only those smaller
/// that are not compressed.
///
/// ```
/// use consort::Dtype;
/// use consort_train::{Options, Parameter, PowerSgd, Reducer};
///
/// # let group = consort::Builder::new().rank(0).world(1).init()?;
/// let hook = PowerSgd::of_rank(1)?.after(0);
/// let stats = hook.stats();
/// let parameters = vec![Parameter::new("weight", Dtype::F32, &[8, 8])];
/// let reducer = Reducer::new(&group, parameters, Options::new().hook(hook))?;
///
/// // All rows are multiples of one: a single direction is all there is.
/// let gradient: Vec<f32> = (0..64).map(|at| (1 + at / 8) as f32 * (1 + at % 8) as f32).collect();
/// let pass = reducer.begin()?;
/// pass.ready(0, &gradient)?;
/// let averages = pass.finish()?;
/// let given = averages.gradient::<f32>(0)?.expect("it was used");
/// assert!(given.iter().zip(&gradient).all(|(given, exact)| (given - exact).abs() < 1e-3));
/// assert_eq!(stats.to_string(), "64 bytes instead of 256: 4.0 times fewer");
/// # Ok::<(), consort_train::Error>(())
/// ```
pub struct PowerSgd {
    name: String,
    settings: Settings,
    passes: Passes,
    singles: Arc<Kept<f32>>,
    doubles: Arc<Kept<f64>>,
    stats: CompressionStats,
}

impl PowerSgd {
    /// With one column for each side.
    pub fn new() -> Self {
        Self::with(Settings::default())
    }

    /// With so many columns for each side: more are nearer, and more to send.
    ///
    /// # Errors
    /// When it is 0.
    pub fn of_rank(rank: usize) -> Result<Self> {
        if rank == 0 {
            let what = "PowerSGD of rank 0 would send nothing: say 1 or more";
            return Err(Error::Argument(what.to_owned()));
        }
        Ok(Self::with(Settings { rank, ..Settings::default() }))
    }

    /// Averages so many passes as they are before it compresses: 1000 if nothing is said. Local passes
    /// are not among them. They are counted anew when the reducer gets another group, in which there may
    /// be ranks that have seen none.
    ///
    /// It may be 0: what is kept from pass to pass belongs to parameters, and survives when buckets are made
    /// anew after the first pass.
    #[must_use]
    pub fn after(self, passes: u64) -> Self {
        self.but(|settings| settings.after = passes)
    }

    /// Compresses only what becomes smaller by more than this factor: 2 if nothing is said. A gradient of
    /// n × m numbers is compressed if (n + m) · rank · rate < n · m.
    ///
    /// # Errors
    /// When it is not a positive number.
    pub fn min_compression_rate(self, rate: f64) -> Result<Self> {
        if !(rate.is_finite() && rate > 0.0) {
            let what = format!("a compression rate of {rate}: say a number above 0, as 2");
            return Err(Error::Argument(what));
        }
        Ok(self.but(|settings| settings.rate = rate))
    }

    /// Whether what is lost in a pass is added to the gradients of the next: yes if nothing is said.
    #[must_use]
    pub fn error_feedback(self, is_on: bool) -> Self {
        self.but(|settings| settings.has_feedback = is_on)
    }

    /// Whether a pass begins with the Q of the last one, so that it gets nearer from pass to pass: yes if
    /// nothing is said. Otherwise each begins by chance.
    #[must_use]
    pub fn warm_start(self, is_on: bool) -> Self {
        self.but(|settings| settings.is_warm = is_on)
    }

    /// Where chance begins: 0 if nothing is said.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        self.but(|settings| settings.seed = seed)
    }

    /// Makes one matrix, nearly square, of all gradients of a bucket. It needs fewer and larger steps, and
    /// biases are compressed, too; but the matrix mixes what has nothing in common, so less of it is kept.
    #[must_use]
    pub fn batched(self) -> Self {
        self.but(|settings| settings.is_batched = true)
    }

    /// What it saves.
    pub fn stats(&self) -> CompressionStats {
        self.stats.clone()
    }

    fn with(settings: Settings) -> Self {
        Self {
            name: settings.to_string(),
            settings,
            passes: Passes::default(),
            singles: Arc::default(),
            doubles: Arc::default(),
            stats: CompressionStats::default(),
        }
    }

    fn but(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self.name = self.settings.to_string();
        self
    }
}

impl CommHook for PowerSgd {
    fn name(&self) -> &str {
        &self.name
    }

    fn start(&mut self, bucket: Bucket, round: &Round<'_>) -> Result<Pending> {
        let pass = self.passes.number(round);
        let Self { settings, singles, doubles, stats, .. } = self;
        if pass <= settings.after {
            return round.average(bucket);
        }
        let at = (round, pass);
        match bucket.dtype() {
            Dtype::F64 => journey::begin(bucket, at, settings, doubles, stats),
            Dtype::F32 | Dtype::F16 | Dtype::Bf16 => {
                journey::begin(bucket, at, settings, singles, stats)
            }
            _ => round.average(bucket),
        }
    }

    /// Others are put in their place: a bucket that is still on its way then leaves nothing behind.
    fn reset(&mut self) {
        self.passes = Passes::default();
        self.singles = Arc::default();
        self.doubles = Arc::default();
    }
}

impl Default for PowerSgd {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for PowerSgd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(PowerSgd::of_rank(0).unwrap_err().to_string().contains("rank 0"));
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(PowerSgd::new().min_compression_rate(rate).is_err(), "{rate}");
        }
    }

    #[test]
    fn hooks_that_differ_in_anything_have_different_names() {
        let all = [
            PowerSgd::new(),
            PowerSgd::of_rank(2).unwrap(),
            PowerSgd::new().after(5),
            PowerSgd::new().min_compression_rate(3.0).unwrap(),
            PowerSgd::new().error_feedback(false),
            PowerSgd::new().warm_start(false),
            PowerSgd::new().seed(1),
            PowerSgd::new().batched(),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(all[..at].iter().all(|other| other.name() != one.name()), "{one:?}");
        }
        let small = crate::Cast::bf16().with(PowerSgd::of_rank(2).unwrap());
        assert!(
            small.name().starts_with("bf16 PowerSGD of rank 2 (after 1000 passes"),
            "{small:?}"
        );
    }
}
