//! What a rank holds of a call that is carried out elsewhere.

mod outcome;
mod prospect;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use consort_store::Deadline;

use crate::backend::Backend;
use crate::engine::waits_for_itself;
use crate::error::{Error, Result};
use crate::home::Home;

pub use self::outcome::Completion;
pub(crate) use self::outcome::Outcome;
pub(crate) use self::prospect::Prospect;

/// An asynchronous call on its way, which gives back what it owns when it is done: a `T` if it
/// succeeded, and its buffers `B` if it failed. Most give the same in both cases.
///
/// It can be [waited](Self::wait) for, asked [whether it is done](Self::is_done), or awaited: it is
/// a plain [`Future`], for any executor. Works can be waited for in any order.
///
/// Dropping it does not end the call, for no rank can leave a call that others are in. The call
/// goes on, and its buffers live until it is done; but only while the process lives. A `main` that
/// returns earlier takes the call with it, and the other ranks get an error: wait for what they need.
///
/// ```
/// use consort::ReduceOp;
///
/// let group = consort::Builder::new().rank(0).world(1).init()?;
/// let work = group.all_reduce_async(vec![1.0_f32; 1024], ReduceOp::Sum)?;
/// // … something else in the meantime …
/// let sums = work.wait()?;
/// assert_eq!(sums.len(), 1024);
/// # Ok::<(), consort::Error>(())
/// ```
///
/// The buffer belongs to the call until then:
///
/// ```compile_fail,E0382
/// # use consort::ReduceOp;
/// # let group = consort::Builder::new().rank(0).world(1).init()?;
/// let numbers = vec![1.0_f32; 1024];
/// let work = group.all_reduce_async(numbers, ReduceOp::Sum)?;
/// println!("{}", numbers[0]);
/// # work.wait()?;
/// # Ok::<(), consort::Error>(())
/// ```
///
/// and whoever throws the work away does not do so by mistake:
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// # use consort::ReduceOp;
/// # fn all(group: &consort::Group) -> Result<(), consort::Error> {
/// group.all_reduce_async(vec![1.0_f32; 1024], ReduceOp::Sum)?;
/// # Ok(())
/// # }
/// ```
#[must_use = "the buffers come back from `wait`; to let the call go on unattended, drop the work"]
pub struct Work<T, B = T> {
    outcome: Arc<Outcome<T, B>>,
    backend: Arc<dyn Backend>,
    operation: &'static str,
    number: u64,
    home: Home,
}

impl<T, B> Work<T, B> {
    pub(crate) fn new(
        outcome: Arc<Outcome<T, B>>,
        backend: Arc<dyn Backend>,
        operation: &'static str,
        number: u64,
        home: Home,
    ) -> Self {
        Self { outcome, backend, operation, number, home }
    }

    /// Waits until the call is done. If nobody has begun with it, this thread carries it out; if it
    /// is a message, this thread sees to it and to the group's other messages meanwhile.
    ///
    /// The time it may take is the group's [timeout](crate::Group::timeout), counted from when the
    /// call was made; when it has passed, the group ends, as in any other call.
    ///
    /// # Errors
    /// Why the call failed, with the buffers. What is in them then is not specified.
    ///
    /// # Panics
    /// When it was [polled](Future::poll) before and was ready then. In a child that was forked from
    /// this process before it was done: the buffers are not there to be given back. In a
    /// [hook](Self::on_done) of another call of the group, if it is not done.
    pub fn wait(self) -> Result<T, Failed<B>> {
        self.assert_can_be_done();
        match self.number {
            _ if self.is_done() => {}
            0 => self.backend.help_with_messages(&|| self.is_done()),
            number => self.backend.help(number),
        }
        self.outcome.wait()
    }

    /// Waits until the call is done, but not longer than this.
    ///
    /// ```
    /// # use consort::{Deadline, ReduceOp};
    /// # use std::time::Duration;
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let mut work = group.barrier_async()?;
    /// loop {
    ///     match work.wait_until(Deadline::after(Duration::from_millis(100))) {
    ///         Ok(done) => break done?,
    ///         Err(not_yet) => work = not_yet,
    ///     }
    ///     println!("still waiting");
    /// }
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// The work itself, if the call is not done by then. The call goes on.
    ///
    /// # Panics
    /// When it was [polled](Future::poll) before and was ready then.
    pub fn wait_until(self, until: Deadline) -> Result<Result<T, Failed<B>>, Self> {
        let until = if self.why_never().is_none() { until } else { Deadline::now() };
        self.outcome.wait_until(until).ok_or(self)
    }

