//! What compression saves.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many bytes of gradients a hook was given, and how many bytes travel in their stead.
///
/// Clones are the same: one is taken from the hook before that is given away, and looked at whenever one
/// likes. Passes that are averaged as they are do not count.
///
/// ```
/// use consort_train::{Options, PowerSgd};
///
/// let hook = PowerSgd::new();
/// let stats = hook.stats();
/// let options = Options::new().hook(hook);
/// // … train …
/// assert_eq!(stats.to_string(), "nothing was compressed yet");
/// ```
#[derive(Clone, Debug, Default)]
pub struct CompressionStats(Arc<Mutex<Counts>>);

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    before: u64,
    after: u64,
}

impl CompressionStats {
    /// How many bytes of gradients were given to the hook.
    pub fn before(&self) -> u64 {
        self.counts().before
    }

    /// How many bytes travelled in their stead, those of gradients that are not compressed among them.
    pub fn after(&self) -> u64 {
        self.counts().after
    }

    /// How many times fewer bytes travelled, once some have.
    pub fn ratio(&self) -> Option<f64> {
        let Counts { before, after } = *self.counts();
        (after > 0).then(|| before as f64 / after as f64)
    }

    /// Begins to count anew.
    pub fn clear(&self) {
        *self.counts() = Counts::default();
    }

    pub(crate) fn add(&self, before: usize, after: usize) {
        let mut counts = self.counts();
        counts.before += before as u64;
        counts.after += after as u64;
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for CompressionStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(ratio) = self.ratio() else { return f.write_str("nothing was compressed yet") };
        let (before, after) = (self.before(), self.after());
        write!(f, "{after} bytes instead of {before}: {ratio:.1} times fewer")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_count_together_until_they_are_cleared() {
        let stats = CompressionStats::default();
        assert_eq!(stats.ratio(), None);
        stats.clone().add(1000, 100);
        stats.add(500, 400);
        assert_eq!((stats.before(), stats.after(), stats.ratio()), (1500, 500, Some(3.0)));
        assert_eq!(stats.to_string(), "500 bytes instead of 1500: 3.0 times fewer");
        stats.clear();
        assert_eq!((stats.before(), stats.after()), (0, 0));
    }
}
