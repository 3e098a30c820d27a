//! Where those stand in line who cannot have the road at once.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::{self, ThreadId};

use consort_store::Deadline;

use crate::engine::progress;
use crate::engine::road::Road;
use crate::group::Job as Membership;
use crate::job::Job;

/// The line, and what there is to know for those who see to it.
#[derive(Debug, Default)]
pub(super) struct Desk {
    pub(super) line: VecDeque<Next>,
    /// Who has taken the road out to carry out queued calls.
    pub(super) carrier: Option<ThreadId>,
    /// Whether the progress thread sees to this queue, or will.
    pub(super) attended: bool,
    /// Whether the progress thread counts this queue among those it is there for.
    pub(super) served: bool,
    /// What has to be left once nothing is queued any more, if nobody else holds the group.
    pub(super) orphaned: Option<Arc<Membership>>,
}

impl Desk {
    /// Whether this very thread has the road: what it waits for here waits for it.
    pub(super) fn is_carried_here(&self) -> bool {
        self.carrier == Some(thread::current().id())
    }

    /// Nothing is queued, and nobody makes calls any more.
    pub(super) fn leave(&mut self, road: Road, membership: &Membership) {
        road.leave(membership);
        if std::mem::take(&mut self.served) {
            progress::stop_serving();
        }
    }
}

/// Who is in line.
#[derive(Debug)]
pub(super) enum Next {
    /// Calls that somebody has to carry out.
    Queued(Job),
    /// A thread with a call of its own.
    Thread { number: u64, until: Deadline },
}

impl Next {
    pub(super) fn deadline(&self) -> Deadline {
        match self {
            Self::Queued(job) => job.deadline(),
            Self::Thread { until, .. } => *until,
        }
    }
}
