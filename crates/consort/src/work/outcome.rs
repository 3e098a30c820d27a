//! What came of a call: where the one who carries it out and the one who waits for it meet.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use consort_store::Deadline;

use super::Failed;
use crate::commission::Known;
use crate::error::Result;

/// What is known of a call that is done.
///
/// ```
/// use std::sync::mpsc;
///
/// let group = consort::Builder::new().rank(0).world(1).init()?;
/// let (tell, told) = mpsc::channel();
/// group.barrier_async()?.on_done(move |call| drop(tell.send(call.clone())));
/// let call = told.recv().expect("it is told even if nobody waits");
/// assert_eq!((call.operation, call.number, call.error), ("barrier", 1, None));
/// println!("waited {:?} for its turn", call.started - call.called);
/// # Ok::<(), consort::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Completion {
    /// What it did: `all_reduce` and so on, or `coalesced`.
    pub operation: &'static str,
    /// Which of the group's calls it was, from 1; the first of several that were carried out as
    /// one; 0 for a message, which is none of them.
    pub number: u64,
    /// When it was made.
    pub called: Instant,
    /// When it was begun.
    pub started: Instant,
    /// When it was done.
    pub finished: Instant,
    /// What went wrong, if something did.
    pub error: Option<String>,
}

/// Called with what is known.
pub(crate) type Hook = Box<dyn FnOnce(&Completion) + Send>;

/// What came of a call, once it is known.
pub(crate) struct Outcome<T, B = T> {
    state: Mutex<State<T, B>>,
    known: Condvar,
}

struct State<T, B> {
    result: Option<Result<T, Failed<B>>>,
    completion: Option<Completion>,
    hooks: Vec<Hook>,
    waker: Option<Waker>,
}

impl<T, B> State<T, B> {
    /// Whoever waited for a result that is gone would wait for ever.
    fn assert_not_taken(&self) {
        let is_taken = self.completion.is_some() && self.result.is_none();
        assert!(!is_taken, "the result of a work is taken only once");
    }
}

impl<T, B> Default for Outcome<T, B> {
    fn default() -> Self {
        let state = State { result: None, completion: None, hooks: Vec::new(), waker: None };
        Self { state: Mutex::new(state), known: Condvar::new() }
    }
}

impl<T, B> Outcome<T, B> {
    /// Calls the hooks, even those that are added meanwhile.
    pub(crate) fn announce(&self, completion: &Completion) {
        loop {
            let hooks = std::mem::take(&mut self.lock().hooks);
            if hooks.is_empty() {
                return;
            }
            hooks.into_iter().for_each(|hook| call(hook, completion));
        }
    }

    /// Makes it known.
    pub(crate) fn settle(&self, result: Result<T, Failed<B>>, completion: Completion) {
        let mut state = self.lock();
        state.result = Some(result);
        state.completion = Some(completion);
    }

    pub(crate) fn is_known(&self) -> bool {
        self.lock().completion.is_some()
    }

    pub(crate) fn wait(&self) -> Result<T, Failed<B>> {
        self.wait_until(Deadline::never()).expect("there is no limit")
    }

    /// `None` if it is not known by then.
    pub(crate) fn wait_until(&self, until: Deadline) -> Option<Result<T, Failed<B>>> {
        let mut state = self.lock();
        loop {
            state.assert_not_taken();
            if let Some(result) = state.result.take() {
                return Some(result);
            }
            state = match until.remaining() {
                None => self.known.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(left) if left.is_zero() => return None,
                Some(left) => {
                    let waited = self.known.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    pub(crate) fn poll(&self, context: &mut Context<'_>) -> Poll<Result<T, Failed<B>>> {
        let mut state = self.lock();
        state.assert_not_taken();
        match state.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                match &mut state.waker {
                    Some(waker) => waker.clone_from(context.waker()),
                    none => *none = Some(context.waker().clone()),
                }
                Poll::Pending
            }
        }
    }

    pub(crate) fn on_done(&self, hook: Hook) {
        let mut state = self.lock();
        match state.completion.clone() {
            None => state.hooks.push(hook),
            Some(completion) => {
                drop(state);
                call(hook, &completion);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T, B>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Send, B: Send> Known for Outcome<T, B> {
    fn wake(&self) {
        let mut state = self.lock();
        let (waker, completion) = (state.waker.take(), state.completion.clone());
        drop(state);
        self.known.notify_all();
        if let Some(waker) = waker {
            undisturbed("a waker", || waker.wake());
        }
        // Some may have been added between the announcement and the settlement.
        completion.into_iter().for_each(|completion| self.announce(&completion));
    }
}

fn call(hook: Hook, completion: &Completion) {
    undisturbed("a hook", || hook(completion));
}

/// Runs somebody else's code, whose panic is not ours.
fn undisturbed(what: &str, run: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(run)).is_err() {
        tracing::error!("{what} of an asynchronous call has panicked");
    }
}
