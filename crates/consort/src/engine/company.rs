//! The ranks of a group, as each of them knows the others while it waits.

#[cfg(test)]
pub(super) mod tests;

use std::fmt;
use std::sync::Arc;

use consort_sys::board::{Alarm, End};
use consort_sys::ring::Bell;

use super::lane::Neighbour;

/// All ranks, for one of them. Clones are about the same group.
#[derive(Clone, Debug)]
pub(crate) enum Peers {
    /// On one host, who hear of a group's end from its board.
    Here { me: usize, alarm: Alarm, bells: Arc<[Bell]>, neighbours: Arc<[Neighbour]> },
    /// On several hosts, who hear of it in another way.
    Apart(Arc<dyn Company>),
}

/// The ranks of a group that are not all on one host. Nothing here waits for them; what asks the store
/// says so.
pub(crate) trait Company: Send + Sync + fmt::Debug {
    /// This rank.
    fn me(&self) -> usize;

    /// How many there are.
    fn world(&self) -> usize;

    /// Says that this rank makes no more calls, and sends and receives no more; in the store, too, for
    /// those who never met it.
    fn leave(&self);

    /// Whether a rank has said so. What it has sent was sent before.
    fn has_left(&self, rank: usize) -> bool;

    /// Whether a rank has said it at least once, so that it receives nothing any more: what it has sent
    /// may still be on its way.
    fn is_leaving(&self, rank: usize) -> bool {
        self.has_left(rank)
    }

    /// Whether a rank's process has ended, or its host is gone.
    fn is_dead(&self, rank: usize) -> bool;

    /// Whether a rank counts as dead only because nothing is heard of its host.
    fn is_out_of_reach(&self, _rank: usize) -> bool {
        false
    }

    /// The last call that a rank has noted where this one can read it: which of the group's, and what.
    fn last_call(&self, _rank: usize) -> Option<(u64, [u64; 2])> {
        None
    }

    /// Leaves word for all processes of the job that a rank is dead, before this one ends.
    fn mourn(&self, rank: usize);

    /// Whom a rank knew to be dead when it ended or left, if it was one of the group.
    fn mourned(&self, by: usize) -> Option<usize>;

    /// Tells the others that this rank waits, in the end for another.
    fn say_whom(&self, rank: usize);

    /// For whom a rank waits in the end, as it has said lately.
    fn whom(&self, rank: usize) -> Option<usize>;

    /// Tells everyone that the group has ended and why, in at most [`Alarm::VERDICT`] bytes, unless
    /// somebody has before; and has all threads of this process look that wait for one of them.
    /// When it returns, the group has ended here; what it has ended for is for [`end`](Self::end) to say.
    fn halt(&self, verdict: &[u8]);

    /// Whether somebody has ended the group, as far as this rank knows.
    fn is_halted(&self) -> bool;

    /// How the group has ended, once it has: for the same reason for every rank that reaches the store,
    /// which may have to be asked for it.
    fn end(&self) -> Option<End>;

    /// Hears what others have said, for a rank that waits elsewhere, or not at all; now and then in the
    /// store.
    fn listen(&self) {}
}

impl Peers {
    pub(super) fn me(&self) -> usize {
        match self {
            Self::Here { me, .. } => *me,
            Self::Apart(company) => company.me(),
        }
    }

    pub(super) fn world(&self) -> usize {
        match self {
            Self::Here { neighbours, .. } => neighbours.len(),
            Self::Apart(company) => company.world(),
        }
    }

    /// Says that this rank sends and receives no more, and makes no more calls.
    pub(super) fn leave(&self) {
        match self {
            Self::Here { me, bells, .. } => {
                bells[*me].leave();
                bells.iter().for_each(Bell::ring);
            }
            Self::Apart(company) => company.leave(),
        }
    }

