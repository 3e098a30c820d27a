//! A cause as bytes, in which ranks tell it each other.
//!
//! They go through memory that another process writes, so they are as little trusted as anything that
//! comes from there: nothing is as long as they say before it was looked at, and no rank is named that
//! is not there.

use consort_sys::board::Alarm;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Cause, Ranks, Sighting};

impl Cause {
    /// As bytes, no more than [fit](Alarm::VERDICT), with what was seen of those whom it names behind
    /// it. Long words are cut, and of what was seen is told what there is room for.
    pub(in crate::engine) fn encode_with(&self, seen: &[Sighting]) -> Vec<u8> {
        let mut bytes = self.encode();
        Sighting::append(seen, &mut bytes);
        bytes
    }

    fn encode(&self) -> Vec<u8> {
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
            Self::Diverged { .. } => {}
            Self::Unable { reason } | Self::Aborted { reason } => shorten(reason, LONG),
        }
        postcard::to_allocvec(&cut).expect("memory can be extended")
    }

    /// What a rank of a group of this size has encoded, and has seen; `None` if it cannot have.
    pub(in crate::engine) fn decode_with(
        bytes: &[u8],
        world: usize,
    ) -> Option<(Self, Vec<Sighting>)> {
        let (cause, rest) = postcard::take_from_bytes::<Self>(bytes).ok()?;
        cause.makes_sense(world).then(|| (cause, Sighting::read(rest, world)))
    }

    fn makes_sense(&self, world: usize) -> bool {
        let exists = |rank: u32| (rank as usize) < world;
        match self {
            Self::Differs { rank, .. } | Self::Dead { rank, .. } | Self::Damaged { rank, .. } => {
                exists(*rank)
            }
            Self::Left { ranks: Ranks(ranks), .. }
            | Self::Diverged { ranks: Ranks(ranks), .. }
            | Self::Late { missing: Ranks(ranks), .. } => ranks.iter().all(|&rank| exists(rank)),
            Self::Unable { .. } | Self::Aborted { .. } => true,
        }
    }
}

/// The first rank, and a bit for each from there on: there may be too many to list. Of those on
/// several hosts there may even be too many for that: what lies too far behind the first is not told.
impl Serialize for Ranks {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let first = self.0.first().copied().unwrap_or(0);
        let mut bits = Vec::new();
        for at in self.0.iter().map(|rank| (rank - first) as usize).take_while(|at| at / 8 < SPAN) {
            bits.resize(at / 8 + 1, 0_u8);
            bits[at / 8] |= 1 << (at % 8);
        }
        (first, bits).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Ranks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (first, bits) = <(u32, Vec<u8>)>::deserialize(deserializer)?;
        let is_set = |at: &usize| bits[at / 8] & 1 << (at % 8) != 0;
        let rank = |at: usize| u32::try_from(at).ok().and_then(|at| first.checked_add(at));
        let ranks = (0..8 * bits.len()).filter(is_set).map(rank);
        let ranks: Option<Vec<u32>> = ranks.collect();
        ranks.map(Self).ok_or_else(|| D::Error::custom("no rank has such a number"))
    }
}

fn shorten(text: &mut String, most: usize) {
    text.truncate(text.floor_char_boundary(most));
}

/// Beside so much text there is room for the rest.
const LONG: usize = 900;
/// So many bytes of bits fit beside half of it: enough for all ranks of one host.
const SPAN: usize = 500;
const _: () = {
    assert!(LONG + 64 <= Alarm::VERDICT && LONG / 2 + SPAN + 64 <= Alarm::VERDICT);
    assert!(SPAN >= crate::engine::lane::MOST / 8);
};

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::engine::lane::MOST;
    use crate::engine::verdict::Waiting;

    impl Cause {
        fn decode(bytes: &[u8], world: usize) -> Option<Self> {
            Self::decode_with(bytes, world).map(|(cause, _)| cause)
        }
    }

    fn any_waiting() -> impl Strategy<Value = Waiting> {
        let waited = any::<u32>().prop_map(|millis| Duration::from_millis(millis.into()));
        (".{0,100}", any::<u64>(), waited).prop_map(|(call, number, waited)| Waiting {
            call,
            number,
            waited,
        })
    }

    fn any_cause() -> impl Strategy<Value = Cause> {
        let rank = || 0..MANY as u32;
        let ranks = || {
            let ranks = (0..MANY - MOST, prop::collection::vec(0..MOST, 1..20));
            ranks.prop_map(|(first, behind)| behind.into_iter().map(|it| first + it).collect())
        };
        prop_oneof![
            (any::<u64>(), ".{0,100}", rank(), ".{0,100}").prop_map(
                |(number, mine, rank, theirs)| Cause::Differs { number, mine, rank, theirs }
            ),
            (rank(), any_waiting()).prop_map(|(rank, waiting)| Cause::Dead { rank, waiting }),
            (ranks(), any_waiting()).prop_map(|(ranks, waiting)| Cause::Left { ranks, waiting }),
            (ranks(), any_waiting())
                .prop_map(|(missing, waiting)| Cause::Late { missing, waiting }),
            (rank(), ".{0,200}").prop_map(|(rank, what)| Cause::Damaged { rank, what }),
            (ranks(), any::<(u64, u64)>()).prop_map(|(ranks, (first, last))| Cause::Diverged {
                ranks,
                first,
                last
            }),
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
            prop_assert_eq!(Cause::decode(&padded(cause.encode()), MANY), Some(cause));
        }

        #[test]
        fn any_bytes_are_heard_without_harm(
            bytes in prop::collection::vec(any::<u8>(), Alarm::VERDICT),
            first in 0_u8..9,
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
            Cause::Diverged { ranks: all.clone(), first: number, last: number },
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
    fn of_ranks_that_are_too_many_to_tell_the_first_are_told() {
        let waiting = Waiting { call: "é".repeat(LONG), number: u64::MAX, waited: Duration::MAX };
        let told = |missing: Ranks| {
            let bytes = Cause::Late { missing, waiting: waiting.clone() }.encode();
            assert!(bytes.len() <= Alarm::VERDICT);
            match Cause::decode(&padded(bytes), MANY) {
                Some(Cause::Late { missing: Ranks(missing), .. }) => missing,
                other => panic!("{other:?}"),
            }
        };
        let all = told((0..MANY).collect());
        assert_eq!(all, (0..all.len() as u32).collect::<Vec<u32>>());
        assert!(all.len() >= MOST);
        assert_eq!(told([7, MANY - 2, MANY - 1].into_iter().collect()), [7]);
        let last = [MANY - 2, MANY - 1];
        assert_eq!(told(last.into_iter().collect()), last.map(|rank| rank as u32));
    }

    #[test]
    fn a_rank_beyond_all_numbers_is_not_told() {
        let waiting = Waiting { call: String::new(), number: 1, waited: Duration::ZERO };
        let missing = Ranks(vec![u32::MAX - 3, u32::MAX]);
        let mut bytes = Cause::Late { missing, waiting }.encode();
        assert!(Cause::decode(&bytes, usize::MAX).is_some());
        let bits = bytes.iter().position(|&byte| byte == 0b1001).unwrap();
        bytes[bits] = 0b1_0001;
        assert_eq!(Cause::decode(&bytes, usize::MAX), None);
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

    /// More than are on one host.
    const MANY: usize = 100_000;
}
