//! The signals that have come, and those that are waited for.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::{Condvar, Mutex, PoisonError};

use consort::Deadline;

use crate::failure::{Failure, Result};
use crate::lock;
use crate::status::Status;

/// Which signals are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Signal {
    pub(crate) peer: u32,
    index: u32,
    context: u32,
}

impl Signal {
    /// # Errors
    /// When there is no such signal.
    pub(crate) fn new(peer: u32, index: c_int, context: c_int) -> Result<Self> {
        let number = |name: &str, number: c_int, end: u32| match u32::try_from(number) {
            Ok(value) if value < end => Ok(value),
            _ => Err(Failure::argument(format!(
                "{name} is {number}, and has to be 0 to {}",
                end - 1
            ))),
        };
        Ok(Self {
            peer,
            index: number("sigIdx", index, INDICES)?,
            context: number("ctx", context, CONTEXTS)?,
        })
    }

    /// As it travels.
    pub(crate) fn words(self) -> [u64; 2] {
        [self.index.into(), self.context.into()]
    }

    /// What has come from a peer, if it can be.
    pub(crate) fn read(peer: u32, [index, context]: [u64; 2]) -> Option<Self> {
        let index = u32::try_from(index).ok().filter(|index| *index < INDICES)?;
        let context = u32::try_from(context).ok().filter(|context| *context < CONTEXTS)?;
        Some(Self { peer, index, context })
    }
}

/// So many of a signal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) signal: Signal,
    pub(crate) count: u64,
}

/// What has come.
#[derive(Debug)]
pub(super) struct Mailbox {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    signals: HashMap<Signal, u64>,
    /// How much each rank has sent.
    received: Vec<u64>,
    /// Why nothing comes any more.
    failure: Option<Failure>,
}

impl Mailbox {
    pub(super) fn new(world: usize) -> Self {
        let state = State { signals: HashMap::new(), received: vec![0; world], failure: None };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Something has come, with a signal.
    pub(super) fn put(&self, signal: Signal) {
        let mut state = lock(&self.state);
        *state.signals.entry(signal).or_default() += 1;
        if let Some(count) = state.received.get_mut(signal.peer as usize) {
            *count += 1;
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Nothing comes any more.
    pub(super) fn close(&self, why: Failure) {
        lock(&self.state).failure.get_or_insert(why);
        self.changed.notify_all();
    }

    /// Waits until all of these have come, and takes them.
    ///
    /// # Errors
    /// When they do not come any more, or not in time.
    pub(super) fn take(&self, wanted: &[Wanted], until: Deadline) -> Result<()> {
        let mut all: HashMap<Signal, u64> = HashMap::new();
        for Wanted { signal, count } in wanted {
            let sum = all.entry(*signal).or_default();
            *sum = sum.saturating_add(*count);
        }
        let has = |state: &State, (signal, count): (&Signal, &u64)| {
            state.signals.get(signal).copied().unwrap_or_default() >= *count
        };
        let mut state = self.wait(until, |state| all.iter().all(|it| has(state, it)))?;
        for (signal, count) in &all {
            if let Some(there) = state.signals.get_mut(signal) {
                *there -= count;
            }
        }
        Ok(())
    }

    /// Waits until so much has come from each rank.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub(super) fn await_all(&self, counts: &[u64], until: Deadline) -> Result<()> {
        let has =
            |state: &State| state.received.iter().zip(counts).all(|(has, count)| has >= count);
        self.wait(until, has).map(drop)
    }

    fn wait(
        &self,
        until: Deadline,
        is_there: impl Fn(&State) -> bool,
    ) -> Result<std::sync::MutexGuard<'_, State>> {
        let mut state = lock(&self.state);
        loop {
            if is_there(&state) {
                return Ok(state);
            }
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            let left = until.remaining().unwrap_or(std::time::Duration::MAX);
            if left.is_zero() {
                let text = "the signals have not come in time".to_owned();
                return Err(Failure { status: Status::TIMEOUT, text });
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// How many signals a context has.
const INDICES: u32 = 256;
/// How many contexts there are.
const CONTEXTS: u32 = 64;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn signals_are_counted_by_who_sent_them_and_taken_once() {
        let mailbox = Mailbox::new(2);
        let (mine, theirs) = (Signal::new(0, 0, 0).unwrap(), Signal::new(1, 0, 0).unwrap());
        mailbox.put(theirs);
        mailbox.put(theirs);
        mailbox.put(mine);
        let soon = || Deadline::after(Duration::from_millis(20));
        let two = [Wanted { signal: theirs, count: 1 }, Wanted { signal: theirs, count: 1 }];
        mailbox.take(&two, soon()).unwrap();
        assert_eq!(mailbox.take(&two, soon()).unwrap_err().status, Status::TIMEOUT);
        mailbox.take(&[Wanted { signal: mine, count: 1 }], soon()).unwrap();
        mailbox.await_all(&[1, 2], soon()).unwrap();
        mailbox.close(Failure::usage("over"));
        assert_eq!(mailbox.take(&two, Deadline::never()).unwrap_err().text, "over");
    }

    #[test]
    fn what_is_no_signal_is_told_by_its_name() {
        assert!(Signal::new(0, 256, 0).unwrap_err().text.contains("sigIdx is 256"));
        assert!(Signal::new(0, 0, -1).unwrap_err().text.contains("ctx is -1"));
        assert_eq!(Signal::read(3, [256, 0]), None);
        let signal = Signal::new(3, 255, 63).unwrap();
        assert_eq!(Signal::read(3, signal.words()), Some(signal));
    }
}
