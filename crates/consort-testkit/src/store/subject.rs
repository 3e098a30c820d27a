//! The store under test, and how a case fails.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use consort_store::{Deadline, Error, Limits, Missing, Refusal, Store};

/// A kind of store to be tested: how to make one, and what is special about it.
pub struct Subject {
    make: Box<dyn Fn() -> Arc<dyn Store>>,
    pub(super) longest_key: usize,
}

impl Subject {
    /// Stores as `make` makes them: new and empty each time.
    pub fn new(make: impl Fn() -> Arc<dyn Store> + 'static) -> Self {
        Self { make: Box::new(make), longest_key: Limits::STANDARD.key }
    }

    /// Says that keys over this length are refused.
    pub fn longest_key(mut self, length: usize) -> Self {
        self.longest_key = length;
        self
    }

    /// A new, empty store.
    pub fn store(&self) -> Arc<dyn Store> {
        (self.make)()
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject").field("longest_key", &self.longest_key).finish_non_exhaustive()
    }
}

/// What comes of a case: nothing, an error that should not have been, or a panic.
pub type Verdict = Result<(), Failed>;

/// A store call failed that should have worked.
pub struct Failed {
    error: Error,
    at: &'static Location<'static>,
}

impl From<Error> for Failed {
    #[track_caller]
    fn from(error: Error) -> Self {
        Self { error, at: Location::caller() }
    }
}

impl fmt::Debug for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {}: {} ({:?})", self.at, self.error, self.error)
    }
}

/// The refusal that a call is expected to meet.
#[track_caller]
pub(super) fn refusal<T: fmt::Debug>(result: Result<T, Error>) -> Refusal {
    match result {
        Err(Error::Refused(refusal)) => refusal,
        other => panic!("a refusal was due, not {other:?}"),
    }
}

/// What a call was missing that is expected to give up.
#[track_caller]
pub(super) fn missing<T: fmt::Debug>(result: Result<T, Error>) -> Missing {
    match result {
        Err(Error::Timeout { missing, .. }) => missing,
        other => panic!("the deadline was due, not {other:?}"),
    }
}

/// A deadline that a working store never comes near.
pub(super) fn soon() -> Deadline {
    Deadline::after(PATIENCE)
}

/// A deadline that is there to be missed.
pub(super) fn shortly() -> Deadline {
    Deadline::after(SHORT)
}

/// How long a call may take on a busy machine before the case counts it as stuck.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// A wait that is long enough to be told from none.
pub(super) const SHORT: Duration = Duration::from_millis(200);
