//! How a group's calls get to the other ranks, one at a time.

#[cfg(test)]
mod tests;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use super::audit::Audited;
use super::lane::Lane;
use super::lookout::Lookout;
use super::pace::Notes;
use super::queue::Queue;
use super::sleep::Sleep;
use crate::backend::Terms;
use crate::call::Call;
use crate::error::Result;
use crate::group::Job as Membership;
use crate::mpi;

/// A group's way to carry out calls. Whoever has it carries out one, and nobody else does meanwhile.
#[derive(Debug)]
pub(crate) enum Road {
    /// All ranks are on this host.
    Board(Box<Lane>),
    /// Not all of them are.
    Other(Box<dyn Way>),
    /// One of these, whose ranks compare their results.
    Audited(Box<Audited>),
}

/// A way to carry out calls between ranks that do not all share memory.
pub(crate) trait Way: Send + fmt::Debug {
    /// Carries out a checked call on this thread, for which others may wait in `line`. Says which of
    /// the group's calls it was.
    ///
    /// # Errors
    /// When the group has ended, or has to because of this call.
    fn run(&mut self, call: &Call<'_>, terms: Terms, line: Option<&Queue>) -> Result<u64>;

    /// Carries out a checked call, and returns to whoever polls it when it has to wait. It is polled
    /// again when something happens in its [place](Self::place), or to the step that it has noted in
    /// `notes`, who also say when to look if the wait still makes sense.
    fn run_elsewhere<'a>(
        &'a mut self,
        call: &'a Call<'_>,
        terms: Terms,
        notes: &'a Notes,
    ) -> Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

    /// Where whoever polls its calls sleeps: always the same.
    fn place(&self) -> Arc<dyn Sleep>;

    /// For those who want to know or decide meanwhile what becomes of the group.
    fn lookout(&self) -> &Lookout;

    /// Has what was sent get to where it is on its way to, before the others hear that this rank leaves.
    fn finish(&mut self) {}

    /// Lets go of what it holds. The others know that this rank makes no more calls.
    fn leave(self: Box<Self>, membership: &Membership);
}

impl Road {
    #[inline]
    pub(super) fn run(
        &mut self,
        call: &Call<'_>,
        terms: Terms,
        line: Option<&Queue>,
    ) -> Result<u64> {
        match self {
            Self::Board(lane) => lane.run(call, terms, line),
            Self::Other(way) => way.run(call, terms, line),
            Self::Audited(audited) => audited.run(call, terms, line),
        }
    }

    pub(super) async fn run_elsewhere(
        &mut self,
        call: &Call<'_>,
        terms: Terms,
        notes: &Notes,
    ) -> Result<()> {
        match self {
            Self::Board(lane) => lane.run_elsewhere(call, terms, notes).await,
            Self::Other(way) => way.run_elsewhere(call, terms, notes).await,
            Self::Audited(audited) => audited.run_elsewhere(call, terms, notes).await,
        }
    }

    pub(crate) fn lookout(&self) -> &Lookout {
        match self {
            Self::Board(lane) => lane.lookout(),
            Self::Other(way) => way.lookout(),
            Self::Audited(audited) => audited.road.lookout(),
        }
    }

    /// Where the progress thread has to sleep while it waits for a call, if not on a step.
    pub(super) fn place(&self) -> Option<Arc<dyn Sleep>> {
        match self {
            Self::Board(_) => None,
            Self::Other(way) => Some(way.place()),
            Self::Audited(audited) => audited.road.place(),
        }
    }

    /// Leaves the group that this rank was in as a part of `membership`.
    pub(super) fn leave(self, membership: &Membership) {
        if membership.mpi.is_some() && self.lookout().has_ended() {
            mpi::spoil();
        }
        match self {
            Self::Board(lane) => {
                if let Some(neighbourhood) = &membership.neighbourhood {
                    neighbourhood.take_back(lane);
                }
            }
            Self::Other(mut way) => {
                way.finish();
                way.lookout().leave();
                way.leave(membership);
            }
            Self::Audited(audited) => audited.road.leave(membership),
        }
    }
}

impl From<Lane> for Road {
    fn from(lane: Lane) -> Self {
        Self::Board(Box::new(lane))
    }
}

impl From<Box<dyn Way>> for Road {
    fn from(way: Box<dyn Way>) -> Self {
        Self::Other(way)
    }
}
