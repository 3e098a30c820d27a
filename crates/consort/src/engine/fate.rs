//! What becomes of a group, as every thread of a rank may know it.

use std::sync::{Arc, OnceLock};

use consort_sys::board::Alarm;

use super::verdict::Failure;
use crate::error::Error;

/// Whether a group has failed, and why. Clones are about the same group.
#[derive(Clone, Debug)]
pub(super) struct Fate {
    group: Arc<str>,
    me: usize,
    /// What the rank itself has found, or heard first.
    failure: Arc<OnceLock<Failure>>,
    alarm: Alarm,
}

impl Fate {
    pub(super) fn new(group: &str, me: usize, alarm: Alarm) -> Self {
        Self { group: group.into(), me, failure: Arc::default(), alarm }
    }

    /// Ends the group, here and for everyone else. What this rank knows first is what it keeps to.
    pub(super) fn decide(&self, failure: Failure) -> Error {
        let words = (!matches!(failure, Failure::Told { .. })).then(|| failure.to_string());
        // Known before it is heard, so that no other thread takes it for something it was told.
        let failure = self.failure.get_or_init(|| failure);
        if let Some(words) = words {
            self.alarm.halt(&words);
        }
        failure.error(&self.group, self.me)
    }

    /// Ends the group without a failure, by this rank's own will.
    pub(super) fn halt(&self, reason: &str) {
        self.alarm.halt(reason);
    }

    /// Why the group has failed, if it has as far as this rank knows.
    pub(super) fn error(&self) -> Option<Error> {
        if self.failure.get().is_none()
            && let Some((by, reason)) = self.alarm.halted_by()
        {
            return Some(self.decide(Failure::Told { by, reason }));
        }
        self.failure.get().map(|failure| failure.error(&self.group, self.me))
    }
}
