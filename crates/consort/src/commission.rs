//! What somebody has been given to carry out, until it says what came of it.

use std::sync::Arc;
use std::time::Instant;

use consort_store::Deadline;

use crate::error::{Error, Result};
use crate::work::Completion;

/// An errand, and all that has to be known to tell what came of it. One that is dropped has failed:
/// whoever waits for it hears of its end in any case.
pub(crate) struct Commission<E: Settle + ?Sized> {
    /// `None` when it was told what came of it.
    errand: Option<Box<E>>,
    operation: &'static str,
    until: Deadline,
    /// Which of the group's calls it is; 0 if it is none of them.
    number: u64,
    called: Instant,
    started: Option<Instant>,
}

/// An errand, for somebody who waits for it.
pub(crate) trait Settle: Send {
    /// What is known if it succeeds.
    type Gain;
    /// Tells those who want to hear of it before it is known.
    fn announce(&mut self, completion: &Completion);
    /// Makes it known, and runs nobody else's code.
    fn settle(
        self: Box<Self>,
        result: Result<Self::Gain>,
        completion: Completion,
    ) -> Arc<dyn Known>;
}

/// What is known, for those who wait for it.
pub(crate) trait Known {
    /// Wakes them.
    fn wake(&self);
}

impl<E: Settle + ?Sized> Commission<E> {
    pub(crate) fn new(errand: Box<E>, operation: &'static str, until: Deadline) -> Self {
        let called = Instant::now();
        Self { errand: Some(errand), operation, until, number: 0, called, started: None }
    }

    pub(crate) fn errand(&self) -> &E {
        self.errand.as_deref().expect("it is there until its end is known")
    }

    pub(crate) fn errand_mut(&mut self) -> &mut E {
        self.errand.as_deref_mut().expect("it is there until its end is known")
    }

    /// Says which of the group's calls it is.
    pub(crate) fn accept(&mut self, number: u64) {
        self.number = number;
    }

    /// Says that it is being carried out.
    pub(crate) fn begin(&mut self) {
        self.started.get_or_insert_with(Instant::now);
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn operation(&self) -> &'static str {
        self.operation
    }

    /// When it has to be done.
    pub(crate) fn deadline(&self) -> Deadline {
        self.until
    }

    /// When it was asked for.
    pub(crate) fn called(&self) -> Instant {
        self.called
    }

    /// Says what came of it, with something done in the moment in which it becomes known.
    pub(crate) fn finish_within(
        mut self,
        result: Result<E::Gain>,
        within: impl FnOnce(&mut dyn FnMut()),
    ) {
        let Some(mut errand) = self.errand.take() else { return };
        let completion = self.completion(&result);
        errand.announce(&completion);
        let (mut known, mut rest) = (None, Some((errand, result, completion)));
        within(&mut || {
            if let Some((errand, result, completion)) = rest.take() {
                known = Some(errand.settle(result, completion));
            }
        });
        known.into_iter().for_each(|known| known.wake());
    }

    fn completion(&self, result: &Result<E::Gain>) -> Completion {
        let finished = Instant::now();
        Completion {
            operation: self.operation,
            number: self.number,
            called: self.called,
            started: self.started.unwrap_or(finished),
            finished,
            error: result.as_ref().err().map(Error::to_string),
        }
    }
}

impl<E: Settle + ?Sized> Drop for Commission<E> {
    fn drop(&mut self) {
        if let Some(mut errand) = self.errand.take() {
            let result = Err(Error::Abandoned { operation: self.operation });
            let completion = self.completion(&result);
            errand.announce(&completion);
            errand.settle(result, completion).wake();
        }
    }
}
