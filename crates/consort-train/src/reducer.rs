//! The gradients of all ranks, averaged while they are computed.

mod dispatch;
mod inner;
mod ledger;
mod rebuild;
mod state;

use std::sync::Arc;
use std::time::Instant;

use consort::device::Device;
use consort::{Group, ReduceOp, Space};

pub(crate) use self::inner::Inner;
use self::ledger::Ledger;
use self::state::{Phase, Running};
use crate::agreement::agree;
use crate::error::{Error, Result};
use crate::hook::average_by;
use crate::join::{Join, Uneven};
use crate::options::Options;
use crate::parameter::Parameter;
use crate::pass::{Mode, Pass, not_in_place};
use crate::places::Places;
use crate::stats::Stats;
use crate::times::{PassTimes, Record};

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

impl Reducer {
    /// For these parameters, in the order in which the model has them. Every rank has to call it; they
    /// compare what they have.
    ///
    /// # Errors
    /// [`Error::Differs`] on every rank when ranks have different parameters or options; when gradients
    /// cannot be kept as the options say; and why the group has ended, if it has.
    pub fn new(group: &Group, parameters: Vec<Parameter>, options: Options) -> Result<Self> {
        let Options { settings, hook } = options;
        agree(group, &parameters, &settings, &*hook)?;
        settings.check(&parameters, &*hook)?;
        Ok(Self { inner: Arc::new(Inner::new(group, parameters, settings, hook)?) })
    }

