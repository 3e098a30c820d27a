//! Calls that are on their way.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use consort::{Deadline, Rank, Work};
use pyo3::prelude::*;

use crate::completions::{Completions, Queue};
use crate::errors::raise;
use crate::task::{Held, HeldMessage};

/// A call that is on its way. It goes on, and keeps its tensors, when this is forgotten.
#[pyclass(frozen, module = "consort._core")]
pub(crate) struct Op {
    state: Mutex<State>,
    known: Condvar,
    /// What the call does.
    #[pyo3(get)]
    operation: &'static str,
    /// Which of the group's calls it is, from 1; 0 for a message.
    #[pyo3(get)]
    number: u64,
}

enum State {
    /// Nobody waits for it.
    OnItsWay(Way),
    /// Some thread waits for it, and tells these when it is done.
    Awaited(Vec<Notice>),
    /// What came of it: whose message was received, if it was one.
    Known(Result<Option<u32>, Arc<consort::Error>>),
}

/// What is carried out.
pub(crate) enum Way {
    Call(Work<Held>),
    Message(Work<(HeldMessage, Option<Rank>), HeldMessage>),
}

/// Something to be put into a queue.
struct Notice(Arc<Queue>, Py<PyAny>);

#[pymethods]
impl Op {
    /// Whether the call is done, for better or worse.
    fn is_done(&self) -> bool {
        match &*self.lock() {
            State::OnItsWay(way) => way.is_done(),
            State::Awaited(_) => false,
            State::Known(_) => true,
        }
    }

    /// Waits until the call is done, or for so many seconds. Says whether it is done.
    ///
    /// Raises the error of a call that failed, to everyone who waits.
    #[pyo3(signature = (seconds=None))]
    fn wait(&self, py: Python<'_>, seconds: Option<f64>) -> PyResult<bool> {
        let until = seconds.map_or(Deadline::never(), |seconds| {
            Deadline::after(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
        });
        match py.detach(|| self.await_until(until)) {
            None => Ok(false),
            Some(Ok(_)) => Ok(true),
            Some(Err(error)) => Err(raise(&error)),
        }
    }

    /// The rank whose message was received; `None` if this is no message that was.
    fn source(&self, py: Python<'_>) -> PyResult<Option<u32>> {
        let known = py.detach(|| self.await_until(Deadline::never()));
        known.expect("there is no limit").map_err(|error| raise(&error))
    }

    /// Puts an object into a queue when the call is done; at once if it is done already.
    fn notify(&self, queue: &Completions, object: Py<PyAny>) {
        let (mut state, notice) = (self.lock(), Notice(queue.queue(), object));
        match &mut *state {
            State::OnItsWay(way) => way.tell(notice),
            State::Awaited(notices) => notices.push(notice),
            State::Known(_) => notice.send(),
        }
    }
}

impl Op {
    pub(crate) fn of_call(work: Work<Held>) -> Self {
        let (operation, number) = (work.operation(), work.number());
        Self::new(Way::Call(work), operation, number)
    }

    pub(crate) fn of_message(work: Work<(HeldMessage, Option<Rank>), HeldMessage>) -> Self {
        let operation = work.operation();
        Self::new(Way::Message(work), operation, 0)
    }

    fn new(way: Way, operation: &'static str, number: u64) -> Self {
        let state = Mutex::new(State::OnItsWay(way));
        Self { state, known: Condvar::new(), operation, number }
    }

    /// What came of it; `None` if that is not known by then.
    fn await_until(&self, until: Deadline) -> Option<Result<Option<u32>, Arc<consort::Error>>> {
        let mut state = self.lock();
        loop {
            match &mut *state {
                State::Known(known) => return Some(known.clone()),
                State::Awaited(_) => state = self.sleep(state, until)?,
                State::OnItsWay(_) => {
                    let awaited = std::mem::replace(&mut *state, State::Awaited(Vec::new()));
                    drop(state);
                    let State::OnItsWay(way) = awaited else { unreachable!("it was looked at") };
                    state = self.settle(way.wait_until(until));
                    if let State::OnItsWay(_) = *state {
                        return None;
                    }
                }
            }
        }
    }

    /// Waits for whoever waits for the call; `None` when the deadline has passed.
    fn sleep<'a>(
        &self,
        state: MutexGuard<'a, State>,
        until: Deadline,
    ) -> Option<MutexGuard<'a, State>> {
        match until.remaining() {
            None => Some(self.known.wait(state).unwrap_or_else(PoisonError::into_inner)),
            Some(left) if left.is_zero() => None,
            Some(left) => {
                let slept = self.known.wait_timeout(state, left);
                Some(slept.unwrap_or_else(PoisonError::into_inner).0)
            }
        }
    }

    /// Notes what a wait has led to, and tells whoever else waits.
    fn settle(&self, waited: Waited) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        let next = match waited {
            Waited::Done(known) => State::Known(known),
            Waited::NotYet(way) => State::OnItsWay(way),
        };
        let State::Awaited(notices) = std::mem::replace(&mut *state, next) else {
            unreachable!("this thread waits for it")
        };
        for notice in notices {
            match &*state {
                State::OnItsWay(way) => way.tell(notice),
                _ => notice.send(),
            }
        }
        self.known.notify_all();
        state
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Waited {
    Done(Result<Option<u32>, Arc<consort::Error>>),
    NotYet(Way),
}

impl Way {
    fn is_done(&self) -> bool {
        match self {
            Self::Call(work) => work.is_done(),
            Self::Message(work) => work.is_done(),
        }
    }

    fn tell(&self, notice: Notice) {
        match self {
            Self::Call(work) => work.on_done(move |_| notice.send()),
            Self::Message(work) => work.on_done(move |_| notice.send()),
        }
    }

    /// Without a limit the waiting thread carries the call out itself, if nobody has begun with it.
    fn wait_until(self, until: Deadline) -> Waited {
        let is_endless = until.remaining().is_none();
        match self {
            Self::Call(work) if is_endless => {
                Waited::Done(work.wait().map(|_| None).map_err(|failed| Arc::new(failed.error)))
            }
            Self::Call(work) => match work.wait_until(until) {
                Err(work) => Waited::NotYet(Self::Call(work)),
                Ok(done) => {
                    Waited::Done(done.map(|_| None).map_err(|failed| Arc::new(failed.error)))
                }
            },
            Self::Message(work) if is_endless => Waited::Done(whose(work.wait())),
            Self::Message(work) => match work.wait_until(until) {
                Err(work) => Waited::NotYet(Self::Message(work)),
                Ok(done) => Waited::Done(whose(done)),
            },
        }
    }
}

/// The rank whose message was received.
fn whose(
    received: Result<(HeldMessage, Option<Rank>), consort::Failed<HeldMessage>>,
) -> Result<Option<u32>, Arc<consort::Error>> {
    match received {
        Ok((_, from)) => Ok(from.map(Rank::get)),
        Err(failed) => Err(Arc::new(failed.error)),
    }
}

impl Notice {
    fn send(self) {
        let Self(queue, object) = self;
        queue.put(object);
    }
}
