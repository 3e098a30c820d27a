//! How a call waits for other ranks: on the spot, or by letting its thread do something else.
//!
//! Whatever a call does, its only reason to wait is another rank. On the caller's own thread that
//! wait happens on the spot. On the progress thread the call is a future, which returns when it has
//! to wait and is polled again.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use consort_store::Deadline;
use consort_sys::board::Watch;

use super::queue::Queue;

/// How a call waits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace<'p> {
    /// On the spot, asleep for so long at most, and not longer than those have time who wait in line.
    Here(Duration, Option<&'p Queue>),
    /// By returning to whoever polls it.
    Elsewhere(&'p Notes),
}

/// What a call and whoever polls it tell each other.
#[derive(Debug)]
pub(crate) struct Notes {
    until: Cell<Deadline>,
    look_round: Cell<bool>,
    /// What would end the wait.
    watch: RefCell<Option<Watch>>,
    moved: Cell<bool>,
}

impl Notes {
    pub(crate) fn new(until: Deadline) -> Self {
        let (look_round, watch, moved) = Default::default();
        Self { until: Cell::new(until), look_round, watch, moved }
    }

    /// Asks the call to look if waiting still makes sense, when it is polled next, and to say what
    /// it waits for. It makes sense until then.
    pub(crate) fn look_round(&self, until: Deadline) {
        self.until.set(until);
        self.look_round.set(true);
    }

    /// What the call said it waits for.
    pub(crate) fn take_watch(&self) -> Option<Watch> {
        self.watch.take()
    }

    /// Whether the call came further since this was asked last.
    pub(crate) fn take_moved(&self) -> bool {
        self.moved.take()
    }

    pub(super) fn is_to_look_round(&self) -> bool {
        self.look_round.take()
    }

    pub(super) fn is_late(&self) -> bool {
        self.until.get().has_passed()
    }

    pub(super) fn sleep_on(&self, watch: Watch) {
        self.watch.replace(Some(watch));
    }

    pub(super) fn has_moved(&self) {
        self.moved.set(true);
    }
}

/// The result of a call that waits on the spot.
#[inline]
pub(crate) fn at_once<T>(call: impl Future<Output = T>) -> T {
    match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => unreachable!("it waits on the spot"),
    }
}

/// Returns to whoever polls the call, once.
pub(super) async fn wait_once() {
    let mut returned = false;
    std::future::poll_fn(|_| match std::mem::replace(&mut returned, true) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
    .await;
}
