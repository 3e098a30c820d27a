//! What ranks tell each other when they ask for symmetric memory, and what has to be the same.

use std::collections::BTreeMap;

use consort_sys::dtype::Dtype;

use crate::call::Purpose;
use crate::card::differences_between;
use crate::error::{Error, Result};
use crate::group::Group;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Memory,
    Persistent,
    Pool,
    /// A part of a pool.
    Part,
    Workspace,
    /// A larger workspace than there is.
    LargerWorkspace,
    /// Memory of devices.
    OfDevices,
}

/// Why a rank cannot have what it asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    NoMemory,
    Impossible,
    InUse,
    KeptOtherwise,
    PoolFull,
    TooOld,
}

/// What a rank says of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Card {
    pub(super) kind: Kind,
    /// Which of the group's requests it is.
    pub(super) number: u64,
    /// A digest of the id under which it is kept; 0 if it has none.
    pub(super) id: u64,
    /// What it is to hold, if that is known.
    pub(super) dtype: Option<Dtype>,
    /// How many elements.
    pub(super) len: u64,
    pub(super) channels: u64,
    /// The request that first made what is asked for again; 0 if it is new.
    pub(super) since: u64,
    /// What stands against it.
    pub(super) trouble: Option<Trouble>,
    /// Where it is in the rank's memory. In a part of a pool the first is the same on all ranks.
    pub(super) places: [u64; 2],
}

/// Shows every rank's card to every rank. `reason` is the trouble in words.
///
/// # Errors
/// On all ranks when one has trouble, or their cards differ in what has to be the same.
pub(super) fn exchange(group: &Group, mine: &Card, reason: Option<Error>) -> Result<Vec<Card>> {
    let mut words = vec![0; WORDS * group.world()];
    group.gather_for(Purpose::SymmetricMemory, &mine.pack(), &mut words)?;
    let cards: Option<Vec<Card>> = words.chunks_exact(WORDS).map(Card::unpack).collect();
    let Some(cards) = cards else {
        let reason = "a rank has asked for symmetric memory in words that no version has";
        group.abort(reason);
        return Err(Error::Argument(reason.to_owned()));
    };
    match (reason, judge(&cards)) {
        (Some(reason), _) => Err(reason),
        (None, Some(differences)) => {
            Err(Error::Asymmetric { group: group.name().to_owned(), differences })
        }
        (None, None) => Ok(cards),
    }
}

