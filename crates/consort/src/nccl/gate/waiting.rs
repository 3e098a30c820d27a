//! Who waits for which gate, so that no circle of threads waits for itself.
//!
//! A circle is closed by the last of its threads to begin to wait: that one finds all others here, for who waits
//! stays in the list until it holds the gate, and who holds a gate and waits lets go of nothing.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use super::Gate;

/// A thread's entry in the list, for as long as this lives.
#[derive(Debug)]
pub(super) struct Waiting(ThreadId);

impl Waiting {
    /// Has this thread wait for a gate, unless it would wait for itself.
    pub(super) fn begin(me: ThreadId, at: &Arc<Gate>) -> Option<Self> {
        let mut all = list();
        let mut holder = at.holder();
        // One that is about to hold a gate is in the list for a moment more, and leads to itself.
        for _ in 0..=all.len() {
            let Some(other) = holder else { break };
            if other == me {
                return None;
            }
            let next = all.iter().find(|(waits, _)| *waits == other);
            holder = next.and_then(|(_, gate)| gate.holder());
        }
        all.push((me, at.clone()));
        Some(Self(me))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        list().retain(|(waits, _)| *waits != self.0);
    }
}

fn list() -> MutexGuard<'static, Vec<(ThreadId, Arc<Gate>)>> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

static WAITING: Mutex<Vec<(ThreadId, Arc<Gate>)>> = Mutex::new(Vec::new());
