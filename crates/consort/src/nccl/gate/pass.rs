//! Leave to use a communicator.

use std::ops::Deref;
use std::sync::Arc;

use super::super::table::Handle;
use super::{Fate, Gate};

/// Leave to use a communicator. It is alive meanwhile.
#[derive(Debug)]
pub(in super::super) struct Pass {
    gate: Arc<Gate>,
    /// None only while it is given back.
    handle: Option<Arc<Handle>>,
    is_watcher: bool,
}

impl Pass {
    pub(super) fn new(gate: &Arc<Gate>, handle: Arc<Handle>, is_watcher: bool) -> Self {
        Self { gate: gate.clone(), handle: Some(handle), is_watcher }
    }

    /// Makes a call that stands by itself, and is left with the pass unless the communicator was aborted meanwhile.
    ///
    /// # Errors
    /// When the gate was closed: the call was not made.
    pub(in super::super) fn call<T>(
        self,
        call: impl FnOnce(&Handle) -> T,
    ) -> Result<(T, Result<Self, Fate>), Fate> {
        self.gate.step_in()?;
        let answer = call(&self);
        let is_well = self.gate.step_out();
        Ok((answer, is_well.map(|()| self)))
    }
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
        // In a forked child the lock may be held by a thread that it does not have.
        if self.gate.must_be_home().is_err() {
            return;
        }
        let mut state = self.gate.lock();
        if self.is_watcher {
            state.watchers -= 1;
        } else {
            state.passes -= 1;
            if state.passes == 0 {
                (state.holder, state.inside) = (None, None);
            }
        }
        self.gate.tell(&state);
    }
}
