//! What there is to know of the other ranks while waiting for them outside a call.

use consort_sys::arena::Arena;
use consort_sys::board::Alarm;
use consort_sys::reach::Reach;

use super::lane::Neighbour;

/// A group's ranks, for any thread that waits for one of them.
#[derive(Clone, Debug)]
pub(crate) struct Lookout {
    neighbours: Vec<Neighbour>,
    alarm: Alarm,
}

impl Lookout {
    pub(super) fn new(neighbours: Vec<Neighbour>, alarm: Alarm) -> Self {
        Self { neighbours, alarm }
    }

    /// A rank's shared memory.
    pub(crate) fn arena(&self, rank: usize) -> &Arena {
        &self.neighbours[rank].arena
    }

    /// Every rank's private memory, as far as it can be reached.
    pub(super) fn reaches(&self) -> Vec<Option<Reach>> {
        self.neighbours.iter().map(|neighbour| neighbour.reach).collect()
    }

    /// Whether a rank's process has ended.
    pub(crate) fn is_dead(&self, rank: usize) -> bool {
        self.neighbours[rank].is_dead()
    }

    /// Who has ended the group, and why, if somebody has.
    pub(crate) fn halted_by(&self) -> Option<(usize, String)> {
        self.alarm.halted_by()
    }

    /// Ends the group for every rank.
    pub(crate) fn halt(&self, reason: &str) {
        self.alarm.halt(reason);
    }
}
