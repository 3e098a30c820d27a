//! Who may use a communicator when.
//!
//! NCCL asks of its callers that one thread at a time issues calls of a communicator, that those of a group come
//! from one thread, and that a communicator does not end while it is used or in an open group. A [`Gate`] sees to
//! that: whoever issues calls holds a [`Pass`] meanwhile, in a group until that has ended; several of one thread
//! go together. Watchers, who only ask how it is or stop it, pass at any time. Who closes the gate lets nobody in
//! any more, and has the communicator when the last pass was given back.
//!
//! **Stuck.** A call may wait inside NCCL for ranks that do not come, and then `ncclCommAbort` is all that frees it,
//! for which NCCL lets another thread call it meanwhile. So whoever makes a call that may be the last one with its
//! pass, one that stands by itself or the end of a group, [steps in](Gate::step_in) before and [out](Gate::step_out)
//! after it. An abort of a communicator that blocks, and that finds somebody inside, waits for a moment, and then cuts
//! it off: it ends the communicator, and who steps out is told, and does not touch it again. Nobody is cut off who is
//! not inside: what a group that is open has of it NCCL still uses. From one that does not block all come out by
//! themselves, and are waited for.
//!
//! **No deadlock.** A thread in a group waits for a gate while it holds others. It is refused if whom it would wait for
//! waits for it ([`waiting`]), and otherwise waits no longer than the communicator allows.

mod last;
mod pass;
mod waiting;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use super::table::Handle;
pub(super) use last::Last;
pub(super) use pass::Pass;
use waiting::Waiting;

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

/// Why a thread is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Barred {
    /// It has ended.
    Ended(Fate),
    /// Another thread has it, and had it for so long.
    Busy(Duration),
    /// Another thread has it, and waits for what this one has.
    Crossed,
}

/// What closing a gate came to.
#[derive(Debug)]
pub(super) enum Closed<'a> {
    /// It was closed before, or is another process's.
    Before,
    /// The communicator can be ended.
    Last(Last<'a>),
    /// Somebody has not given back a pass for so long: the communicator is never ended.
    Held(Duration),
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
    /// Since when it is in a call that may be aborted under it.
    inside: Option<Instant>,
    /// Whether it was.
    is_cut: bool,
    watchers: usize,
    /// How many threads wait for something of this to change. Waking is a call of the system even if there are none.
    waiting: usize,
    /// Once it is over: whether NCCL has certainly let go of all that it was given.
    is_gone: Option<bool>,
}

impl State {
    fn is_used(&self) -> bool {
        self.passes > 0 || self.watchers > 0
    }
}

impl Gate {
    pub(super) fn new(handle: Handle) -> Arc<Self> {
        let state = State {
            handle: Some(Arc::new(handle)),
            fate: Fate::Alive,
            holder: None,
            passes: 0,
            inside: None,
            is_cut: false,
            watchers: 0,
            waiting: 0,
            is_gone: None,
        };
        let process = std::process::id();
        Arc::new(Self { process, state: Mutex::new(state), changed: Condvar::new() })
    }

    /// Lets this thread issue calls, when no other does.
    ///
    /// # Errors
    /// When the communicator has ended, another thread has it for longer than `limit`, or waits for this one.
    pub(super) fn enter(self: &Arc<Self>, limit: Duration) -> Result<Pass, Barred> {
        self.must_be_home().map_err(Barred::Ended)?;
        let (me, began) = (thread::current().id(), Instant::now());
        let mut waiting = None;
        let mut state = self.lock();
        while state.handle.is_some() && state.holder.is_some_and(|holder| holder != me) {
            if waiting.is_none() {
                // It looks at several gates, one after the other.
                drop(state);
                waiting = Some(Waiting::begin(me, self).ok_or(Barred::Crossed)?);
                state = self.lock();
                continue;
            }
            let waited = began.elapsed();
            if waited >= limit {
                return Err(Barred::Busy(waited));
            }
            state = self.wait(state, limit - waited);
        }
        let handle = state.handle.clone().ok_or(Barred::Ended(state.fate))?;
        state.holder = Some(me);
        state.passes += 1;
        Ok(Pass::new(self, handle, false))
    }

    /// Lets this thread look, at any time.
    ///
    /// # Errors
    /// When the communicator has ended.
    pub(super) fn watch(self: &Arc<Self>) -> Result<Pass, Fate> {
        self.must_be_home()?;
        let mut state = self.lock();
        let handle = state.handle.clone().ok_or(state.fate)?;
        state.watchers += 1;
        Ok(Pass::new(self, handle, true))
    }

    /// The holder makes a call from here on that may be the last one with its passes.
    ///
    /// # Errors
    /// When the gate was closed, which the end of a group does not mind.
    pub(super) fn step_in(&self) -> Result<(), Fate> {
        let mut state = self.lock();
        state.inside = Some(Instant::now());
        // Who closes it may wait for this.
        self.tell(&state);
        if state.handle.is_some() { Ok(()) } else { Err(state.fate) }
    }

    /// The call is over.
    ///
    /// # Errors
    /// When the communicator was ended meanwhile: the holder only gives back its passes.
    pub(super) fn step_out(&self) -> Result<(), Fate> {
        let mut state = self.lock();
        state.inside = None;
        if state.is_cut { Err(state.fate) } else { Ok(()) }
    }

    /// Lets nobody in any more, and has the communicator when all others are out. An abort does not wait for who is
    /// inside a call, other than a moment of `grace`. A thread that holds a pass itself waits in vain.
    pub(super) fn close(&self, fate: Fate, limit: Duration, grace: Duration) -> Closed<'_> {
        if self.must_be_home().is_err() {
            return Closed::Before;
        }
        let began = Instant::now();
        let mut state = self.lock();
        let Some(handle) = state.handle.take() else { return Closed::Before };
        state.fate = fate;
        self.tell(&state);
        while state.is_used() {
            let since = state.inside.filter(|_| fate == Fate::Aborted && state.watchers == 0);
            // Between stepping in and being in NCCL a thread may be made to wait by the system, but not for long.
            if since.is_some_and(|since| since.max(began).elapsed() >= grace) {
                state.is_cut = true;
                break;
            }
            let waited = began.elapsed();
            if waited >= limit {
                state.is_gone = Some(false);
                self.tell(&state);
                return Closed::Held(waited);
            }
            let pause = if since.is_some() { grace } else { limit };
            state = self.wait(state, pause.min(limit - waited));
        }
        Closed::Last(Last::new(self, handle))
    }

    /// Waits until the communicator, whose gate was closed, is over. Says whether NCCL has let go of all that it was
    /// given.
    pub(super) fn await_end(&self, limit: Duration) -> bool {
        if self.must_be_home().is_err() {
            return false;
        }
        let began = Instant::now();
        let mut state = self.lock();
        while state.is_gone.is_none() && began.elapsed() < limit {
            state = self.wait(state, limit - began.elapsed().min(limit));
        }
        state.is_gone == Some(true)
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
        self.must_be_home().is_ok() && self.holder().is_some()
    }

    /// Whose thread issues calls.
    fn holder(&self) -> Option<ThreadId> {
        self.lock().holder
    }

    fn must_be_home(&self) -> Result<(), Fate> {
        if self.process == std::process::id() { Ok(()) } else { Err(Fate::Forked) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        at_most: Duration,
    ) -> MutexGuard<'a, State> {
        state.waiting += 1;
        let waited = self.changed.wait_timeout(state, at_most);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.waiting -= 1;
        state
    }

    /// Wakes all who wait.
    fn tell(&self, state: &State) {
        if state.waiting > 0 {
            self.changed.notify_all();
        }
    }
}
