//! The trait that every store implements: one required call, and the verbs made of it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::deadline::{Deadline, clock_now};
use crate::error::{Error, Missing, Result};
use crate::request::{Pair, Reply, Request, Swap};

/// A small shared table of keys and bytes, through which processes meet.
///
/// A store implements [`call`](Store::call) and [`duplicate`](Store::duplicate); the verbs
/// are made of it and mean the same everywhere. Keys are non-empty text, values are bytes, and
/// both are bounded by [`Limits`](crate::Limits). All methods may be called from several threads
/// on one handle, and a call that waits never holds up another.
///
/// The verbs that may have to wait take a [`Deadline`]. The others come back as soon as the
/// store has answered, and give up after its [`patience`](Store::patience).
///
/// ```
/// use consort_store::{Deadline, MemStore, Store};
/// use std::time::Duration;
///
/// let store = MemStore::new();
/// store.set("greeting", b"hello")?;
/// let until = Deadline::after(Duration::from_secs(1));
/// assert_eq!(store.get("greeting", until)?, b"hello");
/// assert_eq!(store.add("arrived", 1)?, 1);
/// # Ok::<(), consort_store::Error>(())
/// ```
pub trait Store: Send + Sync + fmt::Debug {
    /// Carries out one request. If it has to wait it does so until `until`, and then fails with
    /// [`Error::Timeout`], which names what was missing.
    ///
    /// This is what implementors write and what wrappers pass on; callers use the verbs.
    ///
    /// # Errors
    /// See [`Error`].
    fn call(&self, request: &Request<'_>, until: Deadline) -> Result<Reply>;

    /// A second handle on the same data that shares nothing with this one: over TCP, a
    /// connection of its own.
    ///
    /// # Errors
    /// When the store cannot be reached again.
    fn duplicate(&self) -> Result<Arc<dyn Store>>;

    /// How long the verbs without a deadline wait for the store to answer.
    fn patience(&self) -> Duration {
        DEFAULT_PATIENCE
    }

    /// Creates or replaces a value.
    ///
    /// # Errors
    /// When key or value is over the limits, or the store is full or gone.
    fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        self.call(&Request::Set { key, value }, soon(self)).map(done)
    }

    /// Reads a value, waiting for it to appear.
    ///
    /// # Errors
    /// [`Error::Timeout`] when it has not appeared at the deadline; a refusal when the key holds
    /// a queue or a barrier.
    fn get(&self, key: &str, until: Deadline) -> Result<Vec<u8>> {
        match self.call(&Request::Get { key }, until)? {
            Reply::Value(value) => Ok(value),
            other => Err(out_of_place(&other)),
        }
    }

    /// Reads a value, waiting until there is one other than `known`: a watch on a key that is
    /// written again and again.
    ///
    /// # Errors
    /// As [`get`](Store::get).
    fn get_changed(&self, key: &str, known: &[u8], until: Deadline) -> Result<Vec<u8>> {
        match self.call(&Request::GetChanged { key, known }, until)? {
            Reply::Value(value) => Ok(value),
            other => Err(out_of_place(&other)),
        }
    }

    /// Adds to a number, which is kept as decimal text, and returns the sum. A missing key counts
    /// as zero; `add(key, 0)` reads a counter.
    ///
    /// # Errors
    /// When the value is not a whole number, or the sum does not fit in 64 bits.
    fn add(&self, key: &str, delta: i64) -> Result<i64> {
        self.call(&Request::Add { key, delta }, soon(self)).and_then(number)
    }

    /// Replaces the value if it is `expect` (`None`: if the key is missing).
    ///
    /// # Errors
    /// When the key holds a queue or a barrier, or the new value is over the limit.
    fn compare_set(&self, key: &str, expect: Option<&[u8]>, new: &[u8]) -> Result<Swap> {
        match self.call(&Request::CompareSet { key, expect, new }, soon(self))? {
            Reply::Swap(swap) => Ok(swap),
            other => Err(out_of_place(&other)),
        }
    }

    /// Waits until all keys exist at one moment. An empty list is satisfied at once.
    ///
    /// # Errors
    /// [`Error::Timeout`] names the keys that had not come.
    fn wait(&self, keys: &[&str], until: Deadline) -> Result<()> {
        self.call(&Request::Wait { keys: keys.to_vec() }, until).map(done)
    }

    /// Whether all keys exist, without waiting.
    ///
    /// # Errors
    /// When the store is gone.
    fn check(&self, keys: &[&str]) -> Result<bool> {
        match self.wait(keys, Deadline::now()) {
            Ok(()) => Ok(true),
            Err(Error::Timeout { missing, .. }) if missing.count > 0 => Ok(false),
            Err(other) => Err(other),
        }
    }

    /// Removes a key, and says whether it was there.
    ///
    /// # Errors
    /// When the store is gone; a refusal for a barrier that ranks wait at.
    fn delete(&self, key: &str) -> Result<bool> {
        match self.call(&Request::Delete { key }, soon(self))? {
            Reply::Flag(existed) => Ok(existed),
            other => Err(out_of_place(&other)),
        }
    }

    /// How many keys there are.
    ///
    /// # Errors
    /// When the store is gone.
    fn num_keys(&self) -> Result<usize> {
        self.call(&Request::Count { prefix: "" }, soon(self)).and_then(count)
    }

    /// The names of all keys, sorted.
    ///
    /// # Errors
    /// When the store is gone, or the list is over the message limit.
    fn list_keys(&self) -> Result<Vec<String>> {
        match self.call(&Request::List { prefix: "" }, soon(self))? {
            Reply::Keys(keys) => Ok(keys),
            other => Err(out_of_place(&other)),
        }
    }

