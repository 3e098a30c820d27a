//! How gradients are reduced.

mod devices;

use std::fmt;

use consort::Dtype;
use consort::device::Device;

pub(crate) use self::devices::try_out;

use crate::assign::Caps;
use crate::convert::can_be_reduced_as;
use crate::error::{Error, Result};
use crate::hook::{Average, CommHook};
use crate::layout::Rules;
use crate::parameter::Parameter;

/// How a [`Reducer`](crate::Reducer) works. What is not said is as good for most.
///
/// ```
/// use consort_train::{Caps, Options, Unused};
///
/// let options = Options::new().caps(Caps::of(4 << 20)?).unused(Unused::Refuse);
/// # Ok::<(), consort_train::Error>(())
/// ```
#[must_use]
pub struct Options {
    pub(crate) settings: Settings,
    pub(crate) hook: Box<dyn CommHook>,
}

/// What is not the hook's business.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    pub(crate) caps: Caps,
    pub(crate) unused: Unused,
    pub(crate) is_static: bool,
    pub(crate) is_delayed: bool,
    pub(crate) rules: Rules,
}

impl Settings {
    /// Whether these parameters' gradients can be kept as is wanted.
    ///
    /// # Errors
    /// When one's cannot, with its name; and when there is no memory for all of them.
    pub(crate) fn check(&self, parameters: &[Parameter], hook: &dyn CommHook) -> Result<()> {
        self.check_memory(parameters)?;
        if self.rules.device.is_some() {
            self.check_device(parameters, hook)?;
        }
        if self.rules.in_place && self.rules.adopt.is_some() {
            let what = "gradients are either written in place or given with their memory: say one of \
                        Options::in_place and Options::adopt";
            return Err(Error::Argument(what.to_owned()));
        }
        let Some(dtype) = self.rules.dtype else { return Ok(()) };
        let fits = |it: &&Parameter| {
            can_be_reduced_as(it.dtype(), dtype) && can_be_reduced_as(dtype, it.dtype())
        };
        match parameters.iter().find(|it| !fits(it)) {
            None => Ok(()),
            Some(odd) => Err(Error::Argument(format!(
                "gradients of parameter {:?} are of {}, and cannot be reduced as {dtype}: say another dtype \
                 by Options::reduce_as, or none",
                odd.name(),
                odd.dtype()
            ))),
        }
    }

    fn check_memory(&self, parameters: &[Parameter]) -> Result<()> {
        let mut all = 0_usize;
        for parameter in parameters {
            let size = self.rules.dtype.unwrap_or(parameter.dtype()).size();
            let elements =
                parameter.shape().iter().try_fold(1, |all: usize, &it| all.checked_mul(it));
            let bytes = elements.and_then(|elements| elements.checked_mul(size));
            let Some(bytes) = bytes.filter(|bytes| *bytes <= isize::MAX as usize) else {
                let (name, shape) = (parameter.name(), parameter.shape());
                let what =
                    format!("parameter {name:?} of shape {shape:?} is more than can be addressed");
                return Err(Error::Argument(what));
            };
            // Of a table only rows are kept.
            all = all.saturating_add(if parameter.is_sparse() { 0 } else { bytes });
        }
        if self.rules.device.is_some() {
            return Ok(());
        }
        Vec::<u8>::new().try_reserve_exact(all).map_err(|_| {
            Error::Argument(format!("there is no memory for {all} bytes of gradients"))
        })
    }
}

/// What becomes of a parameter for which no gradient came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unused {
    /// If one came on any other rank, it gets the average, with zeroes for the ranks where none came. If
    /// none came anywhere, it has none, and is to be left as it is. Ranks tell each other which came with
    /// one bit for each parameter, behind the last bucket.
    #[default]
    Average,
    /// It is an error on every rank that names the parameters.
    Refuse,
}

impl Options {
    /// Buckets of 1 and then 25 MiB, averaged as they are.
    pub fn new() -> Self {
        Self { settings: Settings::default(), hook: Box::new(Average) }
    }

    /// How large buckets are.
    pub fn caps(mut self, caps: Caps) -> Self {
        self.settings.caps = caps;
        self
    }

    /// What becomes of a parameter for which no gradient came.
    pub fn unused(mut self, unused: Unused) -> Self {
        self.settings.unused = unused;
        self
    }

