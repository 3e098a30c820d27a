//! How long somebody waits for the other ranks.

use std::time::{Duration, Instant};

use super::lookout::Lookout;
use super::pace::Pace;
use super::verdict::Waiting;
use crate::call::Description;

/// How a call waits, and what it is.
#[derive(Debug)]
pub(super) struct Patient<'p> {
    pub(super) pace: Pace<'p>,
    pub(super) description: Description,
    since: Since,
    late_since: Option<Instant>,
}

impl<'p> Patient<'p> {
    #[inline]
    pub(super) fn new(pace: Pace<'p>, description: Description) -> Self {
        Self { pace, description, since: Since::default(), late_since: None }
    }

    /// One whose call began at this time, where that is known.
    pub(super) fn since(mut self, began: Instant) -> Self {
        self.since = Since::from(began);
        self
    }

    pub(super) fn is_late(&mut self) -> bool {
        let elapsed = self.since.elapsed();
        let is_late = match self.pace {
            Pace::Here(timeout, line) => {
                elapsed >= timeout
                    || line.is_some_and(|line| line.patience_of_others().has_passed())
            }
            Pace::Elsewhere(notes) => notes.is_late(),
        };
        if is_late {
            self.late_since.get_or_insert_with(Instant::now);
        }
        is_late
    }

    /// Whether it was late so long ago. Those who may wait for one that waits for another, let those
    /// speak first who know better.
    pub(super) fn is_late_for(&mut self, grace: Duration) -> bool {
        self.is_late() && self.late_since.is_some_and(|since| since.elapsed() >= grace)
    }

    /// Says that this call of the group has to wait long for ranks, if it is time to.
    pub(super) fn warn(&mut self, lookout: &Lookout, number: u64, awaited: &[usize]) {
        if self.since.is_to_warn(lookout.warn_after()) {
            lookout.warn(&self.waiting(number), awaited);
        }
    }

    /// Whether it has waited so long.
    pub(super) fn has_waited(&self, time: Duration) -> bool {
        self.since.waited() >= time
    }

    pub(super) fn waiting(&self, number: u64) -> Waiting {
        Waiting { call: self.description.to_string(), number, waited: self.since.waited() }
    }
}

/// When somebody first had to sleep, or began if that is known. Most never sleep, and need not know the time.
#[derive(Debug, Default)]
pub(crate) struct Since {
    began: Option<Instant>,
    /// How often it was said that this takes long.
    warned: u32,
}

impl Since {
    /// How long ago that was, if it is not now.
    pub(crate) fn elapsed(&mut self) -> Duration {
        self.began.get_or_insert_with(Instant::now).elapsed()
    }

    /// How long ago that was, if it ever was.
    pub(crate) fn waited(&self) -> Duration {
        self.began.map_or(Duration::ZERO, |began| began.elapsed())
    }

    /// Whether to say that it takes long: for the first time after so long, then after twice that, and
    /// so on. Each time is told once.
    pub(crate) fn is_to_warn(&mut self, after: Option<Duration>) -> bool {
        let is_time = after.is_some_and(|after| is_overdue(self.elapsed(), after, self.warned));
        self.warned += u32::from(is_time);
        is_time
    }
}

impl From<Instant> for Since {
    fn from(began: Instant) -> Self {
        Self { began: Some(began), warned: 0 }
    }
}

/// Whether to say that something takes long of which that was said so often: each time after twice as
/// long.
pub(super) fn is_overdue(elapsed: Duration, after: Duration, warned: u32) -> bool {
    elapsed >= after.saturating_mul(1_u32.checked_shl(warned).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_long_is_told_at_growing_intervals() {
        let after = Duration::from_secs(30);
        let mut warned = 0;
        let told: Vec<u64> = (0..700)
            .filter(|&second| {
                let is_time = is_overdue(Duration::from_secs(second), after, warned);
                warned += u32::from(is_time);
                is_time
            })
            .collect();
        assert_eq!(told, [30, 60, 120, 240, 480]);
        assert!(!is_overdue(Duration::from_secs(1 << 30), after, 40));
    }

    #[test]
    fn who_is_not_to_warn_never_does() {
        let mut since = Since::default();
        assert!(!since.is_to_warn(None));
        assert!(since.is_to_warn(Some(Duration::ZERO)));
    }
}
