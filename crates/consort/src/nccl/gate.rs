//! Who may use a communicator when.
//!
//! NCCL asks of its callers that one thread at a time issues calls of a communicator, that those of a group come
//! from one thread, and that a communicator does not end while it is used or in an open group. A [`Gate`] sees to
//! that: whoever issues calls holds a [`Pass`] meanwhile, in a group until that has ended; several of one thread
//! go together. Watchers, who only ask how it is or stop it, pass at any time. Who closes the gate lets nobody in
//! any more, and has the communicator when the last pass was given back.

use std::ops::Deref;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use super::table::Handle;

/// Who may use a communicator when.
#[derive(Debug)]
pub(super) struct Gate {
    /// Whose communicator it is: a child that was forked from it has none of NCCL's threads.
    process: u32,
    state: Mutex<State>,
    changed: Condvar,
}

/// What has become of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Alive,
    /// It does no more than it was given.
    Finalized,
    /// What it did was stopped.
    Revoked,
    Aborted,
    Destroyed,
    /// It is that of the process that this one was forked from.
    Forked,
}

impl Fate {
    /// In words.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Alive => "in use",
            Self::Finalized => "finalized",
            Self::Revoked => "revoked",
            Self::Aborted => "aborted",
            Self::Destroyed => "destroyed",
            Self::Forked => "made in the process that this one was forked from",
        }
    }
}

#[derive(Debug)]
struct State {
    /// None once the gate was closed.
    handle: Option<Arc<Handle>>,
    fate: Fate,
    /// Whose thread issues calls.
    holder: Option<ThreadId>,
    /// How many passes it holds.
    passes: usize,
    watchers: usize,
}

impl Gate {
    pub(super) fn new(handle: Handle) -> Arc<Self> {
        let handle = Some(Arc::new(handle));
        let state = State { handle, fate: Fate::Alive, holder: None, passes: 0, watchers: 0 };
        let process = std::process::id();
        Arc::new(Self { process, state: Mutex::new(state), changed: Condvar::new() })
    }

    /// Lets this thread issue calls, when no other does.
    ///
    /// # Errors
    /// What has become of a communicator that has ended.
    pub(super) fn enter(self: &Arc<Self>) -> Result<Pass, Fate> {
        self.must_be_home()?;
        let me = thread::current().id();
        let mut state = self.lock();
        while state.handle.is_some() && state.holder.is_some_and(|holder| holder != me) {
            state = self.wait(state);
        }
        let handle = state.handle.clone().ok_or(state.fate)?;
        state.holder = Some(me);
        state.passes += 1;
        Ok(Pass { gate: self.clone(), handle: Some(handle), is_watcher: false })
    }

    /// Lets this thread look, at any time.
    ///
    /// # Errors
    /// As [`enter`](Self::enter).
    pub(super) fn watch(self: &Arc<Self>) -> Result<Pass, Fate> {
        self.must_be_home()?;
        let mut state = self.lock();
        let handle = state.handle.clone().ok_or(state.fate)?;
        state.watchers += 1;
        Ok(Pass { gate: self.clone(), handle: Some(handle), is_watcher: true })
    }

    /// Lets nobody in any more, and has the communicator when all others are out. None if it was closed before, or is
    /// another process's. A thread that holds a pass itself would wait for ever.
    pub(super) fn close(&self, fate: Fate) -> Option<Handle> {
        self.must_be_home().ok()?;
        let mut state = self.lock();
        let handle = state.handle.take()?;
        state.fate = fate;
        self.changed.notify_all();
        while state.passes > 0 || state.watchers > 0 {
            state = self.wait(state);
        }
        Some(Arc::into_inner(handle).expect("passes hold the only others, and give them up first"))
    }

    /// What has become of it.
    pub(super) fn fate(&self) -> Fate {
        // In a forked child the lock may be held by a thread that it does not have.
        self.must_be_home().err().unwrap_or_else(|| self.lock().fate)
    }

    /// Takes notice of what has become of it.
    pub(super) fn mark(&self, fate: Fate) {
        let mut state = self.lock();
        if state.handle.is_some() {
            state.fate = fate;
        }
    }

    /// Whether it was closed.
    pub(super) fn is_closed(&self) -> bool {
        self.lock().handle.is_none()
    }

    /// Whether some thread of this process issues calls.
    pub(super) fn is_held(&self) -> bool {
        self.must_be_home().is_ok() && self.lock().holder.is_some()
    }

    fn must_be_home(&self) -> Result<(), Fate> {
        if self.process == std::process::id() { Ok(()) } else { Err(Fate::Forked) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }
}

/// Leave to use a communicator. It is alive meanwhile.
#[derive(Debug)]
pub(super) struct Pass {
    gate: Arc<Gate>,
    /// None only while it is given back.
    handle: Option<Arc<Handle>>,
    is_watcher: bool,
}

impl Deref for Pass {
    type Target = Handle;

    fn deref(&self) -> &Handle {
        self.handle.as_ref().expect("it is there until the pass is given back")
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.handle = None;
        let mut state = self.gate.lock();
        if self.is_watcher {
            state.watchers -= 1;
        } else {
            state.passes -= 1;
            if state.passes == 0 {
                state.holder = None;
            }
        }
        drop(state);
        self.gate.changed.notify_all();
    }
}