    /// Adds bytes at the end of a value; a missing key counts as empty.
    ///
    /// # Errors
    /// When the value would be over the limit, or the key holds a queue or a barrier.
    fn append(&self, key: &str, value: &[u8]) -> Result<()> {
        self.call(&Request::Append { key, value }, soon(self)).map(done)
    }

    /// Reads several values as they are at one moment, waiting for all to appear.
    ///
    /// # Errors
    /// As [`get`](Store::get); also when together they are over the message limit.
    fn multi_get(&self, keys: &[&str], until: Deadline) -> Result<Vec<Vec<u8>>> {
        match self.call(&Request::MultiGet { keys: keys.to_vec() }, until)? {
            Reply::Values(values) => {
                Ok(values.into_iter().map(serde_bytes::ByteBuf::into_vec).collect())
            }
            other => Err(out_of_place(&other)),
        }
    }

    /// Creates or replaces several values at one moment: all or, on an error, none.
    ///
    /// # Errors
    /// As [`set`](Store::set).
    fn multi_set(&self, pairs: &[(&str, &[u8])]) -> Result<()> {
        let pairs = pairs.iter().map(|&(key, value)| Pair { key, value }).collect();
        self.call(&Request::MultiSet { pairs }, soon(self)).map(done)
    }

    /// Adds an element at the end of the queue `key`.
    ///
    /// # Errors
    /// When the key holds a value or a barrier.
    fn push(&self, key: &str, value: &[u8]) -> Result<()> {
        self.call(&Request::Push { key, value }, soon(self)).map(done)
    }

    /// Takes the first element of the queue `key`, waiting for one. Each element goes to one
    /// caller; of several that wait any may get it (over TCP, who came first). An element that is
    /// on its way to a caller whose connection fails is lost with it.
    ///
    /// # Errors
    /// [`Error::Timeout`] when none had come; with [`Deadline::now`]: when the queue is empty.
    fn pop(&self, key: &str, until: Deadline) -> Result<Vec<u8>> {
        match self.call(&Request::Pop { key }, until)? {
            Reply::Value(value) => Ok(value),
            other => Err(out_of_place(&other)),
        }
    }

    /// How many elements the queue `key` has; a missing one has none.
    ///
    /// # Errors
    /// When the key holds a value or a barrier.
    fn queue_len(&self, key: &str) -> Result<usize> {
        self.call(&Request::QueueLen { key }, soon(self)).and_then(count)
    }

    /// Waits until all of `world` ranks have come to the barrier `key`. It can be used again and
    /// again: each round starts when the last one is complete.
    ///
    /// # Errors
    /// [`Error::Timeout`] names the ranks that had not come; this rank's arrival is taken back,
    /// so that a later attempt starts clean. A refusal when ranks disagree about `world`, or when
    /// this rank is there already: one that died inside keeps its place, so a new attempt of a
    /// job takes new names.
    fn barrier(&self, key: &str, rank: u32, world: u32, until: Deadline) -> Result<()> {
        let started = clock_now();
        let arrive = Request::Arrive { key, rank, world };
        let generation = match self.call(&arrive, until.min(soon(self)))? {
            Reply::Generation(generation) => generation,
            other => return Err(out_of_place(&other)),
        };
        let error = match self.call(&Request::Pass { key, generation }, until) {
            Ok(_) => return Ok(()),
            Err(error) => error,
        };
        let leave = until.min(soon(self));
        match (self.call(&Request::Withdraw { key, rank, generation }, leave), error) {
            (Ok(Reply::Flag(false)), _) => Ok(()),
            (_, Error::Timeout { missing, .. }) => {
                Err(Error::Timeout { verb: "barrier", waited: started.elapsed(), missing })
            }
            (_, other) => Err(other),
        }
    }
}

/// How long verbs without a deadline wait for the store to answer, unless it was told otherwise.
pub const DEFAULT_PATIENCE: Duration = Duration::from_secs(300);

impl<S: Store + ?Sized> Store for Arc<S> {
    fn call(&self, request: &Request<'_>, until: Deadline) -> Result<Reply> {
        (**self).call(request, until)
    }

    fn duplicate(&self) -> Result<Arc<dyn Store>> {
        (**self).duplicate()
    }

    fn patience(&self) -> Duration {
        (**self).patience()
    }
}

/// The deadline of verbs that take none.
pub(crate) fn soon<S: Store + ?Sized>(store: &S) -> Deadline {
    Deadline::after(store.patience())
}

/// Turns what a store answered into what a caller gets: refusals and misses become errors.
pub(crate) fn settle(
    reply: Reply,
    verb: &'static str,
    waited: impl FnOnce() -> Duration,
) -> Result<Reply> {
    match reply {
        Reply::Refused(refusal) => Err(refusal.into()),
        Reply::Missing(missing) => Err(Error::Timeout { verb, waited: waited(), missing }),
        reply => Ok(reply),
    }
}

/// The error of a store that never answered within the time given.
pub(crate) fn no_answer(verb: &'static str, waited: Duration) -> Error {
    Error::Timeout { verb, waited, missing: Missing::default() }
}

fn done(_: Reply) {}

fn number(reply: Reply) -> Result<i64> {
    match reply {
        Reply::Number(number) => Ok(number),
        other => Err(out_of_place(&other)),
    }
}

fn count(reply: Reply) -> Result<usize> {
    number(reply).map(|count| usize::try_from(count).unwrap_or(0))
}

/// A store that answers one request with the reply to another is broken or hostile.
pub(crate) fn out_of_place(reply: &Reply) -> Error {
    Error::Lost {
        peer: "this handle's server".to_owned(),
        reason: format!("it gave an answer that does not fit the request: {reply:?}"),
    }
}
