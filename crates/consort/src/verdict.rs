//! What rank 0 finds when it looks at everyone's cards.

use std::collections::BTreeMap;
use std::time::Duration;

use consort_store::{Deadline, Error as StoreError, Missing, Store};
use consort_sys::host::HostId;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::card::{Card, differences};
use crate::error::Result;

/// Rank 0's word to all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Verdict {
    /// Everyone's cards, in the order of ranks.
    Agreed(Vec<Card>),
    /// Which ranks have what.
    Differs(String),
    /// Who did not come.
    Missing(String),
    /// A process that had come has ended, as this rank has found out.
    Ended { rank: u32, process: u32, host: HostId, by: u32 },
}

/// Shows a card to rank 0: a rank's number, then its card.
///
/// Cards go through a queue, so that rank 0 gets them in the order in which they come, each with
/// one request, and those of ranks that it does not expect as well.
pub(crate) fn show(meeting: &dyn Store, rank: u32, card: &Card) -> Result<()> {
    let mut shown = rank.to_le_bytes().to_vec();
    shown.extend(encode(card));
    Ok(meeting.push(SHOWN, &shown)?)
}

/// Rank 0's part: takes the cards as they come and judges them. Once it is clear that they differ
/// nobody is waited for any more, but all who are here are shown. Now and then, when `slice` says, it
/// looks round, and hears of a verdict that there is already.
pub(crate) fn judge(
    world: u32,
    meeting: &dyn Store,
    mut until: Deadline,
    slice: impl Fn() -> Deadline,
    mut look_round: impl FnMut() -> Result<Option<Verdict>>,
) -> Result<Verdict> {
    let mut table = Table { world, ..Table::default() };
    loop {
        // When all have come, look for those who should not have.
        let limit = if table.is_complete() { Deadline::now() } else { until.min(slice()) };
        match meeting.pop(SHOWN, limit) {
            Ok(shown) => table.take(&shown),
            Err(StoreError::Timeout { missing, .. })
                if missing.count > 0 || !until.has_passed() =>
            {
                if table.is_complete() || until.has_passed() {
                    break;
                }
                if let Some(verdict) = look_round()? {
                    return Ok(verdict);
                }
            }
            Err(other) => return Err(other.into()),
        }
        if table.differs {
            until = until.min(Deadline::after(LAST_LOOK));
        }
    }
    Ok(table.weigh())
}

/// Names ranks for an error, if there are any.
pub(crate) fn name_absent(ranks: impl Iterator<Item = u32>) -> Option<String> {
    let missing = Missing::collect(ranks.map(|rank| format!("rank {rank}")));
    (missing.count > 0).then(|| missing.to_string())
}

pub(crate) fn encode(value: &impl Serialize) -> Vec<u8> {
    postcard::to_allocvec(value).expect("memory can be extended")
}

/// What cannot be read was written by a version that writes it differently.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    postcard::from_bytes(bytes).map_err(|error| format!("cannot be read here ({error})"))
}

/// The cards that rank 0 has taken so far.
#[derive(Debug, Default)]
struct Table {
    world: u32,
    cards: BTreeMap<u32, Card>,
    unreadable: Vec<String>,
    /// How many of the ranks below the world have come.
    expected: u32,
    differs: bool,
}

impl Table {
    fn is_complete(&self) -> bool {
        self.expected == self.world
    }

    fn take(&mut self, shown: &[u8]) {
        let Some((rank, card)) = shown.split_first_chunk() else {
            return self.refuse("somebody showed a card without a rank".to_owned());
        };
        let rank = u32::from_le_bytes(*rank);
        let card: Card = match decode(card) {
            Ok(card) => card,
            Err(reason) => return self.refuse(format!("rank {rank}'s card {reason}")),
        };
        let first = self.cards.first_key_value();
        self.differs |= first.is_some_and(|(_, first)| first.same != card.same);
        if self.cards.insert(rank, card).is_none() && rank < self.world {
            self.expected += 1;
        }
    }

    fn refuse(&mut self, reason: String) {
        self.unreadable.push(format!("  consort version: {reason}"));
        self.differs = true;
    }

    fn weigh(self) -> Verdict {
        let mut lines = self.unreadable;
        lines.extend(differences(&self.cards));
        if !lines.is_empty() {
            return Verdict::Differs(lines.join("\n"));
        }
        match name_absent((0..self.world).filter(|rank| !self.cards.contains_key(rank))) {
            None => Verdict::Agreed(self.cards.into_values().collect()),
            Some(absent) => Verdict::Missing(absent),
        }
    }
}

