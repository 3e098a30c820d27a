//! When it is time. Pure: it counts steps.

use crate::error::{Error, Result};

/// Counts steps, and says which of several periods is over.
#[derive(Debug)]
pub(super) struct Schedule {
    periods: Vec<u64>,
    /// So many steps do not count.
    pub(super) after: u64,
    /// How many there were, with those that do not count.
    pub(super) taken: u64,
}

impl Schedule {
    pub(super) fn new(periods: Vec<u64>) -> Result<Self> {
        let is_there_twice = |(at, period)| periods[..at].contains(period);
        if periods.is_empty()
            || periods.contains(&0)
            || periods.iter().enumerate().any(is_there_twice)
        {
            return Err(Error::Argument(format!(
                "periods of {periods:?} steps: give at least one, none of 0 and none twice"
            )));
        }
        Ok(Self { periods, after: 0, taken: 0 })
    }

    /// A step is taken: gives which period is over, the largest of several.
    pub(super) fn step(&mut self) -> Option<usize> {
        self.taken += 1;
        let counted = self.taken.checked_sub(self.after).filter(|&counted| counted > 0)?;
        let over = self.periods.iter().enumerate().filter(|(_, period)| counted % **period == 0);
        over.max_by_key(|(_, period)| **period).map(|(level, _)| level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_period_that_is_over_counts() {
        let mut schedule = Schedule::new(vec![4, 2, 6]).unwrap();
        let steps: Vec<Option<usize>> = (0..12).map(|_| schedule.step()).collect();
        let every_other: Vec<Option<usize>> = steps.iter().skip(1).step_by(2).copied().collect();
        assert_eq!(every_other, [Some(1), Some(0), Some(2), Some(0), Some(1), Some(2)]);
        assert!(steps.iter().step_by(2).all(Option::is_none));
    }

    #[test]
    fn steps_before_the_first_period_do_not_count() {
        let mut schedule = Schedule::new(vec![3]).unwrap();
        schedule.after = 5;
        let over: Vec<u64> = (1..=12).filter(|_| schedule.step().is_some()).collect();
        assert_eq!((over, schedule.taken), (vec![8, 11], 12));
    }

    #[test]
    fn periods_that_make_no_sense_are_refused() {
        for periods in [vec![], vec![0], vec![2, 0], vec![3, 2, 3]] {
            assert!(Schedule::new(periods.clone()).is_err(), "{periods:?}");
        }
    }
}
