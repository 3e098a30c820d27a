//! When to stop waiting.

use std::time::{Duration, Instant};

/// The moment at which a waiting call gives up, on this process's monotonic clock.
///
/// There are no magic values: a deadline is a moment, or [`never`](Deadline::never). One that
/// has already passed means *look once, do not wait*, in every store.
///
/// ```
/// use consort_store::Deadline;
/// use std::time::Duration;
///
/// let soon = Deadline::after(Duration::from_secs(5));
/// assert!(soon.remaining().unwrap() <= Duration::from_secs(5));
/// assert!(Deadline::now().has_passed());
/// assert_eq!(Deadline::never().remaining(), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// No limit.
    pub const fn never() -> Self {
        Self(None)
    }

    /// A fixed moment.
    pub const fn at(moment: Instant) -> Self {
        Self(Some(moment))
    }

    /// `limit` from now. A limit beyond what the clock can express is no limit.
    pub fn after(limit: Duration) -> Self {
        Self(clock_now().checked_add(limit))
    }

    /// Already passed: look once and come back.
    pub fn now() -> Self {
        Self(Some(clock_now()))
    }

    /// The moment, unless there is none.
    pub const fn instant(&self) -> Option<Instant> {
        self.0
    }

    /// How long is left: `None` for ever, zero once it has passed.
    pub fn remaining(&self) -> Option<Duration> {
        self.0.map(|moment| moment.saturating_duration_since(clock_now()))
    }

    /// Whether the moment has come.
    pub fn has_passed(&self) -> bool {
        self.remaining() == Some(Duration::ZERO)
    }

    /// The earlier of two deadlines.
    pub fn min(self, other: Self) -> Self {
        match (self.0, other.0) {
            (Some(a), Some(b)) => Self(Some(a.min(b))),
            (one, None) | (None, one) => Self(one),
        }
    }
}

/// What this process's clock shows; in a test that plays one, what that shows.
#[cfg_attr(
    not(test),
    expect(clippy::disallowed_methods, reason = "a deadline is where the clock enters the crate")
)]
pub(crate) fn clock_now() -> Instant {
    #[cfg(test)]
    if let Some(now) = played::now() {
        return now;
    }
    Instant::now()
}

/// A clock that a test sets, for the thread it runs on.
#[cfg(test)]
pub(crate) mod played {
    use std::cell::Cell;
    use std::time::Instant;

    pub(crate) fn set(now: Instant) {
        NOW.set(Some(now));
    }

    pub(super) fn now() -> Option<Instant> {
        NOW.get()
    }

    thread_local! {
        static NOW: Cell<Option<Instant>> = const { Cell::new(None) };
    }
}
