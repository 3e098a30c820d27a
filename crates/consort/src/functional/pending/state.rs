//! What the clones of a pending value share.
//!
//! ```text
//!  promised ── whoever waits or polls holds the lock on the origin ──▶ known, for ever
//! ```
//!
//! - **The value** is set once, and read without a lock.
//! - **The origin** is taken by whoever makes the value of it. Others who wait block on its lock; others who
//!   poll leave their wakers *before* they try it. So whoever holds the lock lets go of it, looks whether
//!   there is something to be heard of that the holder may have missed, and wakes all: nobody whose attempt
//!   failed is forgotten.
//! - **Prospects** say whether the calls that the value depends on are done, and why it is no use waiting
//!   here. They are asked before any lock: a hook may run on the very thread that waits, and in a forked child
//!   nobody is there to let go of a lock.
//! - **Panics** of what makes the value go on in whoever made it; for everyone else the value is an error.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::task::{Context, Poll, Waker};
use std::thread::{self, ThreadId};

use super::origin::Origin;
use super::wakers::Wakers;
use crate::engine::waits_for_itself;
use crate::error::Error;
use crate::work::Prospect;

pub(super) struct State<T, E> {
    value: OnceLock<Result<T, E>>,
    /// `None` when the value has been made of it.
    origin: Mutex<Option<Box<dyn Origin<T, E>>>>,
    /// Of the calls that it depends on.
    prospects: Arc<[Prospect]>,
    /// Whose thread makes the value.
    maker: Mutex<Option<ThreadId>>,
    wakers: Arc<Wakers>,
}

impl<T, E> State<T, E> {
    pub(super) fn known(value: T) -> Self {
        Self::new(OnceLock::from(Ok(value)), None, [].into())
    }

    pub(super) fn promised(origin: Box<dyn Origin<T, E>>, prospects: Arc<[Prospect]>) -> Self {
        Self::new(OnceLock::new(), Some(origin), prospects)
    }

    fn new(
        value: OnceLock<Result<T, E>>,
        origin: Option<Box<dyn Origin<T, E>>>,
        prospects: Arc<[Prospect]>,
    ) -> Self {
        let origin = Mutex::new(origin);
        Self { value, origin, prospects, maker: Mutex::default(), wakers: Arc::default() }
    }

    pub(super) fn value(&self) -> Option<&Result<T, E>> {
        self.value.get()
    }

    pub(super) fn into_value(self) -> Option<Result<T, E>> {
        self.value.into_inner()
    }

    pub(super) fn prospects(&self) -> &Arc<[Prospect]> {
        &self.prospects
    }

    /// Whether all that the value is made of is there. Once it is, it stays so.
    pub(super) fn is_done(&self) -> bool {
        self.value.get().is_some() || self.prospects.iter().all(Prospect::is_known)
    }

    /// Why it is no use waiting here.
    fn obstacle(&self) -> Option<Error> {
        let of_calls = || self.prospects.iter().find_map(Prospect::obstacle);
        let is_made_here = || *lock(&self.maker) == Some(thread::current().id());
        if self.is_done() {
            return is_made_here().then(|| waits_for_itself("value"));
        }
        of_calls().or_else(|| is_made_here().then(|| waits_for_itself("value")))
    }

    /// That this process was forked from the one whose calls they are, if it was, and they are not done.
    fn forked(&self) -> Option<Error> {
        let is_fork = |obstacle: &Error| matches!(obstacle, Error::Forked { .. });
        let unknown = self.prospects.iter().filter(|prospect| !prospect.is_known());
        unknown.filter_map(Prospect::obstacle).find(is_fork)
    }

    /// Makes the value, on this thread.
    fn make<R>(&self, make: impl FnOnce() -> R) -> thread::Result<R> {
        *lock(&self.maker) = Some(thread::current().id());
        let made = catch_unwind(AssertUnwindSafe(make));
        *lock(&self.maker) = None;
        made
    }
}

impl<T, E: From<Error>> State<T, E> {
    /// Waits until the value is there.
    ///
    /// # Errors
    /// When it is no use waiting here.
    pub(super) fn wait(&self) -> Result<&Result<T, E>, E> {
        if let Some(value) = self.value.get() {
            return Ok(value);
        }
        if let Some(obstacle) = self.obstacle() {
            return Err(obstacle.into());
        }
        let mut origin = lock(&self.origin);
        if let Some(value) = self.value.get() {
            return Ok(value);
        }
        let promised = origin.take();
        let value = self.make(|| match promised {
            Some(promised) => promised.wait(),
            None => Err(abandoned()),
        });
        Ok(self.settle(value, origin))
    }

    pub(super) fn poll(&self, context: &Context<'_>) -> Poll<&Result<T, E>> {
        if let Some(value) = self.value.get() {
            return Poll::Ready(value);
        }
        if let Some(forked) = self.forked() {
            // Nobody would wake this process.
            return Poll::Ready(self.value.get_or_init(|| Err(forked.into())));
        }
        self.wakers.add(context.waker());
        let mut origin = match self.origin.try_lock() {
            Ok(origin) => origin,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Poll::Pending,
        };
        if let Some(value) = self.value.get() {
            return Poll::Ready(value);
        }
        let waker = Waker::from(self.wakers.clone());
        let value = match self.make(|| match origin.as_mut() {
            Some(promised) => promised.poll(&mut Context::from_waker(&waker)),
            None => Poll::Ready(Err(abandoned())),
        }) {
            Ok(Poll::Pending) => {
                drop(origin);
                // It may have come meanwhile, and its waker may have woken only those who were there then.
                if self.is_done() {
                    self.wakers.wake_all();
                }
                return Poll::Pending;
            }
            Ok(Poll::Ready(value)) => Ok(value),
            Err(panic) => Err(panic),
        };
        *origin = None;
        Poll::Ready(self.settle(value, origin))
    }

    /// The value is there; or what was to make it has panicked, and goes on doing so here.
    fn settle<O>(
        &self,
        value: thread::Result<Result<T, E>>,
        origin: MutexGuard<'_, O>,
    ) -> &Result<T, E> {
        let (value, panic) = match value {
            Ok(value) => (value, None),
            Err(panic) => (Err(abandoned()), Some(panic)),
        };
        let value = self.value.get_or_init(|| value);
        drop(origin);
        self.wakers.wake_all();
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
        value
    }
}

fn abandoned<E: From<Error>>() -> E {
    Error::Abandoned { operation: "value" }.into()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
