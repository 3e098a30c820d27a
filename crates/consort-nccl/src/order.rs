//! The order in which calls get their places.
//!
//! What waits for something on one stream and keeps others waiting on another has a place on each: calls that hang together,
//! and an event, on the stream where it happens and on those that wait for it. If two of them got their places in turn, each
//! could come first somewhere, and both would wait for ever. So one thread at a time gives out places, and gives all that
//! belongs together. Then everything waits only for what has got its places before.

use std::any::Any;
use std::sync::{Mutex, MutexGuard};

use crate::lock;

/// Leave to give out places. A thread has it for moments, in which it waits for nothing.
pub(crate) struct Order {
    _only: MutexGuard<'static, ()>,
}

impl Order {
    pub(crate) fn take() -> Self {
        Self { _only: lock(&ONLY) }
    }
}

/// Keeps the places of calls as they are until what it gives is dropped: see [`fork`](crate::fork).
pub(crate) fn hold_all() -> Box<dyn Any> {
    Box::new(Order::take())
}

static ONLY: Mutex<()> = Mutex::new(());
