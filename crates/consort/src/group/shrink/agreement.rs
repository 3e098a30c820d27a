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

use crate::error::Result;
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

/// Where survivors meet, as one of them has it. What it asks for waits on the spot, or as a future.
pub(super) trait Meeting {
    /// Takes notice of who has died or left. Whether that is new.
    fn look_round(&mut self, mine: &mut Card) -> bool;

    /// Adds to the log.
    async fn show(&mut self, entry: &[u8]) -> Result<()>;

    /// The log, if it is another than this, or becomes so while it makes sense to wait.
    async fn hear(&mut self, known: &[u8], waits: bool) -> Result<Heard>;

    /// What is settled, if it is.
    async fn settled(&mut self) -> Result<Option<Vec<u8>>>;

    /// Settles something, unless it is settled. What is settled then.
    async fn settle(&mut self, chosen: Vec<u8>) -> Result<Vec<u8>>;

    /// Whether there is no more time.
    fn is_late(&self) -> bool;
}

/// What has come of asking for the log.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    Log(Vec<u8>),
    /// It is as it was.
    Nothing,
    /// The store has not answered.
    NoAnswer,
}

/// How an agreement ends, if not with an error of the store.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// These ranks are in, and this is what all have told.
    Settled(Vec<u32>, Table),
    /// There was no more time, and these had not come.
    Late(Vec<u32>),
    /// Somebody has another version: what cannot be read.
    Unreadable(String),
}

/// Agrees with the other survivors of a group of so many on who is in the new one.
///
/// # Errors
/// Those of the store.
pub(super) async fn agree(
    meeting: &mut impl Meeting,
    mine: &mut Card,
    world: usize,
) -> Result<Outcome> {
    let mut log = Vec::new();
    let read = |log: &[u8]| {
        let table = Table::read(world, log);
        table.map_err(|what| Outcome::Unreadable(format!("what the survivors have shown {what}")))
    };
    let settled = loop {
        if meeting.look_round(mine) || log.is_empty() {
            meeting.show(&mine.entry()).await?;
        }
        if let Heard::Log(longer) = meeting.hear(&log, true).await? {
            log = longer;
        }
        if let Some(settled) = meeting.settled().await? {
            break settled;
        }
        let table = match read(&log) {
            Ok(table) => table,
            Err(unreadable) => return Ok(unreadable),
        };
        if let Some(chosen) = table.decide() {
            break meeting.settle(encode(&chosen)).await?;
        }
        if meeting.is_late() {
            return Ok(Outcome::Late(table.awaited()));
        }
    };
    // Those who are in have shown their cards before that was settled.
    loop {
        match meeting.hear(&log, false).await? {
            Heard::Log(longer) => log = longer,
            Heard::NoAnswer if !meeting.is_late() => continue,
            Heard::Nothing | Heard::NoAnswer => {}
        }
        break;
    }
    Ok(match (read_settled(&settled, world), read(&log)) {
        (Ok(chosen), Ok(table)) => Outcome::Settled(chosen, table),
        (Err(what), _) => Outcome::Unreadable(format!("what was settled {what}")),
        (_, Err(unreadable)) => unreadable,
    })
}

fn read_settled(settled: &[u8], world: usize) -> Result<Vec<u32>, String> {
    let chosen: Vec<u32> = decode(settled)?;
    match chosen.iter().find(|&&rank| rank as usize >= world) {
        Some(rank) => Err(format!("names rank {rank}")),
        None => Ok(chosen),
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
mod simulated;
#[cfg(test)]
mod tests;
