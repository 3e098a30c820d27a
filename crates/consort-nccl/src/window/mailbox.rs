//! The signals that have come, and those that are waited for.

use std::collections::{BTreeMap, HashMap};
use std::ffi::c_int;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use consort::Deadline;

use crate::failure::{Failure, Result};
use crate::lock;
use crate::status::Status;

/// Which signals are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
    pub(super) fn take(&self, wanted: &[Wanted], within: Duration) -> Result<()> {
        let mut all: BTreeMap<Signal, u64> = BTreeMap::new();
        for Wanted { signal, count } in wanted {
            let sum = all.entry(*signal).or_default();
            *sum = sum.saturating_add(*count);
        }
        let missing = |state: &State| {
            let few = all.iter().filter(|(signal, count)| state.count_of(signal) < **count);
            let few = few.map(|(signal, count)| {
                let Signal { peer, index, context } = signal;
                let has = state.count_of(signal);
                format!("{has} of {count} of rank {peer} with sigIdx {index} and ctx {context}")
            });
            few.collect()
        };
        let mut state = self.wait("ncclWaitSignal for signals", within, missing)?;
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
    pub(super) fn await_all(&self, counts: &[u64], within: Duration) -> Result<()> {
        let missing = |state: &State| {
            let all = state.received.iter().zip(counts).enumerate();
            let few = all.filter(|(_, (has, count))| has < count);
            few.map(|(rank, (has, count))| format!("{has} of {count} of rank {rank}")).collect()
        };
        let what = "ncclCommWindowDeregister for what was put and signalled before";
        self.wait(what, within, missing).map(drop)
    }

    /// Waits until nothing is missing.
    fn wait(
        &self,
        what: &str,
        within: Duration,
        missing: impl Fn(&State) -> Vec<String>,
    ) -> Result<MutexGuard<'_, State>> {
        let until = Deadline::after(within);
        let mut state = lock(&self.state);
        loop {
            let missing = missing(&state);
            if missing.is_empty() {
                return Ok(state);
            }
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            let left = until.remaining().unwrap_or(Duration::MAX);
            if left.is_zero() {
                let text = format!(
                    "waited {within:.1?} in {what}, of which came {}; look at what keeps those ranks; if they only \
                     need longer, CONSORT_TIMEOUT gives it to them",
                    missing.join(", ")
                );
                return Err(Failure { status: Status::TIMEOUT, text });
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl State {
    /// How many of a signal are there.
    fn count_of(&self, signal: &Signal) -> u64 {
        self.signals.get(signal).copied().unwrap_or_default()
    }
}

/// How many signals a context has.
const INDICES: u32 = 256;
/// How many contexts there are.
const CONTEXTS: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_counted_by_who_sent_them_and_taken_once() {
        let mailbox = Mailbox::new(2);
        let (mine, theirs) = (Signal::new(0, 0, 0).unwrap(), Signal::new(1, 0, 0).unwrap());
        mailbox.put(theirs);
        mailbox.put(theirs);
        mailbox.put(mine);
        let two = [Wanted { signal: theirs, count: 1 }, Wanted { signal: theirs, count: 1 }];
        mailbox.take(&two, SOON).unwrap();
        assert_eq!(mailbox.take(&two, SOON).unwrap_err().status, Status::TIMEOUT);
        mailbox.take(&[Wanted { signal: mine, count: 1 }], SOON).unwrap();
        mailbox.await_all(&[1, 2], SOON).unwrap();
        mailbox.close(Failure::usage("over"));
        assert_eq!(mailbox.take(&two, Duration::MAX).unwrap_err().text, "over");
    }

    #[test]
    fn what_has_not_come_in_time_is_told_with_who_did_not_send_it() {
        let mailbox = Mailbox::new(3);
        let [here, few, none] = [(0, 7, 0), (1, 4, 2), (2, 4, 0)]
            .map(|(peer, index, context)| Signal::new(peer, index, context).unwrap());
        [here, few].into_iter().for_each(|signal| mailbox.put(signal));
        let wanted = [(none, 1), (few, 2), (here, 1), (few, 1)]
            .map(|(signal, count)| Wanted { signal, count });
        let told = mailbox.take(&wanted, SOON).unwrap_err().text;
        let words = "waited 20.0ms in ncclWaitSignal for signals, of which came 1 of 3 of rank 1 with sigIdx 4 \
                     and ctx 2, 0 of 1 of rank 2 with sigIdx 4 and ctx 0; look";
        assert!(told.starts_with(words), "{told}");
        let told = mailbox.await_all(&[1, 5, 0], SOON).unwrap_err().text;
        assert!(told.contains("signalled before, of which came 1 of 5 of rank 1; look"), "{told}");
    }

    #[test]
    fn what_is_no_signal_is_told_by_its_name() {
        assert!(Signal::new(0, 256, 0).unwrap_err().text.contains("sigIdx is 256"));
        assert!(Signal::new(0, 0, -1).unwrap_err().text.contains("ctx is -1"));
        assert_eq!(Signal::read(3, [256, 0]), None);
        let signal = Signal::new(3, 255, 63).unwrap();
        assert_eq!(Signal::read(3, signal.words()), Some(signal));
    }

    const SOON: Duration = Duration::from_millis(20);
}
