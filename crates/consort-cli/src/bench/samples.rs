//! What each rank timed, and how the figures of a point are made of it.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::record::{Figures, median};

/// What one rank timed at one point. Times are nanoseconds of the clock that all ranks share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Samples {
    /// How many calls a block has.
    pub(crate) calls: u64,
    /// When each block started and ended.
    pub(crate) blocks: Vec<(u64, u64)>,
    /// How long single calls took to three digits, and how many took so long.
    pub(crate) singles: Vec<(u64, u64)>,
}

/// Sorts single times into the bars of a histogram.
pub(crate) fn tally(singles: &[u64]) -> Vec<(u64, u64)> {
    let mut all = histogram();
    for &time in singles {
        all.saturating_record(time.max(1));
    }
    all.iter_recorded().map(|bar| (bar.value_iterated_to(), bar.count_at_value())).collect()
}

/// Puts all ranks' samples together.
///
/// # Errors
/// When they are not of the same blocks, or there are none.
pub(crate) fn merge(ranks: &[Samples]) -> Result<Figures, String> {
    let first = ranks.first().ok_or("no rank has measured anything")?;
    let alike = |it: &Samples| (it.calls, it.blocks.len()) == (first.calls, first.blocks.len());
    if !ranks.iter().all(alike) || first.blocks.is_empty() || first.calls == 0 {
        return Err("the ranks have measured different things".to_owned());
    }
    let times: Vec<f64> = (0..first.blocks.len()).map(|block| block_time(ranks, block)).collect();
    let mut singles = histogram();
    for &(time, count) in ranks.iter().flat_map(|rank| &rank.singles) {
        singles.saturating_record_n(time.max(1), count);
    }
    Ok(Figures {
        min_us: times.iter().copied().fold(f64::INFINITY, f64::min),
        p50_us: median(times),
        p99_us: singles.value_at_quantile(0.99) as f64 * 1e-3,
    })
}

/// From the earliest start to the latest end over ranks, by the number of calls; microseconds.
fn block_time(ranks: &[Samples], block: usize) -> f64 {
    let each = || ranks.iter().map(|rank| rank.blocks[block]);
    let start = each().map(|(start, _)| start).min().unwrap_or(0);
    let end = each().map(|(_, end)| end).max().unwrap_or(0);
    end.saturating_sub(start) as f64 * 1e-3 / ranks[0].calls as f64
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_max(LONGEST, SIGNIFICANT_DIGITS).expect("the bounds are reasonable")
}

/// Nanoseconds: half an hour. Longer calls count as this.
const LONGEST: u64 = 1_800_000_000_000;

const SIGNIFICANT_DIGITS: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(blocks: &[(u64, u64)], singles: &[(u64, u64)]) -> Samples {
        Samples { calls: 10, blocks: blocks.to_vec(), singles: singles.to_vec() }
    }

    #[test]
    fn a_block_lasts_from_the_first_start_to_the_last_end() {
        let early = samples(&[(1_000, 10_000), (20_000, 30_000), (40_000, 60_000)], &[]);
        let late = samples(&[(2_000, 11_000), (21_000, 25_000), (39_000, 50_000)], &[]);
        let figures = merge(&[early, late]).unwrap();
        assert_eq!((figures.p50_us, figures.min_us), (1.0, 1.0));
        let uneven = samples(&[(0, 30_000), (0, 10_000), (0, 20_000)], &[]);
        let figures = merge(&[uneven]).unwrap();
        assert_eq!((figures.p50_us, figures.min_us), (2.0, 1.0));
    }

    #[test]
    fn slow_calls_of_any_rank_show_in_the_tail() {
        let quick = samples(&[(0, 1)], &[(1_000, 100)]);
        let slow = samples(&[(0, 1)], &[(1_000, 97), (50_000, 3)]);
        let p99 = |ranks: &[Samples]| merge(ranks).unwrap().p99_us;
        assert_eq!(p99(&[quick.clone(), quick.clone()]), 1.0);
        let tail = p99(&[quick, slow]);
        assert!((tail - 50.0).abs() < 0.1, "{tail}");
    }

    #[test]
    fn samples_of_different_blocks_are_not_mixed() {
        let one = samples(&[(0, 1)], &[]);
        let two = samples(&[(0, 1), (2, 3)], &[]);
        assert!(merge(&[one, two]).is_err());
        assert!(merge(&[]).is_err());
        assert!(merge(&[Samples::default()]).is_err());
    }

    #[test]
    fn single_times_are_sorted_into_bars_of_three_digits() {
        assert_eq!(tally(&[7, 9, 7, 0]), [(1, 1), (7, 2), (9, 1)]);
        let bars = tally(&[1_000_000, 1_000_100, 2_000_000, u64::MAX]);
        let counts: Vec<u64> = bars.iter().map(|(_, count)| *count).collect();
        assert_eq!(counts, [2, 1, 1]);
        assert!(bars[0].0.abs_diff(1_000_000) < 1_000, "{bars:?}");
    }

    #[test]
    fn samples_travel_as_one_line() {
        let samples = samples(&[(1, 2)], &[(7, 3), (9, 1)]);
        let line = serde_json::to_string(&samples).unwrap();
        assert_eq!(line, r#"{"calls":10,"blocks":[[1,2]],"singles":[[7,3],[9,1]]}"#);
        assert_eq!(serde_json::from_str::<Samples>(&line).unwrap(), samples);
    }
}