    /// Says that a forward pass begins. Only [times](Self::times) depend on it.
    pub fn begin_forward(&self) {
        self.inner.state().forward = Some(Instant::now());
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
    /// As [`begin`](Self::begin); and when gradients are [on a device](Options::on_device), where nobody adds them
    /// up but the engine, [in their places](Options::in_place).
    pub fn begin_local(&self) -> Result<Pass> {
        let rules = &self.inner.settings.rules;
        if let (Space::Device(number), false) = (rules.space(), rules.in_place) {
            let what = format!(
                "gradients of local passes are not added up in the memory of device {number}: let the engine add \
                 them up and give the sum in a pass that is averaged, or have it write gradients in place \
                 (Options::in_place)"
            );
            return Err(Error::Argument(what));
        }
        self.start(Mode::Local)
    }

    /// Begins to train on inputs of which ranks have different numbers. Every rank has to call it. Passes
    /// are begun by what it gives; who has no more input [waits there](Join::finish) for the others.
    ///
    /// # Errors
    /// [`Error::Failed`] when an earlier pass has failed; [`Error::Differs`] on every rank when they do
    /// not want the same; and why the group has ended, if it has.
    pub fn join(&self, uneven: Uneven) -> Result<Join> {
        self.check_idle()?;
        Join::begin_with(self.clone(), uneven)
    }

    /// The parameters.
    pub fn parameters(&self) -> &[Parameter] {
        &self.inner.parameters
    }

    /// The ranks.
    pub fn group(&self) -> Group {
        self.inner.launcher().group.clone()
    }

    /// The device in whose memory gradients are kept, if they are ([`Options::on_device`]).
    pub fn device(&self) -> Option<&Device> {
        self.inner.settings.rules.device.as_ref()
    }

    /// The parameters in each bucket, in the order in which buckets travel.
    pub fn buckets(&self) -> Vec<Vec<usize>> {
        self.inner.state().layout.members().to_vec()
    }

    /// Where gradients lie now, if the engine writes them there by itself. After
    /// [`begin`](Self::begin) and [`set_group`](Self::set_group) it may be elsewhere.
    ///
    /// # Errors
    /// When [`Options::in_place`] was not said.
    pub fn places(&self) -> Result<Places> {
        self.inner.state().layout.places().cloned().ok_or_else(not_in_place)
    }

    /// When what happened in the last pass that was averaged; `None` before the first.
    pub fn times(&self) -> Option<PassTimes> {
        self.inner.state().tally.last().cloned()
    }

    /// What it has done so far, and how.
    ///
    /// ```
    /// # use consort::Dtype;
    /// # use consort_train::{Options, Parameter, Reducer};
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// # let parameters = vec![Parameter::new("weight", Dtype::F32, &[2, 2])];
    /// let reducer = Reducer::new(&group, parameters, Options::new())?;
    /// assert_eq!(reducer.stats().bucket_bytes, [64]);
    /// println!("{}", reducer.stats());
    /// # Ok::<(), consort_train::Error>(())
    /// ```
    pub fn stats(&self) -> Stats {
        Stats::of(&self.inner)
    }

    /// Goes on with another group: the survivors of a rank that is gone, or one that has grown. Every
    /// rank of it has to call this, or [`new`](Self::new) if it has only come. What the reducer knew of
    /// earlier passes is forgotten, and so are gradients that were added up.
    ///
    /// # Errors
    /// [`Error::Pending`] while there is a pass; [`Error::Differs`] as [`new`](Self::new). When the devices of the new
    /// group cannot keep gradients, or not average them: no pass can begin then until another group is set.
    pub fn set_group(&self, group: &Group) -> Result<()> {
        let Inner { parameters, settings, .. } = &*self.inner;
        let mut launcher = self.inner.launcher();
        let mut state = self.inner.state();
        if let Phase::Running(_) = state.phase {
            return Err(Error::Pending { pass: state.pass });
        }
        agree(group, parameters, settings, &*launcher.hook)?;
        state.begin_anew(parameters, settings, group)?;
        launcher.pending.clear();
        launcher.hook.reset();
        (launcher.divisor, launcher.group) = (group.world(), group.clone());
        Ok(())
    }

    pub(crate) fn start(&self, mode: Mode) -> Result<Pass> {
        let group = self.group();
        let mut state = self.inner.state();
        state.check_idle()?;
        if mode != Mode::Local
            && let Err(error) = self.inner.renew(&mut state, &group)
        {
            // Others may have made their buckets anew, and would wait for this rank's.
            drop(state);
            return Err(self.inner.give_up(error));
        }
        state.pass += 1;
        let layout = state.layout.clone();
        let ledger = Ledger::new(layout.members(), &state.comes);
        let mut never = state.comes.iter().enumerate().filter(|(_, comes)| **comes == 0);
        if let Err(error) = never.try_for_each(|(index, _)| layout.complete(index).map(drop)) {
            drop(state);
            return Err(self.inner.give_up(error));
        }
        let record = Record::new(state.comes.len(), state.forward.take(), Instant::now());
        state.phase = Phase::Running(Box::new(Running { ledger, mode, record }));
        Ok(Pass::new(self.inner.clone(), layout, state.pass, mode))
    }

    /// Whether a pass can begin.
    pub(crate) fn check_idle(&self) -> Result<()> {
        self.inner.state().check_idle()
    }

    /// Whether sums can be divided by fewer than all ranks.
    ///
    /// # Errors
    /// When they are on devices, and some are of whole numbers: on every rank alike.
    pub(crate) fn check_division(&self) -> Result<()> {
        let is_odd = |it: &&Parameter| average_by(it.dtype(), 1, 2) == ReduceOp::Sum;
        match self.parameters().iter().find(is_odd) {
            Some(odd) if self.device().is_some() => Err(Error::Argument(format!(
                "gradients of parameter {:?} are of {}, whose sums are divided by the number of all ranks on \
                 devices: say Uneven::DivideByWorld",
                odd.name(),
                odd.dtype()
            ))),
            _ => Ok(()),
        }
    }

    /// By how much sums are divided from now on.
    pub(crate) fn set_divisor(&self, divisor: usize) {
        self.inner.launcher().divisor = divisor;
    }

    /// A mistake of this rank's that leaves the others waiting: they are told.
    pub(crate) fn give_up(&self, error: Error) -> Error {
        self.inner.give_up(error)
    }

    /// Forgets gradients that were added up.
    pub(crate) fn forget(&self) {
        self.inner.state().layout.clear();
    }
}
