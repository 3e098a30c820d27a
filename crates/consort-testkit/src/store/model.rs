//! What a store should answer, said in the plainest way.
//!
//! Written from the words of [`Request`] and [`Store`](consort_store::Store), not from the code
//! of any store, so that a mistake is not made twice.

use std::collections::BTreeMap;

use consort_store::{EntryType, Missing, Refusal, Reply, Request, Swap};

/// A store in the plainest form: it never waits, has no limits, and refuses without a reason.
#[derive(Clone, Debug, Default)]
pub struct Model {
    things: BTreeMap<String, Thing>,
}

#[derive(Clone, Debug)]
enum Thing {
    Value(Vec<u8>),
    Queue(Vec<Vec<u8>>),
    Barrier(Barrier),
}

#[derive(Clone, Debug, Default)]
struct Barrier {
    world: u32,
    rounds: u64,
    present: Vec<u32>,
}

impl Model {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many rounds of a barrier are complete.
    pub fn generation(&self, key: &str) -> u64 {
        match self.things.get(key) {
            Some(Thing::Barrier(barrier)) => barrier.rounds,
            _ => 0,
        }
    }

    /// What a store answers to a request that may not wait.
    ///
    /// # Panics
    /// For a request that it does not know.
    pub fn answer(&mut self, request: &Request<'_>) -> Reply {
        if request.keys().any(str::is_empty) {
            return Reply::Refused(Refusal::EmptyKey);
        }
        self.obey(request).unwrap_or_else(Reply::Refused)
    }

    fn obey(&mut self, request: &Request<'_>) -> Result<Reply, Refusal> {
        Ok(match request {
            Request::Set { key, value } => {
                self.value(key)?;
                self.put(key, value)
            }
            Request::Get { key } => match self.value(key)? {
                Some(value) => Reply::Value(value),
                None => Reply::Missing(quoted(&[key])),
            },
            Request::GetChanged { key, known } => match self.value(key)? {
                Some(value) if value != *known => Reply::Value(value),
                _ => Reply::Missing(Missing::collect([format!("a change of {key:?}")].iter())),
            },
            Request::MultiGet { keys } => self.multi_get(keys)?,
            Request::MultiSet { pairs } => {
                for pair in pairs {
                    self.value(pair.key)?;
                }
                for pair in pairs {
                    self.put(pair.key, pair.value);
                }
                Reply::Done
            }
            Request::Add { key, delta } => self.add(key, *delta)?,
            Request::CompareSet { key, expect, new } => match (self.value(key)?, expect) {
                (None, None) => {
                    self.put(key, new);
                    Reply::Swap(Swap::Swapped)
                }
                (None, Some(_)) => Reply::Swap(Swap::Missing),
                (Some(now), Some(expect)) if now == *expect => {
                    self.put(key, new);
                    Reply::Swap(Swap::Swapped)
                }
                (Some(now), _) => Reply::Swap(Swap::Differs(now)),
            },
            Request::Append { key, value } => {
                let whole = [self.value(key)?.unwrap_or_default(), value.to_vec()].concat();
                self.put(key, &whole)
            }
            Request::Wait { keys } => match self.absent(keys) {
                absent if absent.is_empty() => Reply::Done,
                absent => Reply::Missing(quoted(&absent)),
            },
            Request::Delete { key } => match self.things.get(*key) {
                Some(Thing::Barrier(barrier)) if !barrier.present.is_empty() => {
                    let waiting = barrier.present.len();
                    return Err(Refusal::BarrierInUse { key: (*key).to_owned(), waiting });
                }
                _ => Reply::Flag(self.things.remove(*key).is_some()),
            },
            Request::Count { prefix } => Reply::Number(self.named(prefix).len() as i64),
            Request::List { prefix } => Reply::Keys(self.named(prefix)),
            Request::Push { key, value } => {
                let mut queue = self.queue(key)?;
                queue.push(value.to_vec());
                self.things.insert((*key).to_owned(), Thing::Queue(queue));
                Reply::Done
            }
            Request::Pop { key } => self.pop(key)?,
            Request::QueueLen { key } => Reply::Number(self.queue(key)?.len() as i64),
            Request::Arrive { key, rank, world } => self.arrive(key, *rank, *world)?,
            Request::Pass { key, generation } => match self.barrier(key)? {
                Some(barrier) if barrier.rounds <= *generation => {
                    let absent = (0..barrier.world).filter(|rank| !barrier.present.contains(rank));
                    Reply::Missing(Missing::collect(absent.map(|rank| format!("rank {rank}"))))
                }
                _ => Reply::Done,
            },
            Request::Withdraw { key, rank, generation } => match self.barrier(key)? {
                Some(barrier) if barrier.rounds > *generation => Reply::Flag(false),
                Some(mut barrier) => {
                    barrier.present.retain(|other| other != rank);
                    self.things.insert((*key).to_owned(), Thing::Barrier(barrier));
                    Reply::Flag(true)
                }
                None => Reply::Flag(true),
            },
            other => panic!("the model does not know {other:?}"),
        })
    }

