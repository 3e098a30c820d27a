//! Calls on their way to whoever carries them out.

use std::fmt;
use std::panic::Location;
use std::time::Duration;

use consort_store::Deadline;
use consort_sys::view::{Source, Target};

use crate::backend::Terms;
use crate::call::Call;
use crate::commission::{Commission, Settle};
use crate::device::Streams;
use crate::error::Result;

/// A call that owns its memory: the form for bindings that know their types only at run time, for
/// [`Group::call_async`](crate::Group::call_async).
///
/// ```
/// use consort::{Call, Lists, OwnedCall};
///
/// /// A call that can be made again and again.
/// struct Meet;
///
/// impl OwnedCall for Meet {
///     fn call<'a>(&'a mut self, _lists: &'a mut Lists<'a>) -> Call<'a> {
///         Call::Barrier
///     }
/// }
///
/// let group = consort::Builder::new().rank(0).world(1).init()?;
/// let meet = group.call_async(Meet)?.wait()?;
/// group.call_async(meet)?.wait()?;
/// # Ok::<(), consort::Error>(())
/// ```
pub trait OwnedCall: Send + 'static {
    /// The call. It is asked for when the call is made, and again when it is carried out; it has
    /// to be the same both times.
    ///
    /// Parts that lie anywhere are put into `lists`, which the call may then refer to.
    fn call<'a>(&'a mut self, lists: &'a mut Lists<'a>) -> Call<'a>;

    /// The terms on which it is made, with what else ranks have to agree on: the shapes of the tensors
    /// whose memory this is, as [`Terms::sizes`], and what the call is for. Nothing else, if it is not
    /// said here.
    fn terms(&self, terms: Terms) -> Terms {
        terms
    }

    /// How it fits in with what streams of its device do, if it is on the memory of one and knows of them.
    fn streams(&mut self) -> Option<&mut Streams> {
        None
    }
}

/// Where an [`OwnedCall`] puts its parts, if it has one for each rank.
///
/// ```
/// use consort::{Call, Dtype, Element, Inputs, Lists, Outputs, OwnedCall};
///
/// /// Tokens for each rank, and room for those of each.
/// struct Exchange {
///     to: Vec<Vec<f32>>,
///     from: Vec<Vec<f32>>,
/// }
///
/// impl OwnedCall for Exchange {
///     fn call<'a>(&'a mut self, lists: &'a mut Lists<'a>) -> Call<'a> {
///         lists.inputs.extend(self.to.iter().map(|part| f32::source(part)));
///         lists.outputs.extend(self.from.iter_mut().map(|part| f32::target(part)));
///         Call::AllToAll {
///             dtype: Dtype::F32,
///             uneven: true,
///             inputs: Inputs::List(&lists.inputs),
///             outputs: Outputs::List(&lists.outputs),
///         }
///     }
/// }
///
/// let group = consort::Builder::new().rank(0).world(1).init()?;
/// let exchange = Exchange { to: vec![vec![1.0, 2.0]], from: vec![vec![0.0; 2]] };
/// assert_eq!(group.call_async(exchange)?.wait()?.from, [[1.0, 2.0]]);
/// # Ok::<(), consort::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Lists<'a> {
    /// For [`Inputs::List`](crate::Inputs::List).
    pub inputs: Vec<Source<'a>>,
    /// For [`Outputs::List`](crate::Outputs::List).
    pub outputs: Vec<Target<'a>>,
}

/// One or more calls that are carried out as one, with the memory that they own.
///
/// A [backend](crate::Backend) that is given one [accepts](Self::accept) it, carries out its
/// [calls](Self::call) one after the other until one fails, and [finishes](Self::finish) it. A job
/// that is dropped unfinished has failed.
pub struct Job {
    commission: Commission<dyn Errand>,
    site: &'static Location<'static>,
}

/// The calls of a job.
pub(crate) trait Errand: Settle<Gain = ()> {
    /// How many there are.
    fn count(&self) -> usize;
    /// One of them, counted from 0.
    fn call<'a>(&'a mut self, index: usize, lists: &'a mut Lists<'a>) -> Call<'a>;
    /// The terms on which it is made.
    fn terms(&self, index: usize, terms: Terms) -> Terms;
    /// What it says of streams of its device, if it does.
    fn streams(&mut self, index: usize) -> Option<&mut Streams>;
}

impl Job {
    /// For calls that are made where this is called.
    #[track_caller]
    pub(crate) fn new(errand: Box<dyn Errand>, operation: &'static str, until: Deadline) -> Self {
        let commission = Commission::new(errand, operation, until);
        Self { commission, site: Location::caller() }
    }

    /// Says which of the group's calls its first one is, from 1.
    pub fn accept(&mut self, number: u64) {
        self.commission.accept(number);
    }

    /// Which of the group's calls its first one is.
    pub fn number(&self) -> u64 {
        self.commission.number()
    }

    /// When it was made.
    pub(crate) fn called(&self) -> std::time::Instant {
        self.commission.called()
    }

    /// Where in the program it was made.
    pub(crate) fn site(&self) -> &'static Location<'static> {
        self.site
    }

    /// How many calls there are.
    pub fn count(&self) -> usize {
        self.commission.errand().count()
    }

    /// One of the calls, counted from 0, which was checked when it was made.
    pub fn call<'a>(&'a mut self, index: usize, lists: &'a mut Lists<'a>) -> Call<'a> {
        self.commission.begin();
        self.commission.errand_mut().call(index, lists)
    }

    /// The terms on which one of the calls is made that may wait so long, with all that ranks have to
    /// [agree on](OwnedCall::terms).
    pub fn terms(&self, index: usize, timeout: Duration) -> Terms {
        self.commission.errand().terms(index, Terms::within(timeout))
    }

    /// How one of the calls fits in with what streams of its device do. That is said once.
    pub(crate) fn take_streams(&mut self, index: usize) -> Streams {
        self.commission.errand_mut().streams(index).map(std::mem::take).unwrap_or_default()
    }

    /// When it has to be done.
    pub fn deadline(&self) -> Deadline {
        self.commission.deadline()
    }

    /// Says what came of it, and gives the memory back.
    pub fn finish(self, result: Result<()>) {
        self.finish_within(result, |settle| settle());
    }

    /// As [`finish`](Self::finish), with something done in the moment in which it becomes known.
    pub(crate) fn finish_within(self, result: Result<()>, within: impl FnOnce(&mut dyn FnMut())) {
        self.commission.finish_within(result, within);
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call {}, {}", self.commission.number(), self.commission.operation())
    }
}
