//! The words of the store: what can be asked, what can be answered, and how large either may be.
//!
//! Every store understands exactly these requests, and the wire protocol carries exactly these
//! types, so a request means the same wherever it is carried out.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::error::{Missing, Refusal, Result};

/// One thing asked of a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Request<'a> {
    /// Create or replace a value.
    Set {
        /// The key.
        key: &'a str,
        /// The new value.
        #[serde(with = "serde_bytes")]
        value: &'a [u8],
    },
    /// Read a value, waiting for it to appear.
    Get {
        /// The key.
        key: &'a str,
    },
    /// Read a value, waiting until there is one other than `known`.
    GetChanged {
        /// The key.
        key: &'a str,
        /// The value that the caller has seen.
        #[serde(with = "serde_bytes")]
        known: &'a [u8],
    },
    /// Read several values as they are at one moment, waiting for all to appear.
    MultiGet {
        /// The keys.
        #[serde(borrow, deserialize_with = "bounded_list")]
        keys: Vec<&'a str>,
    },
    /// Create or replace several values at one moment.
    MultiSet {
        /// Keys with their values.
        #[serde(borrow, deserialize_with = "bounded_list")]
        pairs: Vec<Pair<'a>>,
    },
    /// Add to a number; a missing one counts as zero.
    Add {
        /// The key.
        key: &'a str,
        /// What to add.
        delta: i64,
    },
    /// Replace a value if it is what the caller believes it to be.
    CompareSet {
        /// The key.
        key: &'a str,
        /// What the value should be now; `None`: missing.
        #[serde(with = "serde_bytes")]
        expect: Option<&'a [u8]>,
        /// What it should become.
        #[serde(with = "serde_bytes")]
        new: &'a [u8],
    },
    /// Add bytes at the end of a value; a missing one counts as empty.
    Append {
        /// The key.
        key: &'a str,
        /// What to add.
        #[serde(with = "serde_bytes")]
        value: &'a [u8],
    },
    /// Wait until all keys exist at one moment.
    Wait {
        /// The keys.
        #[serde(borrow, deserialize_with = "bounded_list")]
        keys: Vec<&'a str>,
    },
    /// Remove a key and what it holds.
    Delete {
        /// The key.
        key: &'a str,
    },
    /// Count the keys that begin with a prefix.
    Count {
        /// The prefix; empty for all.
        prefix: &'a str,
    },
    /// List the keys that begin with a prefix.
    List {
        /// The prefix; empty for all.
        prefix: &'a str,
    },
    /// Add at the end of a queue.
    Push {
        /// The queue's key.
        key: &'a str,
        /// The new last element.
        #[serde(with = "serde_bytes")]
        value: &'a [u8],
    },
    /// Take the first element of a queue, waiting for one.
    Pop {
        /// The queue's key.
        key: &'a str,
    },
    /// Count the elements of a queue.
    QueueLen {
        /// The queue's key.
        key: &'a str,
    },
    /// Come to a barrier; answered with the barrier's present generation, without waiting.
    Arrive {
        /// The barrier's key.
        key: &'a str,
        /// Who comes.
        rank: u32,
        /// How many must come.
        world: u32,
    },
    /// Wait until a barrier has left a generation behind.
    Pass {
        /// The barrier's key.
        key: &'a str,
        /// The generation that [`Arrive`](Request::Arrive) answered.
        generation: u64,
    },
    /// Take an arrival back, unless the barrier has been passed meanwhile.
    Withdraw {
        /// The barrier's key.
        key: &'a str,
        /// Who leaves.
        rank: u32,
        /// The generation that [`Arrive`](Request::Arrive) answered.
        generation: u64,
    },
}

/// A key with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair<'a> {
    /// The key.
    pub key: &'a str,
    /// The value.
    #[serde(with = "serde_bytes")]
    pub value: &'a [u8],
}

/// What a store answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Reply {
    /// It is done.
    Done,
    /// A value.
    Value(#[serde(with = "serde_bytes")] Vec<u8>),
    /// Values, in the order of the keys.
    Values(Vec<serde_bytes::ByteBuf>),
    /// A number: a counter, a count.
    Number(i64),
    /// Whether there was something to do.
    Flag(bool),
    /// How a [`CompareSet`](Request::CompareSet) went.
    Swap(Swap),
    /// Names of keys.
    Keys(Vec<String>),
    /// A barrier's generation.
    Generation(u64),
    /// It would have to wait longer, for these.
    Missing(Missing),
    /// The request was wrong.
    Refused(Refusal),
}

