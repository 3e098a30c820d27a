//! A part of another store.

use std::sync::Arc;
use std::time::Duration;

use crate::deadline::Deadline;
use crate::error::{Error, Missing, Refusal, Result};
use crate::request::{Pair, Reply, Request};
use crate::store::Store;

/// A store whose keys live under `prefix/` in another one. It sees and counts only its own keys,
/// and errors name keys as its caller knows them. The prefix takes its length from what a key may
/// have.
///
/// Prefixes nest: `PrefixStore::new("x", PrefixStore::new("y", s))` keeps `k` as `y/x/k` in `s`.
///
/// ```
/// use consort_store::{MemStore, PrefixStore, Store};
///
/// let whole = MemStore::new();
/// let part = PrefixStore::new("round-1", whole.clone());
/// part.set("leader", b"0")?;
/// assert_eq!(part.list_keys()?, ["leader"]);
/// assert_eq!(whole.list_keys()?, ["round-1/leader"]);
/// # Ok::<(), consort_store::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct PrefixStore {
    prefix: Arc<str>,
    inner: Arc<dyn Store>,
}

impl PrefixStore {
    /// The part of `inner` under `prefix/`.
    pub fn new(prefix: &str, inner: impl Store + 'static) -> Self {
        Self { prefix: format!("{prefix}/").into(), inner: Arc::new(inner) }
    }

    /// The store that this is a part of.
    pub fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    fn outside(&self, key: &str) -> String {
        if key.is_empty() { String::new() } else { format!("{}{key}", self.prefix) }
    }

    fn inside(&self, key: String) -> String {
        match key.strip_prefix(&*self.prefix) {
            Some(own) => own.to_owned(),
            None => key,
        }
    }

    fn inside_refusal(&self, mut refusal: Refusal, request: &Request<'_>) -> Refusal {
        if let Refusal::KeyTooLong { length, limit, start } = &mut refusal {
            *length = length.saturating_sub(self.prefix.len());
            *limit = limit.saturating_sub(self.prefix.len());
            if let Some(key) = request.keys().find(|key| key.len() == *length) {
                *start = key.chars().take(start.chars().count()).collect();
            }
        }
        if let Refusal::ValueTooLarge { key, .. }
        | Refusal::WrongType { key, .. }
        | Refusal::NotANumber { key, .. }
        | Refusal::Overflow { key, .. }
        | Refusal::BarrierWorld { key, .. }
        | Refusal::BarrierRank { key, .. }
        | Refusal::BarrierInUse { key, .. } = &mut refusal
        {
            *key = self.inside(std::mem::take(key));
        }
        refusal
    }

    fn inside_missing(&self, mut missing: Missing) -> Missing {
        let quoted = format!("{:?}", self.prefix);
        let opening = quoted.strip_suffix('"').unwrap_or(&quoted);
        for name in &mut missing.names {
            *name = name.replacen(opening, "\"", 1);
        }
        missing
    }
}

impl Store for PrefixStore {
    fn call(&self, request: &Request<'_>, until: Deadline) -> Result<Reply> {
        let keys: Vec<String> = match request {
            Request::Count { prefix } | Request::List { prefix } => {
                vec![format!("{}{prefix}", self.prefix)]
            }
            other => other.keys().map(|key| self.outside(key)).collect(),
        };
        match self.inner.call(&with_keys(request, &keys), until) {
            Ok(Reply::Keys(keys)) => {
                Ok(Reply::Keys(keys.into_iter().map(|key| self.inside(key)).collect()))
            }
            Err(Error::Refused(refusal)) => Err(self.inside_refusal(refusal, request).into()),
            Err(Error::Timeout { verb, waited, missing }) => {
                Err(Error::Timeout { verb, waited, missing: self.inside_missing(missing) })
            }
            other => other,
        }
    }

    fn duplicate(&self) -> Result<Arc<dyn Store>> {
        let inner = self.inner.duplicate()?;
        Ok(Arc::new(Self { prefix: self.prefix.clone(), inner }))
    }

    fn patience(&self) -> Duration {
        self.inner.patience()
    }
}

/// The same request under other names. `keys` has as many as the request names.
fn with_keys<'a>(request: &Request<'a>, keys: &'a [String]) -> Request<'a> {
    let mut request = request.clone();
    match &mut request {
        Request::MultiGet { keys: old } | Request::Wait { keys: old } => {
            *old = keys.iter().map(String::as_str).collect();
        }
        Request::MultiSet { pairs } => {
            for (pair, key) in pairs.iter_mut().zip(keys) {
                *pair = Pair { key, value: pair.value };
            }
        }
        Request::Count { prefix: key }
        | Request::List { prefix: key }
        | Request::Set { key, .. }
        | Request::Get { key }
        | Request::GetChanged { key, .. }
        | Request::Add { key, .. }
        | Request::CompareSet { key, .. }
        | Request::Append { key, .. }
        | Request::Delete { key }
        | Request::Push { key, .. }
        | Request::Pop { key }
        | Request::QueueLen { key }
        | Request::Arrive { key, .. }
        | Request::Pass { key, .. }
        | Request::Withdraw { key, .. } => *key = &keys[0],
    }
    request
}
