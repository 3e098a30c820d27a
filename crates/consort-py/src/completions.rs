//! What is to happen in the interpreter when calls are done.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;

/// A queue of objects, each put there when a call is done, for threads of Python to take.
///
/// The thread that completes a call must not run Python: it has other calls to see to, and would wait
/// for the interpreter, which may be waiting for the very call.
#[pyclass(frozen, module = "consort._core")]
pub(crate) struct Completions(Arc<Queue>);

/// The queue itself, for the hooks of calls.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    ready: VecDeque<Py<PyAny>>,
    is_closed: bool,
}

#[pymethods]
impl Completions {
    #[new]
    fn new() -> Self {
        Self(Arc::default())
    }

    /// Adds an object as if its call were done.
    fn put(&self, object: Py<PyAny>) {
        self.0.put(object);
    }

    /// Waits for the next object; `None` when the queue was closed.
    fn take(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        py.detach(|| self.0.take())
    }

    /// Lets everyone go who waits. What comes later is dropped.
    fn close(&self) {
        let mut state = self.0.lock();
        state.is_closed = true;
        let left = std::mem::take(&mut state.ready);
        drop(state);
        self.0.changed.notify_all();
        drop(left);
    }
}

impl Completions {
    pub(crate) fn queue(&self) -> Arc<Queue> {
        self.0.clone()
    }
}

impl Queue {
    pub(crate) fn put(&self, object: Py<PyAny>) {
        let mut state = self.lock();
        if state.is_closed {
            drop(state);
            return drop(object);
        }
        state.ready.push_back(object);
        drop(state);
        self.changed.notify_one();
    }

    fn take(&self) -> Option<Py<PyAny>> {
        let mut state = self.lock();
        loop {
            if let Some(object) = state.ready.pop_front() {
                return Some(object);
            }
            if state.is_closed {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
