//! Why a group has ended, and how its ranks come to say the same of it. Decided without sockets, and
//! without the store that is asked.
//!
//! ```text
//!  found, or heard ──▶ passed on ──▶ store: keep this ─┬─ kept ────────▶ settled, and told to all
//!  and not settled                                     ├─ has another ─▶ settled, that one
//!                                                      └─ no answer ───▶ what was heard to be settled,
//!                                                                        or else as it is
//! ```
//!
//! Whoever finds that a group cannot go on tells all others at once: nobody waits for the store to learn
//! that it is over. Why, is for the store to say. Whoever wants to know asks it to keep what was found or
//! heard, unless it has something else; what it has then is *settled*. So all who reach the store say the
//! same, whoever was heard first.

use std::collections::VecDeque;
use std::sync::OnceLock;

use consort_store::{Error as StoreError, Swap};

use super::frame::{Header, Kind};
use super::peer::word;
use crate::verdict::{decode, encode};

/// Who has ended a group, and what it says of that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) by: u32,
    pub(crate) verdict: Vec<u8>,
    /// Whether the store has it, and so nothing else.
    pub(crate) is_settled: bool,
}

impl Ending {
    /// What a rank has found.
    pub(crate) fn found(by: u32, verdict: Vec<u8>) -> Self {
        Self { by, verdict, is_settled: false }
    }

    /// As the store keeps it.
    pub(crate) fn entry(&self) -> Vec<u8> {
        encode(&(self.by, &self.verdict))
    }

    /// What the store has kept; `None` if it is nothing of the kind.
    pub(crate) fn of_entry(entry: &[u8]) -> Option<Self> {
        let (by, verdict) = decode(entry).ok()?;
        Some(Self { by, verdict, is_settled: true })
    }

    /// What counts, after the store was asked to keep this unless it has something.
    fn settle(self, told: Result<Swap, StoreError>) -> Self {
        match told {
            Ok(Swap::Swapped) => Self { is_settled: true, ..self },
            Ok(Swap::Differs(earlier)) => Self::of_entry(&earlier).unwrap_or(self),
            // Without the store each says what it knows.
            Ok(Swap::Missing) | Err(_) => self,
        }
    }

    /// What is said of it to the other ranks of the group, before its verdict.
    pub(super) fn word(&self, group: u64, epoch: u64) -> Header {
        let header = word(Kind::Halt, group, epoch, u64::from(self.by));
        Header { bytes: self.verdict.len() as u32, digest: u64::from(self.is_settled), ..header }
    }

    /// What a rank has said of it.
    pub(super) fn heard(header: &Header, verdict: Vec<u8>) -> Self {
        // No rank, if it makes no sense.
        let by = u32::try_from(header.number).unwrap_or(u32::MAX);
        Self { by, verdict, is_settled: header.digest == SETTLED }
    }
}

/// What a rank has heard of a group's end.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    first: OnceLock<Ending>,
    settled: OnceLock<Ending>,
}

impl Ended {
    /// Takes notice of an end. Says whether it is the first that is heard of one.
    pub(crate) fn hear(&self, ending: Ending) -> bool {
        if ending.is_settled {
            // All that are settled are the same.
            let _ = self.settled.set(ending.clone());
        }
        self.first.set(ending).is_ok()
    }

    /// Whether the group has ended.
    #[inline]
    pub(crate) fn is_known(&self) -> bool {
        self.first.get().is_some()
    }

    /// What is to be believed of it: what is settled, or else what was heard first.
    pub(crate) fn get(&self) -> Option<&Ending> {
        self.settled.get().or(self.first.get())
    }

    /// What counts, after the store was asked to keep this unless it has something. With that, whether
    /// it is for this rank to tell the others.
    pub(crate) fn settle(&self, ending: Ending, told: Result<Swap, StoreError>) -> (Ending, bool) {
        let is_kept = matches!(told, Ok(Swap::Swapped));
        let ending = ending.settle(told);
        match self.settled.get() {
            Some(heard) if !ending.is_settled => (heard.clone(), false),
            _ => (ending, is_kept),
        }
    }
}

/// Whether a frame is of this epoch, and of no group that was left: others have no one to hear them.
pub(super) fn is_of_now(header: &Header, epoch: u64, left: &VecDeque<u64>) -> bool {
    header.epoch == epoch && !left.contains(&header.group)
}

/// How a word says that it is settled.
const SETTLED: u64 = 1;

#[cfg(test)]
mod tests;