impl Reply {
    /// About how many bytes it takes to keep.
    pub(crate) fn weight(&self) -> usize {
        const PER_ITEM: usize = 64;
        let bytes = match self {
            Self::Value(value) | Self::Swap(Swap::Differs(value)) => value.len(),
            Self::Values(values) => values.iter().map(|value| PER_ITEM + value.len()).sum(),
            Self::Keys(keys) => keys.iter().map(|key| PER_ITEM + key.len()).sum(),
            _ => 0,
        };
        PER_ITEM + bytes
    }
}

/// How a [`CompareSet`](Request::CompareSet) went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[must_use]
pub enum Swap {
    /// The value was as expected and is now the new one.
    Swapped,
    /// The key holds this instead; nothing was changed.
    Differs(#[serde(with = "serde_bytes")] Vec<u8>),
    /// The key does not exist, though a value was expected; nothing was changed.
    Missing,
}

/// How large things may be. The same in every store, so that a program that works with one
/// works with all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes in a key.
    pub key: usize,
    /// Bytes in a value or in a queue's element.
    pub value: usize,
    /// Keys in one request.
    pub keys: usize,
    /// Ranks at a barrier.
    pub world: u32,
    /// Bytes in one request or reply, with everything it carries.
    pub message: usize,
    /// Bytes that a store holds in all, keys and a fixed charge for each entry included.
    pub store: usize,
}

impl Limits {
    /// The limits every store has.
    pub const STANDARD: Self = Self {
        key: 8 << 10,
        value: 8 << 20,
        keys: 128 << 10,
        world: 1 << 20,
        message: 64 << 20,
        store: 1 << 30,
    };
}