    /// Whether the call is done. Never waits.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let work = group.barrier_async()?;
    /// while !work.is_done() {
    ///     std::thread::yield_now();
    /// }
    /// # Ok::<(), consort::Error>(())
    /// ```
    pub fn is_done(&self) -> bool {
        self.outcome.is_known()
    }

    /// Which of the group's calls it is, from 1. Of several that are carried out as one it is the
    /// first. A message is none of them: 0.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let work = group.barrier_async()?;
    /// assert_eq!((work.number(), work.operation()), (1, "barrier"));
    /// # work.wait()?;
    /// # Ok::<(), consort::Error>(())
    /// ```
    pub fn number(&self) -> u64 {
        self.number
    }

    /// What the call does: `all_reduce`, `send` and so on.
    pub fn operation(&self) -> &'static str {
        self.operation
    }

    /// Calls `hook` when the call is done, before anybody hears of that; at once if it is done
    /// already. It can be used for what has to happen even if nobody waits.
    ///
    /// The hook is called by the thread that completes the call, which has other calls to see to,
    /// perhaps of other groups: it has to be short. It can begin calls, but it must not wait for
    /// any. A call that blocks is refused there with [`Error::Argument`], as it would wait for the
    /// very thread. If the hook panics, that is logged.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let work = group.barrier_async()?;
    /// work.on_done(|call| {
    ///     println!("{} {} took {:?}", call.operation, call.number, call.finished - call.called);
    /// });
    /// work.wait()?;
    /// # Ok::<(), consort::Error>(())
    /// ```
    pub fn on_done(&self, hook: impl FnOnce(&Completion) + Send + 'static) {
        self.outcome.on_done(Box::new(hook));
    }

    fn assert_can_be_done(&self) {
        if let Some(why) = self.why_never() {
            panic!("this {} is never done: {why}", self.operation);
        }
    }

    /// Why there is no use in waiting for it: in a forked child nobody carries it out, and who is
    /// carrying out another call of the group does not come to this one.
    fn why_never(&self) -> Option<Error> {
        match self.home.check() {
            _ if self.is_done() => None,
            Err(forked) => Some(forked),
            Ok(()) => (self.number > 0 && self.backend.is_carried_here())
                .then(|| waits_for_itself(self.operation)),
        }
    }
}

impl<T, B> Future for Work<T, B> {
    type Output = Result<T, Failed<B>>;

    /// # Panics
    /// When it is polled again after it was ready. In a forked child, as [`wait`](Self::wait).
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if !self.home.is_here() {
            self.assert_can_be_done();
        }
        self.outcome.poll(context)
    }
}

impl<T, B> fmt::Debug for Work<T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.is_done() { "done" } else { "on its way" };
        match self.number {
            0 => write!(f, "{}, {state}", self.operation),
            number => write!(f, "call {number}, {}, {state}", self.operation),
        }
    }
}

/// What beginning a call gives: its work, or the error of a call that makes no sense, with its
/// buffers.
pub type Begun<T, B = T> = Result<Work<T, B>, Failed<B>>;

/// Why a call failed, with the buffers that it owned.
///
/// It becomes an [`Error`] by `?` where the buffers are not wanted.
///
/// ```
/// let group = consort::Builder::new().rank(0).world(1).init()?;
/// let failed = group.broadcast_async(vec![1.0_f32; 8], 7).unwrap_err();
/// assert_eq!(failed.to_string(), "broadcast: there is no rank 7 in a group of 1");
/// // The numbers are not lost.
/// let numbers = failed.buffer;
/// assert_eq!(numbers.len(), 8);
/// # Ok::<(), consort::Error>(())
/// ```
pub struct Failed<B> {
    /// What happened.
    pub error: Error,
    /// What the call owned. If it had begun, what is in there is not specified.
    pub buffer: B,
}

impl<B> From<Failed<B>> for Error {
    fn from(failed: Failed<B>) -> Self {
        failed.error
    }
}

impl<B> std::error::Error for Failed<B> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

impl<B> fmt::Display for Failed<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<B> fmt::Debug for Failed<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.error, f)
    }
}