    /// Whether a rank has said so.
    pub(super) fn has_left(&self, rank: usize) -> bool {
        match self {
            Self::Here { bells, neighbours, .. } => {
                bells[rank].has_left() || neighbours[rank].parting().has_taken_leave()
            }
            Self::Apart(company) => company.has_left(rank),
        }
    }

    /// Whether a rank receives nothing any more. What it has sent may still be on its way.
    pub(super) fn is_leaving(&self, rank: usize) -> bool {
        match self {
            Self::Here { .. } => self.has_left(rank),
            Self::Apart(company) => company.is_leaving(rank),
        }
    }

    /// Whether a rank's process has ended.
    pub(super) fn is_dead(&self, rank: usize) -> bool {
        match self {
            Self::Here { neighbours, .. } => neighbours[rank].is_dead(),
            Self::Apart(company) => company.is_dead(rank),
        }
    }

    /// Whether a rank counts as dead only because nothing is heard of its host.
    pub(super) fn is_out_of_reach(&self, rank: usize) -> bool {
        match self {
            Self::Here { .. } => false,
            Self::Apart(company) => company.is_out_of_reach(rank),
        }
    }

    /// The last call that a rank has noted where this one can read it: which of the group's, and what.
    pub(super) fn last_call(&self, rank: usize) -> Option<(u64, [u64; 2])> {
        match self {
            Self::Here { alarm, .. } => alarm.last_call(rank).map(|it| (it.number, it.call)),
            Self::Apart(company) => company.last_call(rank),
        }
    }

    /// Leaves word for all processes of the job that a rank is dead, before this one ends.
    pub(super) fn mourn(&self, rank: usize) {
        match self {
            Self::Here { me, neighbours, .. } => {
                neighbours[*me].parting().mourn(neighbours[rank].rank);
            }
            Self::Apart(company) => company.mourn(rank),
        }
    }

    /// Whom a rank knew to be dead when it ended or left, if it was one of the group.
    pub(super) fn mourned(&self, by: usize) -> Option<usize> {
        match self {
            Self::Here { neighbours, .. } => {
                let mourned = neighbours[by].parting().mourned()?;
                neighbours.iter().position(|neighbour| neighbour.rank == mourned)
            }
            Self::Apart(company) => company.mourned(by),
        }
    }

    /// Tells the others that this rank waits, in the end for another. On one host they see that.
    pub(super) fn say_whom(&self, rank: usize) {
        if let Self::Apart(company) = self {
            company.say_whom(rank);
        }
    }

    /// For whom a rank waits in the end, as it has said lately.
    pub(super) fn whom(&self, rank: usize) -> Option<usize> {
        match self {
            Self::Here { .. } => None,
            Self::Apart(company) => company.whom(rank),
        }
    }

    /// Tells everyone that the group has ended and why, unless somebody has before.
    pub(super) fn halt(&self, verdict: &[u8]) {
        match self {
            Self::Here { alarm, bells, .. } => {
                alarm.halt(verdict);
                // Who waits for messages looks at once when it is rung.
                bells.iter().for_each(Bell::ring);
            }
            Self::Apart(company) => company.halt(verdict),
        }
    }

    /// Whether somebody has ended the group, as far as this rank knows.
    #[inline]
    pub(super) fn is_halted(&self) -> bool {
        match self {
            Self::Here { alarm, .. } => alarm.is_halted(),
            Self::Apart(company) => company.is_halted(),
        }
    }

    /// Hears what others have said, for a rank that waits elsewhere, or not at all.
    pub(super) fn listen(&self) {
        if let Self::Apart(company) = self {
            company.listen();
        }
    }

    /// How the group has ended, if it has.
    pub(super) fn end(&self) -> Option<End> {
        match self {
            Self::Here { alarm, .. } => alarm.end(),
            Self::Apart(company) => company.end(),
        }
    }
}

impl From<Arc<dyn Company>> for Peers {
    fn from(company: Arc<dyn Company>) -> Self {
        Self::Apart(company)
    }
}
