//! A cause as bytes, in which ranks tell it each other.
//!
//! They go through memory that another process writes, so they are as little trusted as anything that
//! comes from there: nothing is as long as they say before it was looked at, and no rank is named that
//! is not there.

use consort_sys::board::Alarm;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Cause, Ranks};

impl Cause {
    /// As bytes, no more than [fit](Alarm::VERDICT). Long words are cut.
    pub(in crate::engine) fn encode(&self) -> Vec<u8> {
        let mut cut = self.clone();
        match &mut cut {
            Self::Differs { mine, theirs, .. } => {
                shorten(mine, LONG / 2);
                shorten(theirs, LONG / 2);
            }
            Self::Dead { waiting, .. }
            | Self::Left { waiting, .. }
            | Self::Late { waiting, .. } => shorten(&mut waiting.call, LONG / 2),
            Self::Damaged { what, .. } => shorten(what, LONG),
            Self::Unable { reason } | Self::Aborted { reason } => shorten(reason, LONG),
        }
        postcard::to_allocvec(&cut).expect("memory can be extended")
    }

    /// What a rank of a group of this size has encoded; `None` if it cannot have.
    pub(in crate::engine) fn decode(bytes: &[u8], world: usize) -> Option<Self> {
        let cause: Self = postcard::from_bytes(bytes).ok()?;
        let exists = |rank: u32| (rank as usize) < world;
        let makes_sense = match &cause {
            Self::Differs { rank, .. } | Self::Dead { rank, .. } | Self::Damaged { rank, .. } => {
                exists(*rank)
            }
            Self::Left { ranks: Ranks(ranks), .. } | Self::Late { missing: Ranks(ranks), .. } => {
                ranks.iter().all(|&rank| exists(rank))
            }
            Self::Unable { .. } | Self::Aborted { .. } => true,
        };
        makes_sense.then_some(cause)
    }
}

/// A bit for each rank: there may be too many to list.
impl Serialize for Ranks {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes = self.0.last().map_or(0, |&last| last as usize / 8 + 1);
        let mut bits = vec![0_u8; bytes];
        for &rank in &self.0 {
            bits[rank as usize / 8] |= 1 << (rank % 8);
        }
        bits.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Ranks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bits = Vec::<u8>::deserialize(deserializer)?;
        let is_set = |rank: &usize| bits[rank / 8] & 1 << (rank % 8) != 0;
        Ok((0..8 * bits.len()).filter(is_set).collect())
    }
}

fn shorten(text: &mut String, most: usize) {
    text.truncate(text.floor_char_boundary(most));
}

/// Beside so much text there is room for a bit for each of the most ranks, and for the rest.
const LONG: usize = 900;
const _: () = {
    let ranks = crate::engine::lane::MOST / 8;
    assert!(LONG + 64 <= Alarm::VERDICT && LONG / 2 + ranks + 64 <= Alarm::VERDICT);
};

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::engine::lane::MOST;
    use crate::engine::verdict::Waiting;

    fn any_waiting() -> impl Strategy<Value = Waiting> {
        let waited = any::<u32>().prop_map(|millis| Duration::from_millis(millis.into()));
        (".{0,100}", any::<u64>(), waited).prop_map(|(call, number, waited)| Waiting {
            call,
            number,
            waited,
        })
    }

    fn any_cause() -> impl Strategy<Value = Cause> {
        let rank = || 0..MOST as u32;
        let ranks = || prop::collection::vec(0..MOST, 1..20).prop_map(Ranks::from_iter);
        prop_oneof![
            (any::<u64>(), ".{0,100}", rank(), ".{0,100}").prop_map(
                |(number, mine, rank, theirs)| Cause::Differs { number, mine, rank, theirs }
            ),
            (rank(), any_waiting()).prop_map(|(rank, waiting)| Cause::Dead { rank, waiting }),
            (ranks(), any_waiting()).prop_map(|(ranks, waiting)| Cause::Left { ranks, waiting }),
            (ranks(), any_waiting())
                .prop_map(|(missing, waiting)| Cause::Late { missing, waiting }),
            (rank(), ".{0,200}").prop_map(|(rank, what)| Cause::Damaged { rank, what }),
            ".{0,200}".prop_map(|reason| Cause::Unable { reason }),
            ".{0,200}".prop_map(|reason| Cause::Aborted { reason }),
        ]
    }

    /// As it comes from a board.
    fn padded(mut bytes: Vec<u8>) -> Vec<u8> {
        bytes.resize(Alarm::VERDICT, 0);
        bytes
    }

    proptest! {
        #[test]
        fn causes_are_heard_as_they_were_told(cause in any_cause()) {
            prop_assert_eq!(Cause::decode(&padded(cause.encode()), MOST), Some(cause));
        }

        #[test]
        fn any_bytes_are_heard_without_harm(
            bytes in prop::collection::vec(any::<u8>(), Alarm::VERDICT),
            first in 0_u8..8,
        ) {
            let mut bytes = bytes;
            let _ = Cause::decode(&bytes, 3);
            bytes[0] = first;
            let _ = Cause::decode(&bytes, 3);
        }
    }

    #[test]
    fn words_that_are_too_long_are_cut_and_everything_fits() {
        let long = || "é".repeat(Alarm::VERDICT);
        let all: Ranks = (0..MOST).collect();
        let waiting = Waiting { call: long(), number: u64::MAX, waited: Duration::MAX };
        let (number, rank) = (u64::MAX, MOST as u32 - 1);
        for cause in [
            Cause::Differs { number, mine: long(), rank, theirs: long() },
            Cause::Late { missing: all.clone(), waiting: waiting.clone() },
            Cause::Left { ranks: all, waiting: waiting.clone() },
            Cause::Dead { rank, waiting },
            Cause::Damaged { rank, what: long() },
            Cause::Unable { reason: long() },
            Cause::Aborted { reason: long() },
        ] {
            let bytes = cause.encode();
            assert!(bytes.len() <= Alarm::VERDICT, "{cause:?}");
            assert!(Cause::decode(&padded(bytes), MOST).is_some(), "{cause:?}");
        }
    }

    #[test]
    fn ranks_that_there_are_not_are_not_named() {
        let waiting = Waiting { call: "barrier".to_owned(), number: 1, waited: Duration::ZERO };
        let missing = [0, 3].into_iter().collect();
        for cause in [
            Cause::Late { missing, waiting: waiting.clone() },
            Cause::Dead { rank: 3, waiting },
            Cause::Damaged { rank: u32::MAX, what: String::new() },
        ] {
            assert_eq!(Cause::decode(&cause.encode(), 3), None, "{cause:?}");
        }
    }
}
