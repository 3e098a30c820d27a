//! How long a call combines numbers.

use std::cell::Cell;

use super::ticks::Ticks;

/// Adds up how long work takes that is done piece by piece. Only large pieces are timed: two looks at
/// the clock would be much of what a small one takes.
///
/// ```
/// use consort_sys::record::Stopwatch;
///
/// let watch = Stopwatch::default();
/// let data = vec![1_u64; 1 << 20];
/// let sum = watch.time(size_of_val(&data[..]), || data.iter().sum::<u64>());
/// assert_eq!(sum, 1 << 20);
/// assert!(watch.take() > 0);
/// assert_eq!(watch.take(), 0);
/// ```
#[derive(Debug)]
pub struct Stopwatch {
    ticks: Ticks,
    spent: Cell<u64>,
}

impl Stopwatch {
    /// Does some work that reads so many bytes.
    #[inline]
    pub fn time<R>(&self, bytes: usize, work: impl FnOnce() -> R) -> R {
        let began = (bytes >= WORTH_IT).then(|| self.ticks.now());
        let done = work();
        if let Some(began) = began {
            let took = self.ticks.now().saturating_sub(began);
            self.spent.set(self.spent.get().saturating_add(took));
        }
        done
    }

    /// How long it took since this was last asked, in ticks of the recording.
    #[inline]
    pub fn take(&self) -> u64 {
        self.spent.take()
    }
}

impl Default for Stopwatch {
    fn default() -> Self {
        Self { ticks: Ticks::best(), spent: Cell::new(0) }
    }
}

/// Pieces with fewer bytes are not timed: they take about a microsecond.
const WORTH_IT: usize = 32 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_pieces_are_not_timed() {
        let watch = Stopwatch::default();
        watch.time(WORTH_IT - 1, || std::thread::sleep(std::time::Duration::from_millis(1)));
        assert_eq!(watch.take(), 0);
    }

    #[test]
    fn what_takes_longer_counts_more() {
        let watch = Stopwatch::default();
        let rest = |times: u64| {
            let time = std::time::Duration::from_millis(2);
            (0..times).for_each(|_| watch.time(WORTH_IT, || std::thread::sleep(time)));
            watch.take()
        };
        let least = Ticks::best().in_time(std::time::Duration::from_millis(2));
        assert!(rest(1) >= least * 9 / 10);
        assert!(rest(5) >= least * 9 / 2);
    }
}
