//! How the ranks of a group that MPI serves know of each other: as those of any other group.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use crate::call::Description;
use crate::engine::lane::Lane;
use crate::engine::patient::Patient;
use crate::engine::wired::Route;
use crate::group::Job as Membership;

/// What a rank and the others have in common besides MPI.
#[derive(Debug)]
pub(crate) enum Footing {
    /// A board in memory, if all are on one host.
    Board(Box<Lane>),
    /// Connections, and the store.
    Wire {
        route: Route,
        number: u64,
        digest: u64,
        /// The last call of which this rank has told that it waits in it.
        told: Cell<u64>,
        /// The last calls of ranks that have left.
        lasts: RefCell<BTreeMap<usize, u64>>,
    },
}

impl Footing {
    /// Of ranks that reach each other over the wire.
    pub(crate) fn over(route: Route) -> Self {
        let lasts = RefCell::default();
        Self::Wire { route, number: 0, digest: 0, told: Cell::new(0), lasts }
    }

    /// Counts a call. Others on this host see which it is.
    pub(super) fn count(&mut self, description: &Description) {
        match self {
            Self::Board(lane) => lane.count(description),
            Self::Wire { number, digest, .. } => {
                *number += 1;
                *digest = description.digest(*digest);
            }
        }
    }

    /// How many calls there were.
    pub(super) fn number(&self) -> u64 {
        match self {
            Self::Board(lane) => lane.tally().0,
            Self::Wire { number, .. } => *number,
        }
    }

    /// A digest of all of them.
    pub(super) fn digest(&self) -> u64 {
        match self {
            Self::Board(lane) => lane.tally().1,
            Self::Wire { digest, .. } => *digest,
        }
    }

    /// Whether a rank can be seen to have come to the call that this one is in. Over the wire that is only known of
    /// one that has left: what it has done there last may come later than that it has left.
    pub(super) fn has_begun(&self, rank: usize, has_left: impl FnOnce() -> bool) -> bool {
        match self {
            Self::Board(lane) => lane.has_begun(rank),
            Self::Wire { .. } if !has_left() => false,
            Self::Wire { route, number, lasts, .. } => {
                let mut lasts = lasts.borrow_mut();
                let last = lasts.get(&rank).copied().or_else(|| route.last_come(rank));
                last.is_some_and(|last| *lasts.entry(rank).or_insert(last) >= *number)
            }
        }
    }

    /// Says how many calls this rank has made, before the others hear that it leaves.
    pub(super) fn bid_farewell(&self) {
        if let Self::Wire { route, number, told, .. } = self
            && told.get() != *number
        {
            told.set(*number);
            route.say_come(*number);
        }
    }

    /// Has the others know that this one waits in its call, if they cannot see that.
    pub(super) fn tell(&self, patient: &Patient<'_>) {
        if let Self::Wire { route, number, told, .. } = self
            && told.get() != *number
            && patient.has_waited(SOON)
        {
            told.set(*number);
            route.say_come(*number);
        }
    }

    /// Those of these ranks who have not told that they wait in the call that this one is in; all, if all have.
    pub(super) fn behind(&self, ranks: Vec<usize>) -> Vec<usize> {
        let Self::Wire { route, number, .. } = self else { return ranks };
        let is_behind = |rank: &usize| route.last_come(*rank).is_none_or(|last| last < *number);
        let behind: Vec<usize> = ranks.iter().copied().filter(is_behind).collect();
        if behind.is_empty() { ranks } else { behind }
    }

    pub(super) fn leave(self, membership: &Membership) {
        if let (Self::Board(lane), Some(neighbourhood)) = (self, &membership.neighbourhood) {
            neighbourhood.take_back(lane);
        }
    }
}

/// Most calls are done before anybody has to be told.
const SOON: Duration = Duration::from_millis(50);
