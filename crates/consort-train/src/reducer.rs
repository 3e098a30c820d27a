//! The gradients of all ranks, averaged while they are computed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use consort::{Group, ReduceOp};

use crate::agreement::agree;
use crate::assign::assign;
use crate::bucket::Bucket;
use crate::error::{Error, Result};
use crate::hook::{CommHook, Pending, Round};
use crate::layout::Layout;
use crate::ledger::{Ledger, Refusal};
use crate::options::{Options, Settings, Unused};
use crate::parameter::Parameter;
use crate::pass::{Mode, Pass};
use crate::state::{Phase, State};

/// Averages gradients over all ranks, in buckets, while backward computes others.
///
/// It knows nothing of the engine that computes them. That tells it three things: that a backward pass
/// [begins](Self::begin), that a gradient [is there](Pass::ready), and that the pass
/// [ends](Pass::finish). Clones are the same reducer.
///
/// ```
/// use consort::Dtype;
/// use consort_train::{Options, Parameter, Reducer};
///
/// # let group = consort::Builder::new().rank(0).world(1).init()?;
/// let parameters = vec![
///     Parameter::new("weight", Dtype::F32, &[2, 2]),
///     Parameter::new("bias", Dtype::F32, &[2]),
/// ];
/// let reducer = Reducer::new(&group, parameters, Options::new())?;
///
/// let pass = reducer.begin()?;
/// // While backward runs, the last layer's first:
/// pass.ready(1, &[0.5_f32, 0.5])?;
/// pass.ready(0, &[1.0_f32; 4])?;
/// let averages = pass.finish()?;
/// assert_eq!(averages.gradient::<f32>(1)?, Some(&[0.5, 0.5][..]));
/// # Ok::<(), consort_train::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Reducer {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) parameters: Vec<Parameter>,
    settings: Settings,
    /// Who needs both takes the launcher first.
    state: Mutex<State>,
    launcher: Mutex<Launcher>,
}

/// Who hands buckets to the group.
struct Launcher {
    group: Group,
    hook: Box<dyn CommHook>,
    divisor: usize,
    pending: Vec<Pending>,
}

impl Reducer {
    /// For these parameters, in the order in which the model has them. Every rank has to call it; they
    /// compare what they have.
    ///
    /// # Errors
    /// [`Error::Differs`] on every rank when ranks have different parameters or options; and why the
    /// group has ended, if it has.
    pub fn new(group: &Group, parameters: Vec<Parameter>, options: Options) -> Result<Self> {
        let Options { settings, hook } = options;
        agree(group, &parameters, &settings, &*hook)?;
        let state = Mutex::new(State::new(&parameters, &settings, 0));
        let (group, divisor) = (group.clone(), group.world());
        let launcher = Mutex::new(Launcher { group, hook, divisor, pending: Vec::new() });
        Ok(Self { inner: Arc::new(Inner { parameters, settings, state, launcher }) })
    }

    /// Begins with a backward pass whose gradients are to be averaged, with what
    /// [local passes](Self::begin_local) have left.
    ///
    /// The second pass puts gradients into buckets in the order in which they came in the first one, on
    /// rank 0.
    ///
    /// # Errors
    /// [`Error::Pending`] while another pass is neither finished nor dropped, or its averages are held;
    /// [`Error::Failed`] when an earlier one has failed; and why the group has ended, if it has.
    pub fn begin(&self) -> Result<Pass> {
        self.start(Mode::Averaged)
    }

