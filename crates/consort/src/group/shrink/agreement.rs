//! Who is in the group of the survivors: decided from what they have told, without a clock or a store.
//!
//! Every survivor shows a card, and a new one when it knows more. What has been shown is a log, the same
//! for all. Once each rank of the old group is accounted for, whoever sees that first settles it, and the
//! others accept what was settled, even if they would have decided otherwise: they may have read more of
//! the log, or less.
//!
//! ```text
//!  a rank of the old group is ...
//!    dead, as somebody says        → out, also if it has shown a card
//!    left out, as somebody wishes  → out
//!    here, with a card             → in; out if it lacks what it needs
//!    gone in good order, no card   → out
//!    none of these                 → awaited
//! ```

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::verdict::{decode, encode};

/// What a survivor tells the others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Card {
    /// Its rank in the old group.
    pub(super) rank: u32,
    /// Where its memory for the new group is; `None` if it cannot be in it.
    pub(super) place: Option<[u64; 3]>,
    /// Who is dead, as far as it knows.
    pub(super) dead: BTreeSet<u32>,
    /// Who has left the old group, as far as it knows.
    pub(super) left: BTreeSet<u32>,
    /// With whom it does not want to go on.
    pub(super) without: BTreeSet<u32>,
}

impl Card {
    /// As it is added to the log.
    pub(super) fn entry(&self) -> Vec<u8> {
        let card = encode(self);
        [&(card.len() as u32).to_le_bytes()[..], &card].concat()
    }
}

/// All that the survivors of a group of so many have told so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    world: u32,
    /// Everyone's last card.
    cards: BTreeMap<u32, Card>,
}

impl Table {
    /// Reads the log.
    ///
    /// # Errors
    /// What cannot be read in it: somebody has another version.
    pub(super) fn read(world: usize, mut log: &[u8]) -> Result<Self, String> {
        let world = world as u32;
        let mut cards = BTreeMap::new();
        while !log.is_empty() {
            let cut_off = || "ends in the middle of a card".to_owned();
            let (len, rest) = log.split_first_chunk().ok_or_else(cut_off)?;
            let len = u32::from_le_bytes(*len) as usize;
            let card: Card = decode(rest.get(..len).ok_or_else(cut_off)?)?;
            if card.rank >= world {
                return Err(format!("has a card of rank {} in a group of {world}", card.rank));
            }
            cards.insert(card.rank, card);
            log = &rest[len..];
        }
        Ok(Self { world, cards })
    }

    /// Who is dead, or whom somebody does not want.
    fn out(&self) -> BTreeSet<u32> {
        let named = |card: &Card| card.dead.union(&card.without).copied().collect::<Vec<_>>();
        self.cards.values().flat_map(named).collect()
    }

    /// Who is neither here nor known not to come.
    pub(super) fn awaited(&self) -> Vec<u32> {
        let out = self.out();
        let left: BTreeSet<u32> =
            self.cards.values().flat_map(|card| &card.left).copied().collect();
        let is_known =
            |rank: &u32| self.cards.contains_key(rank) || out.contains(rank) || left.contains(rank);
        (0..self.world).filter(|rank| !is_known(rank)).collect()
    }

    /// The ranks of the new group, once nobody is awaited.
    pub(super) fn decide(&self) -> Option<Vec<u32>> {
        if !self.awaited().is_empty() {
            return None;
        }
        let out = self.out();
        let is_in = |(rank, card): &(&u32, &Card)| card.place.is_some() && !out.contains(rank);
        Some(self.cards.iter().filter(is_in).map(|(&rank, _)| rank).collect())
    }

    /// Where a rank's memory for the new group is.
    pub(super) fn place_of(&self, rank: u32) -> Option<[u64; 3]> {
        self.cards.get(&rank)?.place
    }
}

#[cfg(test)]
mod tests;
