//! What was begun with a bucket.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use consort::Work;

use crate::bucket::Bucket;
use crate::error::{Error, Result};

/// A bucket on its way.
#[must_use = "the bucket comes back from it"]
pub struct Pending<T = Bucket> {
    finish: Box<dyn FnOnce() -> Result<T> + Send>,
    arrival: Arrival,
}

/// When what was on its way had come, if somebody has noted it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arrival(Arc<OnceLock<Instant>>);

impl Arrival {
    pub(crate) fn get(&self) -> Option<Instant> {
        self.0.get().copied()
    }
}

impl<T: 'static> Pending<T> {
    /// What is done when the bucket is waited for.
    pub fn new(finish: impl FnOnce() -> Result<T> + Send + 'static) -> Self {
        Self { finish: Box::new(finish), arrival: Arrival::default() }
    }

    /// Waits for a work, and goes on with what it gives.
    pub fn then<G, B>(
        work: Work<G, B>,
        finish: impl FnOnce(G) -> Result<T> + Send + 'static,
    ) -> Self
    where
        G: Send + 'static,
        B: Send + 'static,
    {
        let arrival = Arrival::default();
        let noted = arrival.clone();
        work.on_done(move |call| {
            let _ = noted.0.set(call.finished);
        });
        let finish = move || finish(work.wait().map_err(consort::Error::from)?);
        Self { finish: Box::new(finish), arrival }
    }

    /// The same, with something done to the bucket afterwards.
    pub fn and_then<U: 'static>(
        self,
        finish: impl FnOnce(T) -> Result<U> + Send + 'static,
    ) -> Pending<U> {
        let arrival = self.arrival.clone();
        Pending { finish: Box::new(move || finish(self.wait()?)), arrival }
    }

    /// The same, with another error if it fails.
    pub(crate) fn map_err(self, change: impl FnOnce(Error) -> Error + Send + 'static) -> Self {
        let arrival = self.arrival.clone();
        Self { finish: Box::new(move || self.wait().map_err(change)), arrival }
    }

    /// Waits for the bucket.
    ///
    /// # Errors
    /// Why it could not be averaged.
    pub fn wait(self) -> Result<T> {
        (self.finish)()
    }

    /// Tells when it has come, also after it was waited for.
    pub(crate) fn arrival(&self) -> Arrival {
        self.arrival.clone()
    }
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a bucket on its way")
    }
}