    /// Says that in every pass the gradient of each parameter comes as often as in the first one that is
    /// averaged, in
    /// parts that are to be added up: for graphs in which a parameter is used in several places that are
    /// differentiated one by one. In the first pass nothing travels before its end.
    pub fn static_graph(mut self) -> Self {
        self.settings.is_static = true;
        self
    }

    /// Keeps and adds up gradients as numbers of this dtype, whatever they are: as `f32` where gradients
    /// of 16 bits would lose too much when they are added.
    pub fn reduce_as(mut self, dtype: Dtype) -> Self {
        self.settings.rules.dtype = Some(dtype);
        self
    }

    /// Sends nothing before backward has ended: for graphs in which backward makes calls of the same group
    /// itself, in an order that is not known.
    pub fn delay(mut self) -> Self {
        self.settings.is_delayed = true;
        self
    }

    /// Gives parameters of so many bytes and more a bucket of their own, for an engine that
    /// [gives away](crate::Pass::ready_owned) the memory of its gradients: they are averaged where they are,
    /// and nothing is copied.
    pub fn adopt(mut self, from_bytes: usize) -> Self {
        self.settings.rules.adopt = Some(from_bytes);
        self
    }

    /// Lets the engine write gradients where they travel by itself, in tensors that it lays over the
    /// buckets: [`Places`](crate::Places) has the rules. It cannot [give away](Self::adopt) others then.
    pub fn in_place(mut self) -> Self {
        self.settings.rules.in_place = true;
        self
    }

    /// Keeps gradients in the memory of this rank's device, where NCCL averages them: each rank of a group says its
    /// own. Gradients come from there by [`Pass::ready_on_device`](crate::Pass::ready_on_device), or from the host
    /// by [`Pass::ready`](crate::Pass::ready); averages are had there by
    /// [`Reduced::copy_to_device`](crate::Reduced::copy_to_device) and
    /// [`Reduced::gradient_on_device`](crate::Reduced::gradient_on_device), or on the host by
    /// [`Reduced::copy_to`](crate::Reduced::copy_to).
    ///
    /// Nobody looks at numbers there but NCCL. So some things are refused, by an error that says what to do
    /// instead: [hooks](Self::hook) that compress, [`reduce_as`](Self::reduce_as) another dtype,
    /// [sparse](Parameter::sparse) parameters, [`adopt`](Self::adopt), and adding up, which is the engine's:
    /// [local passes](crate::Reducer::begin_local) and gradients in [parts](Self::static_graph) are to be had
    /// with [`in_place`](Self::in_place) alone.
    ///
    /// Copies are in order with the device's default stream, and not waited for.
    ///
    /// ```no_run
    /// use consort::Dtype;
    /// use consort::device::Driver;
    /// use consort_train::{Options, Parameter, Reducer};
    ///
    /// let group = consort::init()?;
    /// let device = Driver::load()?.device(group.local_rank() as u16)?;
    /// let parameters = vec![Parameter::new("weight", Dtype::F32, &[1000])];
    /// let reducer = Reducer::new(&group, parameters, Options::new().on_device(device.clone()))?;
    ///
    /// let mut gradient = device.allocate(4000)?; // … which backward computes …
    /// let pass = reducer.begin()?;
    /// pass.ready_on_device(0, Dtype::F32, gradient.source())?;
    /// let averages = pass.finish()?;
    /// averages.copy_to_device(0, gradient.target())?;
    /// # Ok::<(), consort_train::Error>(())
    /// ```
    pub fn on_device(mut self, device: Device) -> Self {
        self.settings.rules.device = Some(device);
        self
    }

    /// [Adopts](Self::adopt), as long as nothing else was said, and gradients are on the host.
    #[cfg(feature = "candle")]
    pub(crate) fn adopt_unless_said(mut self, from_bytes: usize) -> Self {
        if self.settings.rules.device.is_none() {
            self.settings.rules.adopt.get_or_insert(from_bytes);
        }
        self
    }

    /// How buckets are averaged.
    pub fn hook(self, hook: impl CommHook + 'static) -> Self {
        Self { hook: Box::new(hook), ..self }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { settings, hook } = self;
        f.debug_struct("Options").field("settings", settings).field("hook", &hook.name()).finish()
    }
}
