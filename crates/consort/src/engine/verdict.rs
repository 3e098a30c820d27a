//! Why a group failed.

mod code;
mod sighting;

use std::time::Duration;

use consort_sys::board::{Board, Entry};
use serde::{Deserialize, Serialize};

pub(crate) use self::sighting::{Seen, Sighting};
use super::roster::Roster;
use crate::call::Description;
use crate::error::Error;

/// What has ended a group, or a wait of one rank: the same for every rank that hears of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// Who has found it, or wanted it.
    pub(super) by: u32,
    pub(super) cause: Cause,
    /// What it knew of those whom the cause names.
    pub(super) seen: Vec<Sighting>,
}

/// What a rank has found. Ranks tell it each other in [bytes](code).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Cause {
    /// A rank made another call.
    Differs { number: u64, mine: String, rank: u32, theirs: String },
    /// A rank's process is gone.
    Dead { rank: u32, waiting: Waiting },
    /// Ranks have left the group.
    Left { ranks: Ranks, waiting: Waiting },
    /// Ranks did not come in time.
    Late { missing: Ranks, waiting: Waiting },
    /// What a rank has written cannot be.
    Damaged { rank: u32, what: String },
    /// Ranks have other results than most.
    Diverged { ranks: Ranks, first: u64, last: u64 },
    /// It lacks what it needs.
    Unable { reason: String },
    /// It wants no more, or has panicked.
    Aborted { reason: String },
}

/// What a rank was waiting in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Waiting {
    pub(crate) call: String,
    /// Which of the group's calls that is; 0 if it is none of them.
    pub(crate) number: u64,
    pub(crate) waited: Duration,
}

impl Waiting {
    /// One who only looks round, in something that is none of the group's calls.
    pub(crate) fn beside(call: &str) -> Self {
        Self { call: call.to_owned(), number: 0, waited: Duration::ZERO }
    }
}

/// Ranks, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ranks(Vec<u32>);

impl FromIterator<usize> for Ranks {
    fn from_iter<I: IntoIterator<Item = usize>>(ranks: I) -> Self {
        let mut ranks: Vec<u32> = ranks.into_iter().map(|rank| rank as u32).collect();
        ranks.sort_unstable();
        ranks.dedup();
        Self(ranks)
    }
}

impl Ranks {
    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().map(|&rank| rank as usize)
    }

    /// Others instead of each.
    pub(super) fn map(self, other: impl Fn(usize) -> usize) -> Self {
        self.0.into_iter().map(|rank| other(rank as usize)).collect()
    }
}

impl Cause {
    /// Finds out in which call this rank and another differ first.
    pub(super) fn differs(board: &Board, me: usize, rank: usize) -> Self {
        let mine = board.calls_of(me);
        let difference = board.first_difference(rank);
        let rank = rank as u32;
        match difference {
            Some((entry, other)) => {
                let (mine, mut theirs) = (in_words(&entry), in_words(&other));
                if mine == theirs {
                    theirs += " with another factor";
                }
                Self::Differs { number: entry.number, mine, rank, theirs }
            }
            None => Self::Differs {
                number: mine.last().map_or(0, |entry| entry.number),
                mine: mine.last().map_or_else(String::new, in_words),
                rank,
                theirs: "something else, too long ago to tell".to_owned(),
            },
        }
    }
}

impl Cause {
    /// The same with other numbers for the ranks.
    pub(super) fn renumbered(mut self, number: impl Fn(u32) -> u32) -> Self {
        match &mut self {
            Self::Differs { rank, .. } | Self::Dead { rank, .. } | Self::Damaged { rank, .. } => {
                *rank = number(*rank);
            }
            Self::Left { ranks: Ranks(ranks), .. }
            | Self::Late { missing: Ranks(ranks), .. }
            | Self::Diverged { ranks: Ranks(ranks), .. } => {
                ranks.iter_mut().for_each(|rank| *rank = number(*rank));
                ranks.sort_unstable();
            }
            Self::Unable { .. } | Self::Aborted { .. } => {}
        }
        self
    }
}

impl Failure {
    /// As callers see it, who know this of the group's ranks.
    pub(super) fn error(&self, group: &str, roster: Option<&Roster>) -> Error {
        let whereabouts = || roster.map(|it| it.in_words(group, &self.seen)).unwrap_or_default();
        let (by, group) = (self.by, group.to_owned());
        match self.cause.clone() {
            Cause::Differs { number, mine, rank, theirs } => {
                let (first, second) = ((by, mine.into()), (rank, theirs.into()));
                Error::Mismatch { group, number, first, second }
            }
            Cause::Dead { rank, waiting: Waiting { call, number, waited } } => {
                let (group, call, whereabouts) = (group.into(), call.into(), whereabouts());
                Error::PeerLost { group, rank, by, call, number, waited, whereabouts }
            }
            Cause::Left { ranks: Ranks(ranks), waiting: Waiting { call, number, .. } } => {
                Error::Left { group, ranks, by, call: call.into(), number }
            }
            Cause::Late { missing: Ranks(missing), waiting: Waiting { call, number, waited } } => {
                let (group, call, whereabouts) = (group.into(), call.into(), whereabouts());
                Error::Late { group, missing, by, call, number, waited, whereabouts }
            }
            Cause::Damaged { rank, what } => Error::Damaged { group, rank, what },
            Cause::Diverged { ranks: Ranks(ranks), first, last } => {
                Error::Diverged { group, ranks, first, last }
            }
            Cause::Unable { reason } => Error::Unable { group, rank: by, reason },
            Cause::Aborted { reason } => Error::Aborted { group, by, reason },
        }
    }
}

fn in_words(entry: &Entry) -> String {
    match Description::unpack(entry.call) {
        Some(description) => description.to_string(),
        None => "a call of another version".to_owned(),
    }
}
