//! The process that met the others: no other may speak in its name.

use std::sync::Arc;
use std::time::Duration;

use consort_store::{Deadline, Error as StoreError, Reply, Request, Store};
use consort_sys::origin::{Origin, Own};

use crate::error::{Error, Result};

/// The process whose group it is, and which rank it has among all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Home {
    origin: Origin,
    process: u32,
    rank: u32,
}

impl Home {
    /// This process, which is this rank.
    pub(crate) fn of(rank: u32) -> Self {
        Self { origin: Origin::here(), process: std::process::id(), rank }
    }

    /// Whether this is that process, and no child of it.
    #[inline]
    pub(crate) fn is_here(&self) -> bool {
        self.origin.is_here()
    }

    /// Makes sure of it.
    ///
    /// # Errors
    /// In a forked child.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_here() { Ok(()) } else { Err(self.forked()) }
    }

    /// What a forked child is told.
    #[cold]
    pub(crate) fn forked(&self) -> Error {
        let Self { process, rank, .. } = *self;
        Error::Forked { rank, process }
    }
}

/// A store in the name of one process.
#[derive(Debug)]
pub(crate) struct HomeStore {
    home: Home,
    /// A connection that a child closed in order would be closed for its parent.
    store: Own<Arc<dyn Store>>,
}

impl HomeStore {
    /// A store that this process has opened.
    pub(crate) fn new(home: Home, store: Arc<dyn Store>) -> Self {
        Self { home, store: Own::new(store) }
    }

    fn check(&self) -> Result<(), StoreError> {
        let Home { process, rank, .. } = self.home;
        let forked = || StoreError::Forked { owner: format!("rank {rank}"), process };
        if self.home.is_here() { Ok(()) } else { Err(forked()) }
    }
}

impl Store for HomeStore {
    fn call(&self, request: &Request<'_>, until: Deadline) -> Result<Reply, StoreError> {
        self.check()?;
        self.store.call(request, until)
    }

    fn duplicate(&self) -> Result<Arc<dyn Store>, StoreError> {
        self.check()?;
        Ok(Arc::new(Self::new(self.home, self.store.duplicate()?)))
    }

    fn patience(&self) -> Duration {
        self.store.patience()
    }
}