/// A word that stands for an id.
pub(super) fn digest(id: &str) -> u64 {
    // Fowler, Noll and Vo's: spread well enough for names that people give.
    let digest = id.bytes().fold(0xcbf2_9ce4_8422_2325, |digest: u64, byte| {
        (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    digest.max(1)
}

/// Which ranks differ in what, or cannot have it; `None` if all is well.
fn judge(cards: &[Card]) -> Option<String> {
    let said: Vec<BTreeMap<String, String>> = cards.iter().map(Card::in_words).collect();
    let differences = differences_between((0..).zip(&said));
    let trouble = cards.iter().any(|card| card.trouble.is_some());
    differences.or_else(|| trouble.then(|| "  no rank can have it".to_owned()))
}

impl Card {
    fn pack(&self) -> [u64; WORDS] {
        let dtype = self.dtype.map_or(0, |dtype| u64::from(dtype.code()) + 1);
        let trouble = self.trouble.map_or(0, |trouble| trouble as u64 + 1);
        [
            MAGIC | self.kind as u64,
            self.number,
            self.id,
            dtype | trouble << 32,
            self.len,
            self.channels,
            self.since,
            self.places[0],
            self.places[1],
        ]
    }

    /// `None` if it is no card.
    fn unpack(words: &[u64]) -> Option<Self> {
        let &[kind, number, id, small, len, channels, since, first, second] = words else {
            return None;
        };
        let dtype = match u32::try_from(small & u64::from(u32::MAX)).ok()?.checked_sub(1) {
            None => None,
            Some(code) => Some(Dtype::from_code(u8::try_from(code).ok()?)?),
        };
        let trouble = match (small >> 32).checked_sub(1) {
            None => None,
            Some(index) => Some(*TROUBLES.get(usize::try_from(index).ok()?)?),
        };
        let kind = *KINDS.get(usize::try_from(kind ^ MAGIC).ok()?)?;
        let places = [first, second];
        Some(Self { kind, number, id, dtype, len, channels, since, trouble, places })
    }

    /// What has to be the same on all ranks, by name.
    fn in_words(&self) -> BTreeMap<String, String> {
        let since = match self.since {
            0 => "new".to_owned(),
            number => format!("from request {number}"),
        };
        let id = match self.id {
            0 => "none".to_owned(),
            id => format!("{:08x}…", id >> 32),
        };
        let place = match self.kind {
            Kind::Part => self.places[0].to_string(),
            _ => "anywhere".to_owned(),
        };
        [
            ("asked for", self.kind.name().to_owned()),
            ("requests so far", self.number.to_string()),
            ("id", id),
            ("type", self.dtype.map_or("bytes", Dtype::name).to_owned()),
            ("length", self.len.to_string()),
            ("channels", self.channels.to_string()),
            ("made", since),
            ("place in the pool", place),
            ("memory", self.trouble.map_or("to be had", Trouble::name).to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Persistent => "persistent memory",
            Self::Pool => "a pool",
            Self::Part => "memory of a pool",
            Self::Workspace => "workspace",
            Self::LargerWorkspace => "larger workspace",
            Self::OfDevices => "memory of devices",
        }
    }
}

impl Trouble {
    fn name(self) -> &'static str {
        match self {
            Self::NoMemory => "not enough",
            Self::Impossible => "impossible",
            Self::InUse => "still in use",
            Self::KeptOtherwise => "kept otherwise",
            Self::PoolFull => "none left in the pool",
            Self::TooOld => "NCCL is too old",
        }
    }
}

const WORDS: usize = 9;
/// The first word of every card, but for its last byte.
const MAGIC: u64 = 0x7379_6d6d_6574_7200;
const KINDS: [Kind; 7] = [
    Kind::Memory,
    Kind::Persistent,
    Kind::Pool,
    Kind::Part,
    Kind::Workspace,
    Kind::LargerWorkspace,
    Kind::OfDevices,
];
const TROUBLES: [Trouble; 6] = [
    Trouble::NoMemory,
    Trouble::Impossible,
    Trouble::InUse,
    Trouble::KeptOtherwise,
    Trouble::PoolFull,
    Trouble::TooOld,
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn card() -> Card {
        Card {
            kind: Kind::Memory,
            number: 3,
            id: 0,
            dtype: Some(Dtype::F32),
            len: 64,
            channels: 16,
            since: 0,
            trouble: None,
            places: [4096, 8192],
        }
    }

    #[test]
    fn every_kind_and_every_trouble_reads_back() {
        for kind in KINDS {
            for trouble in TROUBLES.map(Some).into_iter().chain([None]) {
                for dtype in [None, Some(Dtype::F32), Some(Dtype::C128)] {
                    let card = Card { kind, trouble, dtype, ..card() };
                    assert_eq!(Card::unpack(&card.pack()), Some(card));
                }
            }
        }
    }

    #[test]
    fn who_differs_in_what_is_shown_and_places_may_differ() {
        let elsewhere = Card { places: [0, 0], ..card() };
        assert_eq!(judge(&[card(), elsewhere]), None);
        let longer = Card { len: 65, dtype: Some(Dtype::F64), ..card() };
        assert_eq!(
            judge(&[card(), longer, card()]).unwrap(),
            "  length: 64 on ranks 0, 2, 65 on rank 1\n  type: f32 on ranks 0, 2, f64 on rank 1"
        );
        let part = Card { kind: Kind::Part, ..card() };
        let other = Card { places: [0, 8192], ..part };
        assert_eq!(
            judge(&[part, other]).unwrap(),
            "  place in the pool: 0 on rank 1, 4096 on rank 0"
        );
    }

    #[test]
    fn trouble_of_one_or_of_all_is_trouble_for_all() {
        let poor = Card { trouble: Some(Trouble::NoMemory), ..card() };
        assert_eq!(
            judge(&[card(), poor]).unwrap(),
            "  memory: not enough on rank 1, to be had on rank 0"
        );
        assert_eq!(judge(&[poor, poor]).unwrap(), "  no rank can have it");
    }

    #[test]
    fn ids_have_different_digests() {
        let ids = ["", "a", "b", "ab", "ba", "aa", "activations"];
        let digests: std::collections::BTreeSet<u64> = ids.map(digest).into();
        assert_eq!(digests.len(), ids.len());
        assert!(!digests.contains(&0));
    }

    proptest! {
        #[test]
        fn any_words_are_read_without_harm(words in prop::collection::vec(any::<u64>(), 0..12)) {
            let _ = Card::unpack(&words);
        }
    }
}
