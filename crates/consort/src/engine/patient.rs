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
}

impl<'p> Patient<'p> {
    #[inline]
    pub(super) fn new(pace: Pace<'p>, description: Description) -> Self {
        Self { pace, description, since: Since::default() }
    }

    pub(super) fn is_late(&mut self) -> bool {
        let elapsed = self.since.elapsed();
        match self.pace {
            Pace::Here(timeout, line) => {
                elapsed >= timeout
                    || line.is_some_and(|line| line.patience_of_others().has_passed())
            }
            Pace::Elsewhere(notes) => notes.is_late(),
        }
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
