//! What a store holds, and what each request does to it. Pure: no clock, no lock, no waiting.
//!
//! Every store carries out requests with this one table, so that they cannot differ in meaning.
//! A request that cannot be satisfied yet is answered with [`Outcome::Blocked`]; who waits, and
//! how, is the business of the store around it.

mod snapshot;

use std::collections::{BTreeSet, HashMap, VecDeque};

use crate::error::{EntryType, Missing, Refusal};
use crate::request::{Limits, Pair, Reply, Request, Swap, check_value};

pub(crate) use snapshot::Part;

/// The table of one store.
#[derive(Debug)]
pub(crate) struct Table {
    entries: HashMap<Box<str>, Entry>,
    held: usize,
    changes: u64,
    limits: Limits,
}

/// What came of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is settled; this is the answer.
    Settled(Reply),
    /// It has to wait, and cannot be satisfied before something is written to this key: the
    /// `usize`-th of the request's keys.
    Blocked(usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    Value(Vec<u8>),
    Queue(VecDeque<Vec<u8>>),
    Barrier(Barrier),
}

/// A barrier's round: who has come to it. The generation counts completed rounds.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Barrier {
    world: u32,
    generation: u64,
    arrived: BTreeSet<u32>,
}

impl Table {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { entries: HashMap::new(), held: 0, changes: 0, limits }
    }

    /// Carries out a request, or says what it has to wait for. A refused or blocked request has
    /// changed nothing.
    pub(crate) fn apply(&mut self, request: &Request<'_>) -> Outcome {
        match self.attempt(request) {
            Ok(outcome) => outcome,
            Err(refusal) => Outcome::Settled(Reply::Refused(refusal)),
        }
    }

    /// Whether the key exists.
    pub(crate) fn contains(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// Counts the changes so far; one request may count as several, or as none if everything was
    /// as it asks already.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// How many bytes the table holds, keys and a charge for each entry included.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// What a blocked request is waiting for.
    pub(crate) fn missing(&self, request: &Request<'_>) -> Missing {
        if let Request::Pass { key, .. } = request
            && let Some(Entry::Barrier(barrier)) = self.entries.get(*key)
        {
            let absent = (0..barrier.world).filter(|rank| !barrier.arrived.contains(rank));
            let names = absent.take(Missing::NAMED).map(|rank| format!("rank {rank}")).collect();
            return Missing { names, count: barrier.world as usize - barrier.arrived.len() };
        }
        if let Request::GetChanged { key, .. } = request {
            return Missing::collect([format!("a change of {key:?}")].into_iter());
        }
        Missing::collect(
            request.keys().filter(|key| !self.contains(key)).map(|key| format!("{key:?}")),
        )
    }

    fn attempt(&mut self, request: &Request<'_>) -> Result<Outcome, Refusal> {
        request.check(&self.limits)?;
        let reply = match request {
            Request::Set { key, value } => self.set(key, value)?,
            Request::Get { key } => match self.value(key)? {
                Some(value) => Reply::Value(value.clone()),
                None => return Ok(Outcome::Blocked(0)),
            },
            Request::GetChanged { key, known } => match self.value(key)? {
                Some(value) if value != known => Reply::Value(value.clone()),
                _ => return Ok(Outcome::Blocked(0)),
            },
            Request::MultiGet { keys } => return self.multi_get(keys),
            Request::MultiSet { pairs } => self.multi_set(pairs)?,
            Request::Add { key, delta } => self.add(key, *delta)?,
            Request::CompareSet { key, expect, new } => self.compare_set(key, *expect, new)?,
            Request::Append { key, value } => self.append(key, value)?,
            Request::Wait { keys } => match keys.iter().position(|key| !self.contains(key)) {
                Some(absent) => return Ok(Outcome::Blocked(absent)),
                None => Reply::Done,
            },
            Request::Delete { key } => self.delete(key)?,
            Request::Count { prefix } => Reply::Number(
                self.entries.keys().filter(|key| key.starts_with(prefix)).count() as i64,
            ),
            Request::List { prefix } => self.list(prefix)?,
            Request::Push { key, value } => self.push(key, value)?,
            Request::Pop { key } => match self.pop(key)? {
                Some(value) => Reply::Value(value),
                None => return Ok(Outcome::Blocked(0)),
            },
            Request::QueueLen { key } => {
                Reply::Number(self.queue(key)?.map_or(0, VecDeque::len) as i64)
            }
            Request::Arrive { key, rank, world } => self.arrive(key, *rank, *world)?,
            Request::Pass { key, generation } => match self.barrier(key)? {
                Some(barrier) if barrier.generation <= *generation => {
                    return Ok(Outcome::Blocked(0));
                }
                _ => Reply::Done,
            },
            Request::Withdraw { key, rank, generation } => {
                self.withdraw(key, *rank, *generation)?
            }
        };
        Ok(Outcome::Settled(reply))
    }

    fn set(&mut self, key: &str, value: &[u8]) -> Result<Reply, Refusal> {
        self.value(key)?;
        self.put(key, Entry::Value(value.to_vec()))?;
        Ok(Reply::Done)
    }

    fn multi_get(&self, keys: &[&str]) -> Result<Outcome, Refusal> {
        let mut values = Vec::with_capacity(keys.len());
        let mut length = 0;
        for (index, key) in keys.iter().enumerate() {
            let Some(value) = self.value(key)? else { return Ok(Outcome::Blocked(index)) };
            length += value.len() + PER_ITEM;
            self.check_message(length)?;
            values.push(serde_bytes::ByteBuf::from(value.clone()));
        }
        Ok(Outcome::Settled(Reply::Values(values)))
    }

    fn multi_set(&mut self, pairs: &[Pair<'_>]) -> Result<Reply, Refusal> {
        let mut growth = 0;
        for pair in pairs {
            self.value(pair.key)?;
            growth += charge(pair.key, pair.value.len());
        }
        self.check_room(growth)?;
        for pair in pairs {
            self.put(pair.key, Entry::Value(pair.value.to_vec()))?;
        }
        Ok(Reply::Done)
    }

    fn add(&mut self, key: &str, delta: i64) -> Result<Reply, Refusal> {
        let value = match self.value(key)? {
            Some(text) => parse_number(text).ok_or_else(|| Refusal::NotANumber {
                key: key.to_owned(),
                value: String::from_utf8_lossy(&text[..text.len().min(32)]).into_owned(),
            })?,
            None => 0,
        };
        let sum = value.checked_add(delta).ok_or_else(|| Refusal::Overflow {
            key: key.to_owned(),
            value,
            delta,
        })?;
        self.put(key, Entry::Value(sum.to_string().into_bytes()))?;
        Ok(Reply::Number(sum))
    }

    fn compare_set(
        &mut self,
        key: &str,
        expect: Option<&[u8]>,
        new: &[u8],
    ) -> Result<Reply, Refusal> {
        let swap = match (self.value(key)?, expect) {
            (Some(current), expect) if expect != Some(current) => Swap::Differs(current.clone()),
            (None, Some(_)) => Swap::Missing,
            _ => {
                self.put(key, Entry::Value(new.to_vec()))?;
                Swap::Swapped
            }
        };
        Ok(Reply::Swap(swap))
    }

    fn append(&mut self, key: &str, value: &[u8]) -> Result<Reply, Refusal> {
        let present = self.value(key)?.map_or(0, Vec::len);
        check_value(key, present + value.len(), &self.limits)?;
        if let Some(Entry::Value(current)) = self.entries.get_mut(key) {
            let room = self.limits.store - self.held;
            if value.len() > room {
                return Err(Refusal::Full { held: self.held, limit: self.limits.store });
            }
            current.extend_from_slice(value);
            self.held += value.len();
            self.changes += u64::from(!value.is_empty());
        } else {
            self.put(key, Entry::Value(value.to_vec()))?;
        }
        Ok(Reply::Done)
    }

    /// A barrier that somebody waits at stays: who waits could not tell its end from a passage.
    fn delete(&mut self, key: &str) -> Result<Reply, Refusal> {
        match self.entries.get(key) {
            Some(Entry::Barrier(barrier)) if !barrier.arrived.is_empty() => {
                let waiting = barrier.arrived.len();
                Err(Refusal::BarrierInUse { key: key.to_owned(), waiting })
            }
            _ => Ok(Reply::Flag(self.remove(key))),
        }
    }

    fn list(&self, prefix: &str) -> Result<Reply, Refusal> {
        let named = self.entries.keys().filter(|key| key.starts_with(prefix));
        let mut keys: Vec<String> = named.map(|key| key.to_string()).collect();
        self.check_message(keys.iter().map(|key| key.len() + PER_ITEM).sum())?;
        keys.sort_unstable();
        Ok(Reply::Keys(keys))
    }

    fn push(&mut self, key: &str, value: &[u8]) -> Result<Reply, Refusal> {
        self.queue(key)?;
        self.check_room(charge(key, value.len()))?;
        if let Some(Entry::Queue(queue)) = self.entries.get_mut(key) {
            queue.push_back(value.to_vec());
            self.held += PER_ENTRY + value.len();
            self.changes += 1;
        } else {
            self.put(key, Entry::Queue(VecDeque::from([value.to_vec()])))?;
        }
        Ok(Reply::Done)
    }

    /// An empty queue does not exist, so the last element takes its key along.
    fn pop(&mut self, key: &str) -> Result<Option<Vec<u8>>, Refusal> {
        self.queue(key)?;
        let Some(Entry::Queue(queue)) = self.entries.get_mut(key) else { return Ok(None) };
        let first = queue.pop_front();
        if let Some(first) = &first {
            self.held -= PER_ENTRY + first.len();
            self.changes += 1;
        }
        if queue.is_empty() {
            self.remove(key);
        }
        Ok(first)
    }

    fn arrive(&mut self, key: &str, rank: u32, world: u32) -> Result<Reply, Refusal> {
        let refuse = |reason: &str| {
            let reason = reason.to_owned();
            Err(Refusal::BarrierRank { key: key.to_owned(), rank, world, reason })
        };
        if rank >= world {
            return refuse("it is not one of them");
        }
        match self.barrier(key)? {
            None => {
                let barrier = Barrier { world, generation: 0, arrived: BTreeSet::new() };
                self.check_room(charge(key, PER_ENTRY))?;
                self.put(key, Entry::Barrier(barrier))?;
            }
            Some(barrier) if barrier.arrived.is_empty() => {}
            Some(barrier) if barrier.world != world => {
                let expected = barrier.world;
                return Err(Refusal::BarrierWorld { key: key.to_owned(), expected, given: world });
            }
            Some(barrier) if barrier.arrived.contains(&rank) => {
                return refuse("it is there already, waiting for the others");
            }
            Some(_) => {}
        }
        self.check_room(PER_ENTRY)?;
        let Some(Entry::Barrier(barrier)) = self.entries.get_mut(key) else {
            unreachable!("it was found or made above");
        };
        let generation = barrier.generation;
        barrier.world = world;
        barrier.arrived.insert(rank);
        self.held += PER_ENTRY;
        self.changes += 1;
        if barrier.arrived.len() == world as usize {
            self.held -= PER_ENTRY * barrier.arrived.len();
            barrier.generation += 1;
            barrier.arrived.clear();
        }
        Ok(Reply::Generation(generation))
    }

    /// True if the arrival was taken back, false if the barrier was passed with it.
    fn withdraw(&mut self, key: &str, rank: u32, generation: u64) -> Result<Reply, Refusal> {
        self.barrier(key)?;
        let Some(Entry::Barrier(barrier)) = self.entries.get_mut(key) else {
            return Ok(Reply::Flag(true));
        };
        let pending = barrier.generation == generation;
        if pending && barrier.arrived.remove(&rank) {
            self.held -= PER_ENTRY;
            self.changes += 1;
        }
        Ok(Reply::Flag(pending))
    }

    fn value(&self, key: &str) -> Result<Option<&Vec<u8>>, Refusal> {
        match self.entries.get(key) {
            None => Ok(None),
            Some(Entry::Value(value)) => Ok(Some(value)),
            Some(other) => Err(wrong_type(key, EntryType::Value, other)),
        }
    }

    fn queue(&self, key: &str) -> Result<Option<&VecDeque<Vec<u8>>>, Refusal> {
        match self.entries.get(key) {
            None => Ok(None),
            Some(Entry::Queue(queue)) => Ok(Some(queue)),
            Some(other) => Err(wrong_type(key, EntryType::Queue, other)),
        }
    }

    fn barrier(&self, key: &str) -> Result<Option<&Barrier>, Refusal> {
        match self.entries.get(key) {
            None => Ok(None),
            Some(Entry::Barrier(barrier)) => Ok(Some(barrier)),
            Some(other) => Err(wrong_type(key, EntryType::Barrier, other)),
        }
    }

    fn put(&mut self, key: &str, entry: Entry) -> Result<(), Refusal> {
        let freed = self.entries.get(key).map_or(0, |old| charge(key, old.length()));
        let needed = charge(key, entry.length());
        self.check_room(needed.saturating_sub(freed))?;
        match self.entries.get_mut(key) {
            Some(slot) if *slot == entry => return Ok(()),
            Some(slot) => *slot = entry,
            None => {
                self.entries.insert(key.into(), entry);
            }
        }
        self.held = self.held - freed + needed;
        self.changes += 1;
        Ok(())
    }

    fn remove(&mut self, key: &str) -> bool {
        let removed = self.entries.remove(key);
        if let Some(entry) = &removed {
            self.held -= charge(key, entry.length());
            self.changes += 1;
        }
        removed.is_some()
    }

    fn check_room(&self, growth: usize) -> Result<(), Refusal> {
        if growth > 0 && self.held + growth > self.limits.store {
            return Err(Refusal::Full { held: self.held, limit: self.limits.store });
        }
        Ok(())
    }

    fn check_message(&self, length: usize) -> Result<(), Refusal> {
        if length > self.limits.message {
            return Err(Refusal::MessageTooLarge { length, limit: self.limits.message });
        }
        Ok(())
    }
}

impl Entry {
    fn length(&self) -> usize {
        match self {
            Self::Value(value) => value.len(),
            Self::Queue(queue) => queue.iter().map(|value| PER_ENTRY + value.len()).sum(),
            Self::Barrier(barrier) => barrier.arrived.len() * PER_ENTRY,
        }
    }

    fn entry_type(&self) -> EntryType {
        match self {
            Self::Value(_) => EntryType::Value,
            Self::Queue(_) => EntryType::Queue,
            Self::Barrier(_) => EntryType::Barrier,
        }
    }
}

fn wrong_type(key: &str, wanted: EntryType, found: &Entry) -> Refusal {
    Refusal::WrongType { key: key.to_owned(), wanted, found: found.entry_type() }
}

/// Whole decimal numbers only: "12abc" is text, not 12.
fn parse_number(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn charge(key: &str, length: usize) -> usize {
    PER_ENTRY + key.len() + length
}

/// What an entry costs beside its bytes, about; so that millions of empty entries count too.
const PER_ENTRY: usize = 64;
/// What an item of a list in a reply costs beside its bytes, at most: its length.
const PER_ITEM: usize = 8;
