//! How often to look again.

use std::thread;
use std::time::Duration;

use crate::deadline::Deadline;

/// Pauses that grow from short to bearable: what comes soon is seen soon, what takes long costs
/// little to wait for.
#[derive(Debug)]
pub(crate) struct Pace {
    pause: Duration,
    longest: Duration,
}

impl Pace {
    pub(crate) fn new(first: Duration, longest: Duration) -> Self {
        Self { pause: first, longest }
    }

    /// Sleeps, but not beyond `until`.
    pub(crate) fn sleep(&mut self, until: Deadline) {
        thread::sleep(until.remaining().map_or(self.pause, |left| left.min(self.pause)));
        self.pause = (self.pause * 3 / 2).min(self.longest);
    }
}
