//! What others than its holder may know of a work.

use std::sync::{Arc, Weak};

use super::{Outcome, Work};
use crate::backend::Backend;
use crate::engine::waits_for_itself;
use crate::error::Error;
use crate::home::Home;

/// Whether a call is done, and whether there is any use in waiting for it on this thread. It keeps neither
/// its buffers nor its group alive, and no lock is needed to ask it.
#[derive(Clone)]
pub(crate) struct Prospect {
    outcome: Weak<dyn Knowable>,
    backend: Weak<dyn Backend>,
    operation: &'static str,
    number: u64,
    home: Home,
}

impl<T: Send + 'static, B: Send + 'static> Work<T, B> {
    pub(crate) fn prospect(&self) -> Prospect {
        let Self { outcome, backend, operation, number, home } = self;
        let outcome: Arc<dyn Knowable> = outcome.clone();
        Prospect {
            outcome: Arc::downgrade(&outcome),
            backend: Arc::downgrade(backend),
            operation,
            number: *number,
            home: *home,
        }
    }
}

impl Prospect {
    /// Whether the call is done. Once it is, it stays so.
    pub(crate) fn is_known(&self) -> bool {
        // Whoever carries it out holds the outcome until it is known.
        self.outcome.upgrade().is_none_or(|outcome| outcome.is_known())
    }

    /// Why there is no use in waiting: in a forked child nobody carries it out, and who is carrying out
    /// another call of the group does not come to this one.
    pub(crate) fn obstacle(&self) -> Option<Error> {
        if let Err(forked) = self.home.check() {
            return Some(forked);
        }
        let is_carried_here =
            || self.backend.upgrade().is_some_and(|backend| backend.is_carried_here());
        (self.number > 0 && !self.is_known() && is_carried_here())
            .then(|| waits_for_itself(self.operation))
    }
}

/// An outcome, whatever comes of it.
trait Knowable: Send + Sync {
    fn is_known(&self) -> bool;
}

impl<T: Send, B: Send> Knowable for Outcome<T, B> {
    fn is_known(&self) -> bool {
        Outcome::is_known(self)
    }
}