const SHOWN: &str = "shown";
/// What rank 0 takes to look round once more before it gives its verdict.
pub(crate) const LAST_LOOK: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use consort_store::MemStore;
    use proptest::prelude::*;

    use super::*;
    use crate::meeting::Processors;

    fn card(world: &str) -> Card {
        let same = [("world".to_owned(), world.to_owned())].into();
        let (host, processors) = (HostId::here().unwrap(), Processors::here());
        Card { same, host, address: [127, 0, 0, 1].into(), process: 1, processors }
    }

    fn judged(world: u32, shown: &[(u32, &str)], limit: Duration) -> Verdict {
        let meeting = MemStore::new();
        for (rank, said) in shown {
            show(&meeting, *rank, &card(said)).unwrap();
        }
        judged_at(world, &meeting, limit)
    }

    fn judged_at(world: u32, meeting: &MemStore, limit: Duration) -> Verdict {
        let never = Deadline::never;
        judge(world, meeting, Deadline::after(limit), never, || Ok(None)).unwrap()
    }

    #[test]
    fn cards_are_judged_in_whatever_order_they_come() {
        let verdict = judged(3, &[(2, "3"), (0, "3"), (1, "3")], LONG);
        assert_eq!(verdict, Verdict::Agreed(vec![card("3"); 3]));
    }

    #[test]
    fn a_difference_is_told_though_a_lower_rank_never_comes() {
        let verdict = judged(3, &[(0, "3"), (2, "4")], LONG);
        let expected = "  world: 3 on rank 0, 4 on rank 2".to_owned();
        assert_eq!(verdict, Verdict::Differs(expected));
    }

    #[test]
    fn ranks_beyond_the_judges_world_are_seen() {
        let verdict = judged(2, &[(3, "4"), (0, "2"), (1, "2"), (2, "4")], LONG);
        let expected = "  world: 2 on ranks 0-1, 4 on ranks 2-3".to_owned();
        assert_eq!(verdict, Verdict::Differs(expected));
    }

    #[test]
    fn who_is_missing_is_named_at_the_deadline() {
        let verdict = judged(4, &[(3, "4"), (1, "4")], Duration::ZERO);
        assert_eq!(verdict, Verdict::Missing("missing rank 0, rank 2".to_owned()));
    }

    #[test]
    fn what_is_found_while_looking_round_is_the_verdict() {
        let (meeting, looks) = (MemStore::new(), std::cell::Cell::new(0));
        show(&meeting, 1, &card("3")).unwrap();
        let look_round = || {
            looks.set(looks.get() + 1);
            Ok((looks.get() == 3).then(|| Verdict::Missing("found".to_owned())))
        };
        let verdict = judge(3, &meeting, Deadline::after(LONG), Deadline::now, look_round).unwrap();
        assert_eq!((verdict, looks.get()), (Verdict::Missing("found".to_owned()), 3));
    }

    #[test]
    fn a_card_that_cannot_be_read_is_a_difference() {
        let meeting = MemStore::new();
        show(&meeting, 0, &card("2")).unwrap();
        meeting.push(SHOWN, &[1, 0, 0, 0, 255]).unwrap();
        meeting.push(SHOWN, &[1]).unwrap();
        let Verdict::Differs(text) = judged_at(2, &meeting, LONG) else {
            panic!("they do not agree");
        };
        assert!(text.contains("rank 1's card cannot be read here"), "{text}");
        assert!(text.contains("a card without a rank"), "{text}");
    }

    fn any_card() -> impl Strategy<Value = Card> {
        let same = prop::collection::btree_map(".{0,8}", ".{0,8}", 0..6);
        (same, any::<std::net::IpAddr>(), any::<u32>()).prop_map(|(same, address, process)| Card {
            same,
            host: HostId::here().unwrap(),
            address,
            process,
            processors: Processors::here(),
        })
    }

    fn any_verdict() -> impl Strategy<Value = Verdict> {
        prop_oneof![
            prop::collection::vec(any_card(), 0..5).prop_map(Verdict::Agreed),
            ".{0,40}".prop_map(Verdict::Differs),
            ".{0,40}".prop_map(Verdict::Missing),
            any::<(u32, u32, u32)>().prop_map(|(rank, process, by)| {
                Verdict::Ended { rank, process, host: HostId::here().unwrap(), by }
            }),
        ]
    }

    proptest! {
        #[test]
        fn any_bytes_are_judged_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode::<Card>(&bytes);
            let _ = decode::<Verdict>(&bytes);
            let mut table = Table { world: 2, ..Table::default() };
            table.take(&bytes);
            let _ = table.weigh();
        }

        #[test]
        fn cards_and_verdicts_read_back(card in any_card(), verdict in any_verdict()) {
            prop_assert_eq!(decode::<Card>(&encode(&card)), Ok(card));
            prop_assert_eq!(decode::<Verdict>(&encode(&verdict)), Ok(verdict));
        }

        #[test]
        fn what_is_cut_short_is_not_taken_for_whole(verdict in any_verdict(), cut in 1_usize..9) {
            let bytes = encode(&verdict);
            let kept = &bytes[..bytes.len().saturating_sub(cut)];
            prop_assert!(decode::<Verdict>(kept).is_err());
        }
    }

    const LONG: Duration = Duration::from_secs(300);
}
