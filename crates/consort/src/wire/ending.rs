//! Why a group has ended, and how its ranks come to say the same of it. Decided without sockets, and
//! without the store that is asked.
//!
//! ```text
//!  found, or heard ──▶ store: keep this ─┬─ kept ──────────▶ settled
//!  and not settled                       ├─ has another ───▶ settled, that one
//!                                        └─ no answer ─────▶ not settled, as it is
//! ```
//!
//! Whoever finds that a group cannot go on asks the store to keep that, unless it has something else, and
//! tells all others what the store has then: that is *settled*. Whoever cannot reach the store tells what
//! it has found itself, and that this is not settled. Who hears of an end that is not settled asks the
//! store first, as if it had found it. So all who reach the store say the same, also if somebody does not
//! and is the first to be heard.

use std::collections::VecDeque;

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
    pub(crate) fn settle(self, told: Result<Swap, StoreError>) -> Self {
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
    pub(super) fn heard(from: u32, header: &Header, verdict: Vec<u8>) -> Self {
        let by = u32::try_from(header.number).unwrap_or(from);
        Self { by, verdict, is_settled: header.digest == SETTLED }
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
