//! The end of a communicator.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::code::Code;
use super::super::table::{Answer, Handle};
use super::Gate;

/// Leave to end a communicator.
#[derive(Debug)]
pub(in super::super) struct Last<'a> {
    gate: &'a Gate,
    handle: Arc<Handle>,
}

impl<'a> Last<'a> {
    /// Nobody uses it any more but who was cut off.
    pub(super) fn new(gate: &'a Gate, handle: Arc<Handle>) -> Self {
        Self { gate, handle }
    }

    /// Ends it in good order.
    pub(in super::super) fn destroy(self) -> Answer {
        let handle = Arc::into_inner(self.handle);
        let handle = handle.expect("passes hold the only others, and only an abort cuts them off");
        let answer = handle.destroy();
        // Everybody is out.
        let _ = bury(self.gate, answer, Duration::ZERO);
        answer
    }

    /// Ends it at once. Says whether everybody is out who was cut off, or how long that was waited for.
    pub(in super::super) fn abort(self) -> (Answer, Result<(), Duration>) {
        let answer = match Arc::try_unwrap(self.handle) {
            Ok(handle) => handle.abort(),
            Err(handle) => handle.abort_under_others(),
        };
        (answer, bury(self.gate, answer, AFTERMATH))
    }
}

/// Takes notice that a communicator was ended, when nobody is in a call of it any more.
fn bury(gate: &Gate, answer: Answer, limit: Duration) -> Result<(), Duration> {
    let began = Instant::now();
    let mut state = gate.lock();
    while state.is_used() && began.elapsed() < limit {
        state = gate.wait(state, limit - began.elapsed().min(limit));
    }
    let is_out = !state.is_used();
    state.is_gone = Some(is_out && answer == Ok(Code::SUCCESS));
    gate.tell(&state);
    if is_out { Ok(()) } else { Err(began.elapsed()) }
}

/// How long a thread may take to come out of a call that was aborted.
const AFTERMATH: Duration = Duration::from_secs(30);