    fn multi_get(&self, keys: &[&str]) -> Result<Reply, Refusal> {
        let mut values = Vec::new();
        for key in keys {
            match self.value(key)? {
                Some(value) => values.push(value.into()),
                None => return Ok(Reply::Missing(quoted(&self.absent(keys)))),
            }
        }
        Ok(Reply::Values(values))
    }

    fn add(&mut self, key: &str, delta: i64) -> Result<Reply, Refusal> {
        let text = self.value(key)?.unwrap_or_else(|| b"0".to_vec());
        let text = String::from_utf8_lossy(&text).into_owned();
        let key = key.to_owned();
        let Ok(value) = text.parse::<i64>() else {
            return Err(Refusal::NotANumber { key, value: String::new() });
        };
        match i64::try_from(i128::from(value) + i128::from(delta)) {
            Ok(sum) => {
                self.put(&key, sum.to_string().as_bytes());
                Ok(Reply::Number(sum))
            }
            Err(_) => Err(Refusal::Overflow { key, value, delta }),
        }
    }

    fn pop(&mut self, key: &str) -> Result<Reply, Refusal> {
        let mut queue = self.queue(key)?;
        if queue.is_empty() {
            return Ok(Reply::Missing(quoted(&[key])));
        }
        let first = queue.remove(0);
        if queue.is_empty() {
            self.things.remove(key);
        } else {
            self.things.insert(key.to_owned(), Thing::Queue(queue));
        }
        Ok(Reply::Value(first))
    }

    fn arrive(&mut self, key: &str, rank: u32, world: u32) -> Result<Reply, Refusal> {
        let misplaced =
            Refusal::BarrierRank { key: key.to_owned(), rank, world, reason: String::new() };
        if rank >= world {
            return Err(misplaced);
        }
        let mut barrier = self.barrier(key)?.unwrap_or_default();
        if !barrier.present.is_empty() && barrier.world != world {
            let (key, expected) = (key.to_owned(), barrier.world);
            return Err(Refusal::BarrierWorld { key, expected, given: world });
        }
        if barrier.present.contains(&rank) {
            return Err(misplaced);
        }
        let generation = barrier.rounds;
        barrier.world = world;
        barrier.present.push(rank);
        if barrier.present.len() == world as usize {
            barrier.rounds += 1;
            barrier.present.clear();
        }
        self.things.insert(key.to_owned(), Thing::Barrier(barrier));
        Ok(Reply::Generation(generation))
    }

    fn put(&mut self, key: &str, value: &[u8]) -> Reply {
        self.things.insert(key.to_owned(), Thing::Value(value.to_vec()));
        Reply::Done
    }

    fn value(&self, key: &str) -> Result<Option<Vec<u8>>, Refusal> {
        match self.things.get(key) {
            None => Ok(None),
            Some(Thing::Value(value)) => Ok(Some(value.clone())),
            Some(other) => Err(wrong_type(key, EntryType::Value, other)),
        }
    }

    fn queue(&self, key: &str) -> Result<Vec<Vec<u8>>, Refusal> {
        match self.things.get(key) {
            None => Ok(Vec::new()),
            Some(Thing::Queue(queue)) => Ok(queue.clone()),
            Some(other) => Err(wrong_type(key, EntryType::Queue, other)),
        }
    }

    fn barrier(&self, key: &str) -> Result<Option<Barrier>, Refusal> {
        match self.things.get(key) {
            None => Ok(None),
            Some(Thing::Barrier(barrier)) => Ok(Some(barrier.clone())),
            Some(other) => Err(wrong_type(key, EntryType::Barrier, other)),
        }
    }

    fn absent<'k>(&self, keys: &[&'k str]) -> Vec<&'k str> {
        keys.iter().copied().filter(|key| !self.things.contains_key(*key)).collect()
    }

    fn named(&self, prefix: &str) -> Vec<String> {
        self.things.keys().filter(|key| key.starts_with(prefix)).cloned().collect()
    }
}

fn quoted(keys: &[&str]) -> Missing {
    Missing::collect(keys.iter().map(|key| format!("{key:?}")))
}

fn wrong_type(key: &str, wanted: EntryType, found: &Thing) -> Refusal {
    let found = match found {
        Thing::Value(_) => EntryType::Value,
        Thing::Queue(_) => EntryType::Queue,
        Thing::Barrier(_) => EntryType::Barrier,
    };
    Refusal::WrongType { key: key.to_owned(), wanted, found }
}
