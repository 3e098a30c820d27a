//! Why a group failed.

use std::fmt;
use std::time::Duration;

use consort_sys::board::{Board, Entry};

use crate::call::Description;
use crate::error::Error;

/// What ended a group.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// A rank made another call.
    Differs { number: u64, mine: String, rank: usize, theirs: String },
    /// A rank's process is gone.
    Dead { rank: usize, waiting: Waiting },
    /// Ranks did not come in time.
    Late { missing: Vec<usize>, waiting: Waiting },
    /// Another rank said so.
    Told { by: usize, reason: String },
    /// This rank wanted it.
    Aborted { reason: String },
}

/// What a rank was waiting in.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) description: Description,
    pub(super) number: u64,
    pub(super) waited: Duration,
}

impl Failure {
    /// Finds out in which call this rank and another differ first.
    pub(super) fn differs(board: &Board, me: usize, rank: usize) -> Self {
        let mine = board.calls_of(me);
        match board.first_difference(rank) {
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

    /// As this rank's caller sees it.
    pub(super) fn error(&self, group: &str, me: usize) -> Error {
        let group = group.to_owned();
        match self.clone() {
            Self::Differs { number, mine, rank, theirs } => {
                Error::Mismatch { group, number, mine, rank: rank as u32, theirs }
            }
            Self::Dead { rank, waiting: Waiting { description, number, waited } } => {
                let call = description.to_string();
                Error::PeerLost { group, rank: rank as u32, call, number, waited }
            }
            Self::Late { missing, waiting: Waiting { description, number, waited } } => {
                let missing = missing.into_iter().map(|rank| rank as u32).collect();
                Error::Late { group, missing, call: description.to_string(), number, waited }
            }
            Self::Told { by, reason } => Error::Aborted { group, by: by as u32, reason },
            Self::Aborted { reason } => Error::Aborted { group, by: me as u32, reason },
        }
    }
}

/// As the other ranks hear of it.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Differs { number, mine, rank, theirs } => {
                write!(f, "in call {number} it made {mine}, but rank {rank} made {theirs}")
            }
            Self::Dead { rank, waiting } => {
                write!(f, "rank {rank} is gone; it waited in {waiting}")
            }
            Self::Late { missing, waiting } => {
                write!(f, "ranks {missing:?} did not come; it waited in {waiting}")
            }
            Self::Told { by, reason } => write!(f, "rank {by} said: {reason}"),
            Self::Aborted { reason } => f.write_str(reason),
        }
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { description, number, waited } = self;
        write!(f, "call {number}, {description}, for {waited:.1?}")
    }
}

fn in_words(entry: &Entry) -> String {
    match Description::unpack(entry.call) {
        Some(description) => description.to_string(),
        None => "a call of another version".to_owned(),
    }
}
