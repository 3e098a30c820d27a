//! What ticks are in the time that people read.

use super::layout::head;
use super::ticks::{Moment, rate};

/// How to tell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    known: Moment,
    /// Nanoseconds in a tick.
    rate: f64,
}

impl Times {
    /// As two copies of a head say, of which one was made after the other.
    pub(super) fn of(first: &[u64], second: &[u64]) -> Self {
        let moment = |place: usize| Moment {
            ticks: first[place],
            monotonic: first[place + 1],
            wall: first[place + 2],
        };
        let begun = moment(head::FIRST);
        let (stamp, words) = (first[head::LATEST], head::LATEST..head::LATEST + 4);
        let is_whole =
            stamp != 0 && stamp.is_multiple_of(2) && first[words.clone()] == second[words];
        let latest = if is_whole { moment(head::LATEST + 1) } else { begun };
        let is_long = latest.monotonic.saturating_sub(begun.monotonic) >= LONG;
        let measured = rate(begun, latest).filter(|_| is_long);
        let rate = measured.unwrap_or(f64::from_bits(first[head::RATE]));
        let is_possible = rate.is_finite() && (SLOWEST..FASTEST).contains(&rate);
        Self { known: latest, rate: if is_possible { rate } else { 1.0 } }
    }

    /// A moment, in nanoseconds since 1970.
    pub(super) fn wall(&self, ticks: u64) -> u64 {
        let Moment { ticks: known, wall, .. } = self.known;
        match ticks.checked_sub(known) {
            Some(later) => wall.saturating_add(self.span(later)),
            None => wall.saturating_sub(self.span(known - ticks)),
        }
    }

    /// How many nanoseconds so many ticks take.
    pub(super) fn span(&self, ticks: u64) -> u64 {
        (ticks as f64 * self.rate) as u64
    }
}

/// Moments that lie so far apart tell more of the rate than a short measurement, in nanoseconds.
const LONG: u64 = 50_000_000;
/// No clock ticks a thousand times in a nanosecond, or once in a second.
const SLOWEST: f64 = 1e-3;
const FASTEST: f64 = 1e9;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::layout::PAGE_WORDS;

    fn page(first: [u64; 3], latest: [u64; 4], rate: f64) -> Vec<u64> {
        let mut page = vec![0; PAGE_WORDS];
        page[head::FIRST..head::FIRST + 3].copy_from_slice(&first);
        page[head::LATEST..head::LATEST + 4].copy_from_slice(&latest);
        page[head::RATE] = rate.to_bits();
        page
    }

    #[test]
    fn moments_far_apart_say_how_long_a_tick_takes() {
        let page = page([1000, 0, 5_000], [2, 1000 + LONG, 2 * LONG, 5_000 + 2 * LONG], 7.0);
        let times = Times::of(&page, &page);
        assert_eq!(times.span(10), 20);
        assert_eq!(times.wall(1000 + LONG + 5), 5_000 + 2 * LONG + 10);
        assert_eq!(times.wall(1000 + LONG - 5), 5_000 + 2 * LONG - 10);
    }

    #[test]
    fn a_moment_that_is_being_written_does_not_count() {
        let early = page([1000, 0, 5_000], [3, 9, 9, 9], 2.0);
        assert_eq!(Times::of(&early, &early).wall(1010), 5_020);
        let (before, after) =
            (page([1000, 0, 5_000], [2, 9, 9, 9], 2.0), page([1000, 0, 5_000], [4, 8, 8, 8], 2.0));
        assert_eq!(Times::of(&before, &after).wall(1010), 5_020);
    }

    #[test]
    fn nonsense_is_no_rate() {
        for rate in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e300] {
            let page = page([0; 3], [0; 4], rate);
            assert_eq!(Times::of(&page, &page).span(10), 10);
        }
    }
}
