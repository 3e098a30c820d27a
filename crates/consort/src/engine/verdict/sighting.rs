//! What a rank has seen of others, as it travels with a verdict.
//!
//! It stands behind the [cause](super::Cause), in as many bytes as that leaves: of many ranks the first
//! are told of. Hosts and processes are not in it, for all ranks know those. What comes is another's, and
//! bounded and checked like the cause.

use consort_sys::board::Alarm;
use serde::{Deserialize, Serialize};

use crate::call::Description;
use crate::whereabouts::{CallStage, Condition, LastCall};

/// What was seen of one rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sighting {
    /// Its rank in the group.
    pub(crate) rank: u32,
    pub(crate) condition: Condition,
    pub(crate) last: Option<Seen>,
}

/// A call that a rank was seen in, or after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Seen {
    /// The group's name, if it is another than the one that has failed.
    pub(crate) elsewhere: Option<String>,
    pub(crate) number: u64,
    /// What was called, [packed](Description::pack).
    pub(crate) call: [u64; 2],
    pub(crate) stage: CallStage,
}

impl Sighting {
    /// Of so many ranks at most something is told.
    pub(crate) const MOST: usize = 8;

    /// Writes as many of these behind a cause as there is room for.
    pub(super) fn append(seen: &[Self], cause: &mut Vec<u8>) {
        let mut seen: Vec<Self> = seen.iter().take(Self::MOST).cloned().collect();
        seen.iter_mut().for_each(Self::shorten);
        loop {
            let bytes = postcard::to_allocvec(&seen).expect("memory can be extended");
            if cause.len() + bytes.len() <= ROOM {
                return cause.extend(bytes);
            }
            if seen.pop().is_none() {
                return;
            }
        }
    }

    /// What stands behind the cause that a rank of a group of this size has told; nothing, if that
    /// cannot be.
    pub(super) fn read(rest: &[u8], world: usize) -> Vec<Self> {
        let read: Result<(Vec<Self>, _), _> = postcard::take_from_bytes(rest);
        let mut seen = read.map(|(seen, _)| seen).unwrap_or_default();
        seen.truncate(Self::MOST);
        seen.retain(|it| (it.rank as usize) < world);
        seen.iter_mut().for_each(Self::shorten);
        seen
    }

    fn shorten(&mut self) {
        if let Some(Seen { elsewhere: Some(group), .. }) = &mut self.last {
            group.truncate(group.floor_char_boundary(NAME));
            group.retain(|letter| !letter.is_control());
        }
    }
}

impl Seen {
    /// In words, of a rank of this group.
    pub(in crate::engine) fn in_words(&self, group: &str) -> LastCall {
        let call = match Description::unpack(self.call) {
            Some(description) => description.to_string(),
            None => "a call of another version".to_owned(),
        };
        LastCall {
            group: self.elsewhere.as_deref().unwrap_or(group).into(),
            number: self.number,
            call: call.into(),
            stage: self.stage,
        }
    }
}

/// So much there is for a cause and what was seen: between hosts the board needs a little more.
const ROOM: usize = Alarm::VERDICT - 32;
/// Longer names are cut off.
const NAME: usize = 48;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn any_stage() -> impl Strategy<Value = CallStage> {
        let time = || any::<u32>().prop_map(|millis| Duration::from_millis(millis.into()));
        prop_oneof![
            (time(), any::<Option<u32>>())
                .prop_map(|(since, awaits)| CallStage::Within { since, awaits }),
            time().prop_map(|since| CallStage::Over { since }),
            Just(CallStage::Begun),
        ]
    }

    fn any_sighting() -> impl Strategy<Value = Sighting> {
        let condition = prop_oneof![
            Just(Condition::Alive),
            Just(Condition::Ended),
            Just(Condition::Unreachable),
            Just(Condition::Left),
        ];
        let seen = (prop::option::of("[a-z/#0-9]{0,40}"), any::<(u64, [u64; 2])>(), any_stage())
            .prop_map(|(elsewhere, (number, call), stage)| Seen { elsewhere, number, call, stage });
        (0..WORLD as u32, condition, prop::option::of(seen))
            .prop_map(|(rank, condition, last)| Sighting { rank, condition, last })
    }

    proptest! {
        #[test]
        fn what_was_seen_of_the_first_ranks_is_heard_as_it_was_told(
            seen in prop::collection::vec(any_sighting(), 0..12),
            before in 0..ROOM + 9,
        ) {
            let mut bytes = vec![7; before];
            Sighting::append(&seen, &mut bytes);
            prop_assert!(bytes.len() <= ROOM.max(before));
            bytes.resize(Alarm::VERDICT.max(before), 0);
            let heard = Sighting::read(&bytes[before..], WORLD);
            prop_assert_eq!(&heard[..], &seen[..heard.len()]);
            // Each takes less than a hundred bytes.
            let least = ROOM.saturating_sub(before) / 100;
            prop_assert!(heard.len() >= least.min(seen.len()).min(Sighting::MOST));
        }

        #[test]
        fn any_bytes_are_heard_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let heard = Sighting::read(&bytes, 3);
            prop_assert!(heard.len() <= Sighting::MOST);
            for Sighting { rank, last, .. } in heard {
                prop_assert!(rank < 3);
                prop_assert!(last.is_none_or(|it| it.in_words("few").group.len() <= NAME));
            }
        }
    }

    const WORLD: usize = 5000;
}
