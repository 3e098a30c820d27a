//! A store inside one process.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::deadline::{Deadline, clock_now};
use crate::error::Result;
use crate::request::{Limits, Reply, Request};
use crate::store::{Store, settle};
use crate::table::{Outcome, Table};

/// A store for the threads of one process. Clones share the same data.
///
/// ```
/// use consort_store::{Deadline, MemStore, Store};
///
/// let store = MemStore::new();
/// let other = store.clone();
/// let reader = std::thread::spawn(move || other.get("answer", Deadline::never()));
/// store.set("answer", b"42")?;
/// assert_eq!(reader.join().unwrap()?, b"42");
/// # Ok::<(), consort_store::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct MemStore {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    table: Mutex<Table>,
    written: Condvar,
}

impl MemStore {
    /// An empty store.
    pub fn new() -> Self {
        let table = Mutex::new(Table::new(Limits::STANDARD));
        Self { shared: Arc::new(Shared { table, written: Condvar::new() }) }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.shared.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemStore {
    fn default() -> Self {
        Self::new()
    }
}

impl Store for MemStore {
    fn call(&self, request: &Request<'_>, until: Deadline) -> Result<Reply> {
        let started = clock_now();
        let mut table = self.table();
        let reply = loop {
            match table.apply(request) {
                Outcome::Settled(reply) => break reply,
                Outcome::Blocked(_) if until.has_passed() => {
                    break Reply::Missing(table.missing(request));
                }
                Outcome::Blocked(_) => table = self.sleep(table, until),
            }
        };
        drop(table);
        if request.can_wake() {
            self.shared.written.notify_all();
        }
        settle(reply, request.verb(), || started.elapsed())
    }

    fn duplicate(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(self.clone()))
    }
}

impl MemStore {
    fn sleep<'a>(&self, table: MutexGuard<'a, Table>, until: Deadline) -> MutexGuard<'a, Table> {
        let written = &self.shared.written;
        match until.remaining() {
            None => written.wait(table).unwrap_or_else(PoisonError::into_inner),
            Some(left) => {
                written.wait_timeout(table, left).unwrap_or_else(PoisonError::into_inner).0
            }
        }
    }
}
