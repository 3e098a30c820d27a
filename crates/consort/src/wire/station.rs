//! What has come for a group and was not asked for yet.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::Instant;

use super::Switch;
use super::ending::Ended;
use super::frame::{Header, Kind};
use super::stream::Kept;

/// A group's place in the wire.
#[derive(Debug, Default)]
pub(super) struct Station {
    /// Parts of calls, by number, sender, track and position.
    pub(super) parts: BTreeMap<(u64, u32, u16, u32), Kept>,
    /// Pieces of messages, by sender.
    pub(super) letters: BTreeMap<u32, VecDeque<Kept>>,
    pub(super) ended: Arc<Ended>,
    /// The group's ranks in the world, once this process has entered it.
    pub(super) ranks: Arc<[u32]>,
    /// Whose frames a call waits for, on which thread.
    pub(super) awaited: Vec<u32>,
    pub(super) awaits_on: Option<ThreadId>,
    /// For whom ranks wait, as they have said, and when.
    pub(super) awaits: BTreeMap<u32, (u64, Instant)>,
    /// Calls in which ranks have said that they wait for this one, the last ones of each.
    pub(super) asks: Vec<(u32, Header)>,
}

impl Station {
    /// Whether this thread will take what comes from a rank: for a call, or to clear up after the group.
    pub(super) fn awaits_here(&self, rank: u32) -> bool {
        let is_mine = || self.awaits_on == Some(thread::current().id());
        self.has_ended() || (self.awaited.contains(&rank) && is_mine())
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_known()
    }

    /// Keeps a frame.
    pub(super) fn keep(&mut self, from: u32, kept: Kept) {
        let Header { kind, number, label, .. } = kept.header;
        if kind == Kind::Letter {
            self.letters.entry(from).or_default().push_back(kept);
        } else {
            self.parts.insert((number, from, label.track, label.position), kept);
        }
    }

    /// Takes notice of a call that a rank tells of.
    pub(super) fn hear(&mut self, from: u32, ask: Header) {
        let of_it = || self.asks.iter().enumerate().filter(|(_, (rank, _))| *rank == from);
        if of_it().any(|(_, (_, known))| *known == ask) {
            return;
        }
        if of_it().count() >= Switch::ASKS {
            let first = of_it().next().map(|(at, _)| at);
            first.map(|at| self.asks.remove(at));
        }
        self.asks.push((from, ask));
    }

    /// The first part of a call that this rank has made, or is making, that does not belong to it.
    pub(super) fn stranger(&self, number: u64, digest: u64) -> Option<(u32, Header)> {
        let (&(of, from, ..), kept) = self.parts.first_key_value()?;
        let differs = of < number || (of == number && kept.header.digest != digest);
        differs.then_some((from, kept.header))
    }
}
