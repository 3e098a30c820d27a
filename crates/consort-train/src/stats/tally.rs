//! What is added up over passes.

use std::time::Duration;

use super::Means;
use crate::times::PassTimes;

/// What is remembered of all passes that were averaged.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    last: Option<PassTimes>,
    count: u32,
    forwards: u32,
    sums: Means,
    unused_bytes: usize,
    is_used: Vec<bool>,
    has_changed: bool,
}

impl Tally {
    /// One more, in which these parameters had a gradient somewhere.
    pub(crate) fn add(&mut self, times: PassTimes, unused_bytes: usize, is_used: &[bool]) {
        self.has_changed |= self.count > 0 && self.is_used != is_used;
        self.is_used.clear();
        self.is_used.extend_from_slice(is_used);
        self.unused_bytes = unused_bytes;
        self.count += 1;
        if let Some(forward) = times.forward {
            self.forwards += 1;
            *self.sums.forward.get_or_insert_default() += forward;
        }
        self.sums.backward += times.backward;
        self.sums.communication += times.communication;
        self.sums.hidden += times.hidden;
        self.sums.exposed += times.exposed;
        self.last = Some(times);
    }

    pub(crate) fn last(&self) -> Option<&PassTimes> {
        self.last.as_ref()
    }

    pub(crate) fn unused_bytes(&self) -> usize {
        self.unused_bytes
    }

    /// Whether the same parameters had gradients in all of them.
    pub(crate) fn is_same_so_far(&self) -> bool {
        self.count > 0 && !self.has_changed
    }

    pub(crate) fn means(&self) -> Means {
        let mean = |sum: Duration| if self.count == 0 { sum } else { sum / self.count };
        Means {
            forward: self.sums.forward.map(|sum| sum / self.forwards.max(1)),
            backward: mean(self.sums.backward),
            communication: mean(self.sums.communication),
            hidden: mean(self.sums.hidden),
            exposed: mean(self.sums.exposed),
        }
    }
}
