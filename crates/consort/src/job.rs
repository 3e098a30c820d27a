//! Calls on their way to whoever carries them out.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use consort_store::Deadline;
use consort_sys::view::{Source, Target};

use crate::call::Call;
use crate::error::{Error, Result};
use crate::work::Completion;

/// A call that owns its memory: the form for bindings that know their types only at run time, for
/// [`Group::call_async`](crate::Group::call_async).
pub trait OwnedCall: Send + 'static {
    /// The call. It is asked for when the call is made, and again when it is carried out; it has
    /// to be the same both times.
    ///
    /// Parts that lie anywhere are put into `lists`, which the call may then refer to.
    fn call<'a>(&'a mut self, lists: &'a mut Lists<'a>) -> Call<'a>;
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
    errand: Option<Box<dyn Errand>>,
    operation: &'static str,
    until: Deadline,
    number: u64,
    called: Instant,
    started: Option<Instant>,
}

/// What a job does, for somebody who waits for it.
pub(crate) trait Errand: Send {
    /// How many calls there are.
    fn count(&self) -> usize;
    /// One of them, counted from 0.
    fn call<'a>(&'a mut self, index: usize, lists: &'a mut Lists<'a>) -> Call<'a>;
    /// Tells those who want to hear of it before it is known.
    fn announce(&mut self, completion: &Completion);
    /// Makes it known, and runs nobody else's code.
    fn settle(self: Box<Self>, result: Result<()>, completion: Completion) -> Arc<dyn Known>;
}

/// What is known, for those who wait for it.
pub(crate) trait Known {
    /// Wakes them.
    fn wake(&self);
}

impl Job {
    pub(crate) fn new(errand: Box<dyn Errand>, operation: &'static str, until: Deadline) -> Self {
        let called = Instant::now();
        Self { errand: Some(errand), operation, until, number: 0, called, started: None }
    }

    /// Says which of the group's calls its first one is, from 1.
    pub fn accept(&mut self, number: u64) {
        self.number = number;
    }

    /// Which of the group's calls its first one is.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// How many calls there are.
    pub fn count(&self) -> usize {
        self.errand().count()
    }

    /// One of the calls, counted from 0, which was checked when it was made.
    pub fn call<'a>(&'a mut self, index: usize, lists: &'a mut Lists<'a>) -> Call<'a> {
        self.started.get_or_insert_with(Instant::now);
        self.errand.as_mut().expect("it is there until the job is finished").call(index, lists)
    }

    /// When it has to be done.
    pub fn deadline(&self) -> Deadline {
        self.until
    }

    /// Says what came of it, and gives the memory back.
    pub fn finish(self, result: Result<()>) {
        self.finish_within(result, |settle| settle());
    }

    /// As [`finish`](Self::finish), with something done in the moment in which it becomes known.
    pub(crate) fn finish_within(
        mut self,
        result: Result<()>,
        within: impl FnOnce(&mut dyn FnMut()),
    ) {
        let Some(mut errand) = self.errand.take() else { return };
        let completion = self.completion(&result);
        errand.announce(&completion);
        let (mut known, mut rest) = (None, Some((errand, result, completion)));
        within(&mut || {
            if let Some((errand, result, completion)) = rest.take() {
                known = Some(errand.settle(result, completion));
            }
        });
        known.into_iter().for_each(|known| known.wake());
    }

    fn completion(&self, result: &Result<()>) -> Completion {
        let finished = Instant::now();
        Completion {
            operation: self.operation,
            number: self.number,
            called: self.called,
            started: self.started.unwrap_or(finished),
            finished,
            error: result.as_ref().err().map(Error::to_string),
        }
    }

    fn errand(&self) -> &dyn Errand {
        self.errand.as_deref().expect("it is there until the job is finished")
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if let Some(mut errand) = self.errand.take() {
            let result = Err(Error::Abandoned { operation: self.operation });
            let completion = self.completion(&result);
            errand.announce(&completion);
            errand.settle(result, completion).wake();
        }
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call {}, {}", self.number, self.operation)
    }
}