impl<'a> Request<'a> {
    /// The verb's name, as errors and logs show it.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Set { .. } => "set",
            Self::Get { .. } => "get",
            Self::GetChanged { .. } => "get_changed",
            Self::MultiGet { .. } => "multi_get",
            Self::MultiSet { .. } => "multi_set",
            Self::Add { .. } => "add",
            Self::CompareSet { .. } => "compare_set",
            Self::Append { .. } => "append",
            Self::Wait { .. } => "wait",
            Self::Delete { .. } => "delete",
            Self::Count { .. } => "num_keys",
            Self::List { .. } => "list_keys",
            Self::Push { .. } => "push",
            Self::Pop { .. } => "pop",
            Self::QueueLen { .. } => "queue_len",
            Self::Arrive { .. } | Self::Pass { .. } | Self::Withdraw { .. } => "barrier",
        }
    }

    /// The keys it names, in order.
    pub fn keys(&self) -> impl Iterator<Item = &'a str> {
        let (one, many, pairs): (_, &[&'a str], &[Pair<'a>]) = match self {
            Self::MultiGet { keys } | Self::Wait { keys } => (None, keys, &[]),
            Self::MultiSet { pairs } => (None, &[], pairs),
            Self::Count { .. } | Self::List { .. } => (None, &[], &[]),
            Self::Set { key, .. }
            | Self::Get { key }
            | Self::GetChanged { key, .. }
            | Self::Add { key, .. }
            | Self::CompareSet { key, .. }
            | Self::Append { key, .. }
            | Self::Delete { key }
            | Self::Push { key, .. }
            | Self::Pop { key }
            | Self::QueueLen { key }
            | Self::Arrive { key, .. }
            | Self::Pass { key, .. }
            | Self::Withdraw { key, .. } => (Some(*key), &[], &[]),
        };
        one.into_iter().chain(many.iter().copied()).chain(pairs.iter().map(|pair| pair.key))
    }

    /// Whether it can bring something into being that others wait for.
    pub fn can_wake(&self) -> bool {
        matches!(
            self,
            Self::Set { .. }
                | Self::MultiSet { .. }
                | Self::Add { .. }
                | Self::CompareSet { .. }
                | Self::Append { .. }
                | Self::Push { .. }
                | Self::Arrive { .. }
        )
    }

    /// Whether it can change what the store holds.
    pub fn can_change(&self) -> bool {
        self.can_wake()
            || matches!(self, Self::Delete { .. } | Self::Pop { .. } | Self::Withdraw { .. })
    }

    /// Whether it may have to wait for what others do.
    pub fn can_wait(&self) -> bool {
        matches!(
            self,
            Self::Get { .. }
                | Self::GetChanged { .. }
                | Self::MultiGet { .. }
                | Self::Wait { .. }
                | Self::Pop { .. }
                | Self::Pass { .. }
        )
    }

    /// About how many bytes it takes to carry: what it names and what it brings.
    pub fn weight(&self) -> usize {
        const PER_ITEM: usize = 16;
        let keys: usize = self.keys().map(|key| key.len() + PER_ITEM).sum();
        let values = match self {
            Self::Set { value, .. } | Self::Append { value, .. } | Self::Push { value, .. } => {
                value.len()
            }
            Self::GetChanged { known, .. } => known.len(),
            Self::CompareSet { expect, new, .. } => expect.map_or(0, <[u8]>::len) + new.len(),
            Self::MultiSet { pairs } => pairs.iter().map(|pair| pair.value.len()).sum(),
            Self::Count { prefix } | Self::List { prefix } => prefix.len(),
            _ => 0,
        };
        PER_ITEM + keys + values
    }

    /// Refuses what no store would take, before anything is sent or touched.
    pub fn check(&self, limits: &Limits) -> Result<(), Refusal> {
        for key in self.keys() {
            check_key(key, limits)?;
        }
        match self {
            Self::Set { key, value } | Self::Append { key, value } | Self::Push { key, value } => {
                check_value(key, value.len(), limits)?;
            }
            Self::CompareSet { key, new, .. } => check_value(key, new.len(), limits)?,
            Self::MultiSet { pairs } => {
                check_count(pairs.len(), limits)?;
                for pair in pairs {
                    check_value(pair.key, pair.value.len(), limits)?;
                }
            }
            Self::MultiGet { keys } | Self::Wait { keys } => check_count(keys.len(), limits)?,
            Self::Arrive { key, rank, world } if *world > limits.world => {
                return Err(Refusal::BarrierRank {
                    key: (*key).to_owned(),
                    rank: *rank,
                    world: *world,
                    reason: format!("at most {} ranks can meet", limits.world),
                });
            }
            _ => {}
        }
        match self.weight() {
            length if length > limits.message => {
                Err(Refusal::MessageTooLarge { length, limit: limits.message })
            }
            _ => Ok(()),
        }
    }
}

fn check_key(key: &str, limits: &Limits) -> Result<(), Refusal> {
    if key.is_empty() {
        return Err(Refusal::EmptyKey);
    }
    if key.len() > limits.key {
        let start = key.chars().take(32).collect();
        return Err(Refusal::KeyTooLong { length: key.len(), limit: limits.key, start });
    }
    Ok(())
}

fn check_count(count: usize, limits: &Limits) -> Result<(), Refusal> {
    if count > limits.keys {
        return Err(Refusal::TooManyKeys { count, limit: limits.keys });
    }
    Ok(())
}

/// Reads a list of at most as many items as any request may have: a small message could otherwise
/// become a list many times its size.
pub(crate) fn bounded_list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Bounded<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Bounded<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "at most {} items", Limits::STANDARD.keys)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<T>, A::Error> {
            let mut list = Vec::new();
            while let Some(item) = items.next_element()? {
                if list.len() == Limits::STANDARD.keys {
                    return Err(A::Error::invalid_length(list.len() + 1, &self));
                }
                list.push(item);
            }
            Ok(list)
        }
    }

    deserializer.deserialize_seq(Bounded(PhantomData))
}

/// Refuses a value of `length` bytes that is over the limit.
pub(crate) fn check_value(key: &str, length: usize, limits: &Limits) -> Result<(), Refusal> {
    if length > limits.value {
        return Err(Refusal::ValueTooLarge { key: key.to_owned(), length, limit: limits.value });
    }
    Ok(())
}