    /// Begins with a backward pass whose gradients are only added to those of this rank, until a pass
    /// is averaged. Nothing travels.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub fn begin_local(&self) -> Result<Pass> {
        self.start(Mode::Local)
    }

    /// The parameters.
    pub fn parameters(&self) -> &[Parameter] {
        &self.inner.parameters
    }

    /// The ranks.
    pub fn group(&self) -> Group {
        self.inner.launcher().group.clone()
    }

    /// The parameters in each bucket, in the order in which buckets travel.
    pub fn buckets(&self) -> Vec<Vec<usize>> {
        self.inner.state().layout.members().to_vec()
    }

    /// Goes on with another group: the survivors of a rank that is gone, or one that has grown. Every
    /// rank of it has to call this, or [`new`](Self::new) if it has only come. What the reducer knew of earlier passes is forgotten, and so are
    /// gradients that were added up.
    ///
    /// # Errors
    /// [`Error::Pending`] while there is a pass; [`Error::Differs`] as [`new`](Self::new).
    pub fn set_group(&self, group: &Group) -> Result<()> {
        let Inner { parameters, settings, .. } = &*self.inner;
        let mut launcher = self.inner.launcher();
        let mut state = self.inner.state();
        if let Phase::Running { .. } = state.phase {
            return Err(Error::Pending { pass: state.pass });
        }
        agree(group, parameters, settings, &*launcher.hook)?;
        *state = State::new(parameters, settings, state.pass);
        launcher.pending.clear();
        launcher.hook.reset();
        (launcher.divisor, launcher.group) = (group.world(), group.clone());
        Ok(())
    }

    fn start(&self, mode: Mode) -> Result<Pass> {
        let group = self.group();
        let mut state = self.inner.state();
        state.check_alive()?;
        match &state.phase {
            Phase::Idle => {}
            Phase::Running { .. } | Phase::Held => return Err(Error::Pending { pass: state.pass }),
        }
        if mode == Mode::Averaged
            && let Some(order) = state.observed.take()
            && !state.is_rebuilt
        {
            state.layout = self.inner.rebuild(&group, order, &state.layout)?;
            state.is_rebuilt = true;
        }
        state.pass += 1;
        let layout = state.layout.clone();
        let ledger = Ledger::new(layout.members(), &state.times);
        let never = state.times.iter().enumerate().filter(|(_, times)| **times == 0);
        for (index, _) in never {
            layout.complete(index);
        }
        state.phase = Phase::Running { ledger, mode };
        Ok(Pass::new(self.inner.clone(), layout, state.pass, mode))
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn launcher(&self) -> MutexGuard<'_, Launcher> {
        self.launcher.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts parameters into buckets in the order that rank 0 has seen.
    fn rebuild(
        &self,
        group: &Group,
        order: Vec<usize>,
        layout: &Arc<Layout>,
    ) -> Result<Arc<Layout>> {
        let mut order: Vec<u32> = order.into_iter().map(|index| index as u32).collect();
        group.broadcast(&mut order, 0)?;
        let order = order.into_iter().map(|index| index as usize);
        let buckets = assign(&self.parameters, order, &self.settings.caps);
        if buckets == layout.members() {
            return Ok(layout.clone());
        }
        let new = Layout::new(&self.parameters, buckets, self.settings.reduce_as);
        new.adopt(layout);
        Ok(Arc::new(new))
    }

    /// Takes note of a gradient. Says whether it was the last of its parameter.
    pub(crate) fn take(&self, pass: u64, index: usize) -> Result<bool> {
        let mut state = self.state();
        state.check_alive()?;
        let (ledger, _) = state.running(pass, "a gradient")?;
        let taken = ledger.take(index);
        let name = || self.parameters[index].name().to_owned();
        taken.map_err(|refusal| match refusal {
            Refusal::Twice if self.settings.is_static => {
                let expected = state.times[index];
                Error::Changed { pass, name: name(), came: expected + 1, expected }
            }
            Refusal::Twice | Refusal::Closed => Error::Twice { name: name() },
        })
    }

    /// A gradient that was taken is in its bucket: launches what can be.
    pub(crate) fn put(&self, pass: u64, index: usize, layout: &Layout) -> Result<()> {
        let is_complete = {
            let mut state = self.state();
            let (ledger, mode) = state.running(pass, "a gradient")?;
            ledger.put(index) && mode == Mode::Averaged
        };
        if is_complete { self.launch(pass, layout) } else { Ok(()) }
    }

    /// Hands all buckets to the hook that can go, in their order.
    fn launch(&self, pass: u64, layout: &Layout) -> Result<()> {
        // Held until they are handed over, so that no other thread comes in between.
        let mut launcher = self.launcher();
        loop {
            let next = {
                let mut state = self.state();
                state.running(pass, "a bucket")?.0.next()
            };
            let Some(index) = next else { return Ok(()) };
            let bucket = layout.take(index).expect("each is launched once");
            let Launcher { group, hook, divisor, .. } = &mut *launcher;
            let started = hook.start(bucket, &Round { group, divisor: *divisor, pass });
            match started {
                Ok(on_its_way) => launcher.pending.push(on_its_way),
                Err(error) => return Err(self.fail(index, error, &launcher)),
            }
        }
    }

    /// All gradients of a pass have come: launches the rest, and gives what is on its way, with which
    /// parameters have a gradient here.
    pub(crate) fn close(&self, pass: u64, layout: &Layout) -> Result<(Vec<Pending>, Vec<bool>)> {
        let (missing, counted, times) = {
            let mut state = self.state();
            state.check_alive()?;
            let (is_counting, times) = (state.is_counting, state.times.clone());
            let (ledger, _) = state.running(pass, "the end")?;
            let missing: Vec<(usize, u32)> = ledger.missing(&times).collect();
            (missing, is_counting, times)
        };
        let mut is_used: Vec<bool> = times.iter().map(|&times| times > 0).collect();
        let mut absent = Vec::new();
        for &(index, came) in &missing {
            // What local passes have left counts as well.
            is_used[index] = layout.complete(index);
            if !is_used[index] {
                absent.push(index);
            } else if came > 0 && !counted {
                let name = self.parameters[index].name().to_owned();
                let error = Error::Changed { pass, name, came, expected: times[index] };
                return Err(self.give_up(error));
            }
        }
        if self.settings.unused == Unused::Refuse && !absent.is_empty() {
            let names = absent.iter().map(|&index| self.parameters[index].name().to_owned());
            return Err(self.give_up(Error::Unused { pass, missing: names.collect() }));
        }
        {
            let mut state = self.state();
            let (ledger, _) = state.running(pass, "the end")?;
            for &(index, _) in &missing {
                ledger.give_up(index);
            }
            if counted {
                state.count(&missing);
            }
        }
        self.launch(pass, layout)?;
        Ok((std::mem::take(&mut self.launcher().pending), is_used))
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

    /// The pass is done, and somebody has the averages.
    pub(crate) fn hold(&self, pass: u64) {
        let mut state = self.state();
        if !state.is_rebuilt
            && let Phase::Running { ledger, .. } = &state.phase
        {
            let mut order = ledger.order().to_vec();
            let absent = (0..self.parameters.len()).rev().filter(|&index| !ledger.is_ready(index));
            order.extend(absent);
            state.observed = Some(order);
        }
        if state.pass == pass {
            state.phase = Phase::Held;
        }
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
        state.failed.get_or_insert_with(|| error.to_string());
        if state.pass == pass {
            state.phase = Phase::Idle;
        }
    }

    /// A pass was dropped before its end.
    pub(crate) fn abandon(&self, pass: u64, layout: &Layout) {
        let mut state = self.state();
        let times = state.times.clone();
        let Ok((ledger, mode)) = state.running(pass, "the end") else { return };
        let (has_begun, is_touched) = (ledger.has_begun(), ledger.is_touched(&times));
        state.phase = Phase::Idle;
        if has_begun {
            let reason = format!("pass {pass} was dropped before its end, when buckets had gone");
            state.failed.get_or_insert_with(|| reason.clone());
            drop(state);
            self.launcher().group.abort(&reason);
        } else if is_touched && mode == Mode::Averaged {
            layout.clear();
        }
    }

    /// A mistake of this rank's that leaves the others waiting: they are told.
    pub(crate) fn give_up(&self, error: Error) -> Error {
        let reason = error.to_string();
        self.state().failed.get_or_insert_with(|| reason.clone());
        self.launcher().group.abort(&reason);
        error
    }

    /// A hook has failed.
    fn fail(&self, bucket: usize, error: Error, launcher: &Launcher) -> Error {
        let hook = launcher.hook.name().to_owned();
        let error = match error {
            Error::Group(error) => Error::Group(error),
            other => Error::Hook { hook, bucket, reason: other.to_string() },
        };
        let reason = error.to_string();
        self.state().failed.get_or_insert_with(|| reason.clone());
        if matches!(error, Error::Hook { .. }) {
            launcher.group.abort(&reason);
        }
        error
    }

    /// A bucket that was waited for has come back, or not.
    pub(crate) fn came_back(&self, index: usize, bucket: Result<Bucket>) -> Result<Bucket> {
        let checked = bucket.and_then(|bucket| match bucket.index() == index {
            true => Ok(bucket),
            false => Err(Error::Argument(format!("it gave back bucket {}", bucket.index()))),
        });
        checked.map_err(|error| self.fail(index, error, &self.launcher()))
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
