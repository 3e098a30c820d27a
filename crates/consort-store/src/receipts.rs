//! What clients have been answered, for as long as they may ask again.
//!
//! A client that loses its connection does not know whether its calls were carried out. It makes
//! them again, with their old numbers, and whatever changed something is looked up here instead of
//! being done twice. Calls that changed nothing need no receipt: doing them again is harmless.

use std::collections::{BTreeMap, VecDeque};

use crate::request::{Reply, Swap};

/// Answers by client and call, until the client says that it has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Receipts {
    clients: BTreeMap<u64, BTreeMap<u64, Reply>>,
    /// Clients without a connection, who left first first. Some may come back.
    gone: VecDeque<u64>,
    weight: usize,
}

impl Receipts {
    /// The answer that this call got before.
    pub(crate) fn of(&self, client: u64, call: u64) -> Option<&Reply> {
        self.clients.get(&client)?.get(&call)
    }

    /// How many a client has.
    pub(crate) fn count(&self, client: u64) -> usize {
        self.clients.get(&client).map_or(0, BTreeMap::len)
    }

    /// Bytes kept for all.
    pub(crate) fn weight(&self) -> usize {
        self.weight
    }

    pub(crate) fn keep(&mut self, client: u64, call: u64, reply: Reply) {
        self.weight += reply.weight();
        if let Some(old) = self.clients.entry(client).or_default().insert(call, reply) {
            self.weight -= old.weight();
        }
    }

    /// The client has the answers to these calls, or has given up on them.
    pub(crate) fn settle(&mut self, client: u64, calls: &[u64]) {
        let Some(mine) = self.clients.get_mut(&client) else { return };
        for call in calls {
            self.weight -= mine.remove(call).as_ref().map_or(0, Reply::weight);
        }
        if mine.is_empty() {
            self.clients.remove(&client);
        }
    }

    /// The client is here, perhaps again, and these of its calls are still open.
    pub(crate) fn here(&mut self, client: u64, open: &[u64]) {
        self.gone.retain(|other| *other != client);
        let Some(mine) = self.clients.get(&client) else { return };
        let done: Vec<u64> = mine.keys().copied().filter(|call| !open.contains(call)).collect();
        self.settle(client, &done);
    }

    /// The client's connection is gone. Of those who may never come back only the last are kept.
    pub(crate) fn gone(&mut self, client: u64) {
        if !self.clients.contains_key(&client) || self.gone.contains(&client) {
            return;
        }
        self.gone.push_back(client);
        while self.gone.len() > GONE || self.weight > GONE_BYTES {
            let Some(oldest) = self.gone.pop_front() else { return };
            let forgotten = self.clients.remove(&oldest).unwrap_or_default();
            self.weight -= forgotten.values().map(Reply::weight).sum::<usize>();
        }
    }

    /// Nobody is connected: the store is in other hands.
    pub(crate) fn all_gone(&mut self) {
        let all: Vec<u64> = self.clients.keys().copied().collect();
        for client in all {
            self.gone(client);
        }
    }

    /// All receipts, by client and call.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u64, u64, &Reply)> {
        self.clients
            .iter()
            .flat_map(|(client, calls)| calls.iter().map(move |(call, it)| (*client, *call, it)))
    }

    /// Who has receipts but no connection, in the order of leaving.
    pub(crate) fn absent(&self) -> impl Iterator<Item = u64> {
        self.gone.iter().copied()
    }
}

/// Whether this answer says that something was changed.
pub(crate) fn tells_of_change(reply: &Reply) -> bool {
    !matches!(
        reply,
        Reply::Refused(_) | Reply::Missing(_) | Reply::Swap(Swap::Differs(_) | Swap::Missing)
    )
}

/// Clients without a connection whose receipts are kept.
const GONE: usize = 16 << 10;
/// Bytes of receipts beyond which those of the longest gone are forgotten.
const GONE_BYTES: usize = 256 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_is_kept_until_its_client_has_it() {
        let mut receipts = Receipts::default();
        receipts.keep(1, 5, Reply::Number(7));
        receipts.keep(1, 6, Reply::Done);
        receipts.keep(2, 5, Reply::Done);
        assert_eq!(receipts.of(1, 5), Some(&Reply::Number(7)));
        receipts.settle(1, &[5]);
        assert_eq!((receipts.of(1, 5), receipts.count(1), receipts.count(2)), (None, 1, 1));
        receipts.here(1, &[9]);
        receipts.settle(2, &[5, 77]);
        assert_eq!(receipts, Receipts::default());
    }

    #[test]
    fn a_client_that_comes_back_finds_what_it_left() {
        let mut receipts = Receipts::default();
        receipts.keep(1, 5, Reply::Done);
        receipts.gone(1);
        receipts.here(1, &[5, 6]);
        assert_eq!(receipts.of(1, 5), Some(&Reply::Done));
        assert_eq!(receipts.absent().count(), 0);
    }

    #[test]
    fn those_who_never_come_back_are_forgotten_in_their_order() {
        let mut receipts = Receipts::default();
        for client in 0..=GONE as u64 {
            receipts.keep(client, 1, Reply::Value(vec![0; 10]));
            receipts.gone(client);
        }
        assert_eq!((receipts.count(0), receipts.count(1)), (0, 1));
        assert_eq!(receipts.absent().count(), GONE);
        assert_eq!(receipts.weight(), GONE * 74);
    }

    #[test]
    fn large_receipts_are_forgotten_sooner() {
        let mut receipts = Receipts::default();
        for client in 0..3 {
            receipts.keep(client, 1, Reply::Value(vec![0; GONE_BYTES / 2 - 100]));
            receipts.gone(client);
        }
        assert_eq!([0, 1, 2].map(|client| receipts.count(client)), [0, 1, 1]);
    }
}
