//! What happens to the passes of a reducer. The README beside this file has the states.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use consort::{ErrorKind, Group, ReduceOp};

use super::dispatch::dispatch;
use super::ledger::{Put, Refusal};
use super::state::{Failure, Phase, Running, State};
use crate::error::{Error, Result};
use crate::hook::{CommHook, Pending, Round};
use crate::layout::{Layout, Parcel};
use crate::options::{Settings, Unused};
use crate::parameter::Parameter;
use crate::pass::Mode;

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) settings: Settings,
    /// Who needs both takes the launcher first.
    state: Mutex<State>,
    launcher: Mutex<Launcher>,
}

/// Who hands buckets to the group.
pub(crate) struct Launcher {
    pub(crate) group: Group,
    pub(crate) hook: Box<dyn CommHook>,
    /// By how much sums are divided.
    pub(crate) divisor: usize,
    pub(crate) pending: Vec<Pending<Parcel>>,
}

impl Inner {
    pub(crate) fn new(
        group: &Group,
        parameters: Vec<Parameter>,
        settings: Settings,
        hook: Box<dyn CommHook>,
    ) -> Result<Self> {
        let state = Mutex::new(State::new(&parameters, &settings, group, (0, 1))?);
        let (group, divisor) = (group.clone(), group.world());
        let launcher = Mutex::new(Launcher { group, hook, divisor, pending: Vec::new() });
        Ok(Self { parameters, settings, state, launcher })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn launcher(&self) -> MutexGuard<'_, Launcher> {
        self.launcher.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of a gradient, which is then [put](Self::put) or [taken back](Self::take_back).
    pub(crate) fn take(&self, pass: u64, index: usize) -> Result<()> {
        let mut state = self.state();
        state.check_alive()?;
        let taken = state.running(pass, "a gradient")?.ledger.take(index);
        let name = || self.parameters[index].name().to_owned();
        taken.map_err(|refusal| match refusal {
            Refusal::Twice | Refusal::Closed if self.settings.is_static => {
                let expected = state.comes[index];
                Error::Changed { pass, name: name(), came: expected + 1, expected }
            }
            Refusal::Twice | Refusal::Closed => Error::Twice { name: name() },
        })
    }

    /// A gradient that was taken is in its bucket: launches what can be.
    pub(crate) fn put(&self, pass: u64, index: usize, layout: &Layout) -> Result<()> {
        let is_complete = {
            let mut state = self.state();
            let Running { ledger, record, mode } = state.running(pass, "a gradient")?;
            let put = ledger.put(index);
            if put != Put::Part {
                record.ready(index, Instant::now());
            }
            put == Put::Complete && *mode == Mode::Averaged
        };
        if is_complete && !self.settings.is_delayed { self.launch(pass, layout) } else { Ok(()) }
    }

    /// A gradient that was taken could not be put into its bucket.
    pub(crate) fn take_back(&self, pass: u64, index: usize) {
        if let Ok(running) = self.state().running(pass, "a gradient") {
            running.ledger.take_back(index);
        }
    }

    /// Hands all buckets to the hook that can go, in their order.
    fn launch(&self, pass: u64, layout: &Layout) -> Result<()> {
        let next = |state: &mut State| {
            // After a failure nothing more goes: it would be taken for what has failed.
            state.check_alive()?;
            let Running { ledger, record, .. } = state.running(pass, "a bucket")?;
            let next = ledger.next();
            if let Some(index) = next {
                // What the hook does first counts as well.
                record.launched(layout.bytes()[index], Instant::now());
            }
            Ok(next)
        };
        dispatch(&self.state, &self.launcher, next, |launcher, index| {
            let parcel = layout.take(index).expect("each is launched once");
            match launcher.start(parcel, pass) {
                Ok(on_its_way) => launcher.pending.push(on_its_way),
                Err(error) => return Err(self.fail(index, error, launcher)),
            }
            Ok(())
        })
    }

    /// All gradients of a pass have come: launches the rest, and gives what is on its way, with which
    /// parameters have a gradient here.
    pub(crate) fn close(
        &self,
        pass: u64,
        layout: &Layout,
    ) -> Result<(Vec<Pending<Parcel>>, Vec<bool>)> {
        let (missing, is_counting, comes, mode) = {
            let mut state = self.state();
            state.check_alive()?;
            let (is_counting, comes) = (state.is_counting, state.comes.clone());
            let running = state.running(pass, "the end")?;
            running.record.ended(Instant::now());
            let missing: Vec<(usize, u32)> = running.ledger.missing(&comes).collect();
            (missing, is_counting, comes, running.mode)
        };
        let mut is_used: Vec<bool> = comes.iter().map(|&comes| comes > 0).collect();
        let mut absent = Vec::new();
        for &(index, came) in &missing {
            // What local passes have left counts as well.
            is_used[index] = layout.complete(index).map_err(|error| self.give_up(error))?;
            if !is_used[index] {
                absent.push(index);
            } else if came > 0 && !is_counting {
                let name = self.parameters[index].name().to_owned();
                let error = Error::Changed { pass, name, came, expected: comes[index] };
                return Err(self.give_up(error));
            }
        }
        if mode == Mode::Shadow {
            is_used.fill(false);
        } else if self.settings.unused == Unused::Refuse && !absent.is_empty() {
            let names = absent.iter().map(|&index| self.parameters[index].name().to_owned());
            return Err(self.give_up(Error::Unused { pass, missing: names.collect() }));
        }
        {
            let mut state = self.state();
            let ledger = &mut state.running(pass, "the end")?.ledger;
            for &(index, _) in &missing {
                ledger.give_up(index);
            }
            if is_counting && mode != Mode::Shadow {
                state.count(&missing);
            }
        }
        self.launch(pass, layout)?;
        let pending = std::mem::take(&mut self.launcher().pending);
        if pending.len() < layout.members().len() {
            let lost = pending.len();
            let what = format!(
                "pass {pass}: bucket {lost} did not go, for the communication hook or whoever brought one of \
                 its gradients has panicked"
            );
            return Err(self.give_up(Error::Argument(what)));
        }
        Ok((pending, is_used))
    }

    /// Which parameters have a gradient on any rank.
    pub(crate) fn used_anywhere(&self, is_used: &[bool]) -> Result<Vec<bool>> {
        if self.settings.unused == Unused::Refuse {
            return Ok(is_used.to_vec());
        }
        let group = self.launcher().group.clone();
        let mut bits = vec![0_u64; is_used.len().div_ceil(64)];
        for (index, _) in is_used.iter().enumerate().filter(|(_, is_used)| **is_used) {
            bits[index / 64] |= 1 << (index % 64);
        }
        group.all_reduce(&mut bits, ReduceOp::BitOr)?;
        Ok((0..is_used.len()).map(|index| bits[index / 64] >> (index % 64) & 1 == 1).collect())
    }

    /// A bucket that was waited for has come back, or not.
    pub(crate) fn came_back(
        &self,
        (pass, index): (u64, usize),
        pending: Pending<Parcel>,
    ) -> Result<Parcel> {
        let arrival = pending.arrival();
        let checked = pending.wait().and_then(|parcel| match &parcel {
            Parcel::Dense(bucket) if bucket.index() != index => {
                Err(Error::Argument(format!("it gave back bucket {}", bucket.index())))
            }
            _ => Ok(parcel),
        });
        let done = arrival.get().unwrap_or_else(Instant::now);
        if let Ok(running) = self.state().running(pass, "a bucket") {
            running.record.done(index, done);
        }
        checked.map_err(|error| self.fail(index, error, &self.launcher()))
    }

    /// The pass is done, and somebody has the averages.
    pub(crate) fn hold(&self, pass: u64, is_used: &[bool]) {
        let mut state = self.state();
        let Ok(running) = state.running(pass, "the end") else { return };
        let times = running.record.times(pass);
        let mut order = running.ledger.order().to_vec();
        let (ledger, mode) = (&running.ledger, running.mode);
        order.extend((0..self.parameters.len()).rev().filter(|&index| !ledger.is_ready(index)));
        state.observed = Some(order);
        state.averaged += 1;
        if mode == Mode::Averaged {
            let unused = self.parameters.iter().zip(is_used).filter(|(_, is_used)| !**is_used);
            let unused_bytes = unused.map(|(parameter, _)| parameter.bytes()).sum();
            state.tally.add(times, unused_bytes, is_used);
        }
        state.phase = Phase::Held;
    }

    /// Nobody needs a pass any more, which has moved nothing or given back all it had.
    pub(crate) fn release(&self, pass: u64) {
        let mut state = self.state();
        if state.pass == pass {
            state.phase = Phase::Idle;
        }
    }

    /// A pass has failed.
    pub(crate) fn break_off(&self, pass: u64, error: &Error) {
        let mut state = self.state();
        state.failed.get_or_insert_with(|| Failure::of(error));
        if state.pass == pass {
            state.phase = Phase::Idle;
        }
    }

    /// A pass was dropped before its end, perhaps for a reason that is known. Ends the group if buckets
    /// have gone; if backward has failed, also if gradients have come, for the other ranks' buckets go.
    pub(crate) fn abandon(
        &self,
        pass: u64,
        layout: &Layout,
        (why, has_failed): (Option<&str>, bool),
    ) {
        let mut state = self.state();
        let comes = state.comes.clone();
        let Ok(running) = state.running(pass, "the end") else { return };
        let (has_begun, is_touched) =
            (running.ledger.has_begun(), running.ledger.is_touched(&comes));
        state.phase = Phase::Idle;
        if has_begun || (has_failed && is_touched) {
            let why = why.map_or(String::new(), |why| format!(": {why}"));
            let what = if has_begun { "buckets had gone" } else { "gradients had come" };
            let reason = format!("pass {pass} was dropped before its end, when {what}{why}");
            let failure = Failure { text: reason.clone(), kind: ErrorKind::Aborted };
            state.failed.get_or_insert(failure);
            drop(state);
            self.launcher().group.abort(&reason);
        } else if is_touched {
            // Nobody can tell any more what belongs to which pass.
            layout.clear();
        }
    }

    /// A mistake of this rank's that leaves the others waiting: they are told.
    pub(crate) fn give_up(&self, error: Error) -> Error {
        self.state().failed.get_or_insert_with(|| Failure::of(&error));
        self.launcher().group.abort(&error.to_string());
        error
    }

    /// A hook has failed.
    fn fail(&self, bucket: usize, error: Error, launcher: &Launcher) -> Error {
        let hook = launcher.hook.name().to_owned();
        let has_ended = |kind| {
            use ErrorKind::{Aborted, Deadline, Mismatch, PeerGone};
            matches!(kind, Aborted | Deadline | Mismatch | PeerGone)
        };
        let error = match error {
            // The others know.
            Error::Group(error) if has_ended(error.kind()) => Error::Group(error),
            other => Error::Hook { hook, bucket, reason: other.to_string() },
        };
        self.state().failed.get_or_insert_with(|| Failure::of(&error));
        if matches!(error, Error::Hook { .. }) {
            launcher.group.abort(&error.to_string());
        }
        error
    }
}

impl Launcher {
    /// Hands a bucket over. Rows go their own way: what a hook does with numbers makes no sense for them.
    fn start(&mut self, parcel: Parcel, pass: u64) -> Result<Pending<Parcel>> {
        let Self { group, hook, divisor, .. } = self;
        let round = Round { group, divisor: *divisor, pass };
        Ok(match parcel {
            Parcel::Dense(bucket) => {
                hook.start(bucket, &round)?.and_then(|it| Ok(Parcel::Dense(it)))
            }
            Parcel::Rows(rows) => rows.start(&round)?.and_then(|it| Ok(Parcel::Rows(it))),
        })
    }
}

impl std::fmt::Debug for Launcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Launcher")
            .field("group", &self.group.name())
            .field("hook", &self.hook.name())
            .field("divisor", &self.divisor)
            .field("pending", &self.pending.len())
            .finish()
    }
}
