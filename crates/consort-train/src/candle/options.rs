//! How a model is trained on many ranks.

use std::fmt;
use std::sync::Arc;

use candle_core::Device;

/// How a [`DistributedDataParallel`](super::DistributedDataParallel) works. What is not said is as good
/// for most.
///
/// ```
/// use consort_train::candle::{Buffers, Options};
/// use consort_train::Caps;
///
/// let options = Options::new()
///     .reducer(consort_train::Options::new().caps(Caps::of(4 << 20)?))
///     .buffers(Buffers::Averaged)
///     .buffer_names(|name| name.ends_with("running_mean") || name.ends_with("running_var"));
/// # Ok::<(), consort_train::Error>(())
/// ```
#[derive(Default)]
#[must_use]
pub struct Options {
    pub(crate) reducer: crate::Options,
    pub(crate) buffers: Buffers,
    pub(crate) is_buffer: Rule,
    pub(crate) device: Option<Device>,
}

/// What becomes of buffers, which are not learned and yet change, after each
/// [step](super::DistributedDataParallel::step).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Buffers {
    /// All ranks get those of rank 0.
    #[default]
    FromRankZero,
    /// All ranks get the average of their numbers, and whole numbers from rank 0.
    Averaged,
    /// Every rank keeps its own.
    Apart,
}

/// Which names are those of buffers.
#[derive(Clone)]
pub(crate) struct Rule(Arc<dyn Fn(&str) -> bool + Send + Sync>);

impl Options {
    /// As most need it.
    pub fn new() -> Self {
        Self::default()
    }

    /// How gradients are reduced.
    pub fn reducer(mut self, options: crate::Options) -> Self {
        self.reducer = options;
        self
    }

    /// What becomes of buffers after each step.
    pub fn buffers(mut self, buffers: Buffers) -> Self {
        self.buffers = buffers;
        self
    }

    /// Which variables are buffers, by their full names. If it is not said, those whose names end in
    /// `running_mean`, `running_var` or `num_batches_tracked`. Variables of whole numbers always are.
    ///
    /// A model gets its buffers as the variables themselves, so that it can change them. They have no
    /// gradient that is averaged, and are not among
    /// [`vars`](super::DistributedDataParallel::vars).
    pub fn buffer_names(mut self, rule: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.is_buffer = Rule(Arc::new(rule));
        self
    }

    /// Where the model is: all its variables, and what it computes with. If it is not said, on the host.
    ///
    /// A CUDA device takes the feature `cuda`. Each rank says its own, and gradients are averaged there, in buckets
    /// of its memory, by NCCL: see [the module](super#on-cuda-devices).
    pub fn device(mut self, device: &Device) -> Self {
        self.device = Some(device.clone());
        self
    }
}

impl Rule {
    pub(crate) fn is_buffer(&self, name: &str) -> bool {
        (self.0)(name)
    }
}

impl Default for Rule {
    fn default() -> Self {
        Self(Arc::new(|name| {
            let last = name.rsplit('.').next().unwrap_or(name);
            matches!(last, "running_mean" | "running_var" | "num_batches_tracked")
        }))
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("reducer", &self.reducer)
            .field("buffers", &self.buffers)
            .field("device", &self.device)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_buffers_and_names_that_only_contain_them_are_not() {
        let rule = Rule::default();
        for name in ["running_mean", "bn.running_var", "a.b.num_batches_tracked"] {
            assert!(rule.is_buffer(name), "{name}");
        }
        for name in ["weight", "running_mean.weight", "bn.my_running_var"] {
            assert!(!rule.is_buffer(name), "{name}");
        }
    }
}
