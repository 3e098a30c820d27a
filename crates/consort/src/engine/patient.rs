//! How long somebody waits for the other ranks.

use std::time::{Duration, Instant};

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

    pub(super) fn waiting(&self, number: u64) -> Waiting {
        Waiting { call: self.description.to_string(), number, waited: self.since.waited() }
    }
}

/// When somebody first had to sleep. Most never do, and need not know the time.
#[derive(Debug, Default)]
pub(crate) struct Since(Option<Instant>);

impl Since {
    /// How long ago that was, if it is not now.
    pub(crate) fn elapsed(&mut self) -> Duration {
        self.0.get_or_insert_with(Instant::now).elapsed()
    }

    /// How long ago that was, if it ever was.
    pub(crate) fn waited(&self) -> Duration {
        self.0.map_or(Duration::ZERO, |began| began.elapsed())
    }
}
