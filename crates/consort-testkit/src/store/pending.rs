//! A call that waits, on a thread of its own.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use consort_store::Store;

use super::subject::{PATIENCE, SHORT};

/// A call under way. Calls that are to be woken have no deadline: a call that finds its answer
/// only when it looks once more at its deadline was not woken.
#[derive(Debug)]
pub(super) struct Pending<T> {
    answer: Receiver<T>,
}

impl<T: Debug + Send + 'static> Pending<T> {
    /// Begins the call and gives it time to reach the store.
    pub(super) fn start(
        store: &Arc<dyn Store>,
        call: impl FnOnce(&dyn Store) -> T + Send + 'static,
    ) -> Self {
        let store = store.clone();
        let (begin, begun) = channel();
        let (give, answer) = channel();
        thread::spawn(move || {
            // The case may have failed meanwhile, and then nobody listens.
            let _ = begin.send(());
            let _ = give.send(call(&*store));
        });
        begun.recv().expect("the thread begins");
        thread::sleep(SETTLE);
        Self { answer }
    }

    /// Fails unless the call goes on waiting.
    #[track_caller]
    pub(super) fn assert_waiting(&self) {
        match self.answer.recv_timeout(SHORT) {
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => panic!("the waiting call panicked"),
            Ok(answer) => panic!("it should still wait, not answer {answer:?}"),
        }
    }

    /// The answer, which is due.
    #[track_caller]
    pub(super) fn answer(self) -> T {
        match self.answer.recv_timeout(PATIENCE) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => panic!("it still waits after {PATIENCE:?}"),
            Err(RecvTimeoutError::Disconnected) => panic!("the waiting call panicked"),
        }
    }
}

/// How long a call gets to reach the store and wait there. No case relies on it to pass; it
/// makes sure that what passes has been tested.
const SETTLE: Duration = Duration::from_millis(50);
