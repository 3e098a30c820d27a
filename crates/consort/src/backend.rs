//! Who carries out a group's calls.

mod fake;
mod host;
mod nccl;

use std::fmt;
use std::panic::Location;
use std::time::Duration;

use consort_sys::dtype::{Dtype, ReduceOp};

pub(crate) use self::fake::Fake;
pub(crate) use self::host::Host;
pub(crate) use self::nccl::{Bell, Missed, Nccl, Part, Side, check_equipment, no_messages};
use crate::call::{Call, Operation, Purpose};
use crate::delivery::Delivery;
use crate::error::{Error, Result};
use crate::group::Rank;
use crate::job::Job;
use crate::p2p::{Incoming, Outgoing};

/// Somebody who carries out a group's calls, whole: this host's shared memory, another library, or
/// somebody who only pretends. Each [group](crate::Group) has one.
///
/// Calls come in by two doors. Through [`run`](Self::run) with memory that is lent, to be done by
/// the caller's thread when it returns; through [`submit`](Self::submit) with memory of their own,
/// to be done later. Calls from both are carried out in the order in which they come. They were
/// checked: a backend can rely on sizes that fit and on ranks that exist.
///
/// Messages have two doors of their own, [`exchange`](Self::exchange) and
/// [`submit_message`](Self::submit_message). They neither wait for calls nor keep them waiting. Of
/// those with the same sender, receiver and tag none overtakes another, whichever door they came
/// through: they are received in the order in which they were sent, by the calls that receive them
/// in the order in which those were made.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use std::time::Duration;
///
/// use consort::{
///     Backend, Call, Capabilities, Delivery, Dtype, Error, Group, Incoming, Job, Lists, Operation,
///     Outgoing, Rank, Result, Terms,
/// };
///
/// /// Has the calls of a group of one rank, which are done when they are counted.
/// #[derive(Debug, Default)]
/// struct Counting {
///     calls: Mutex<u64>,
/// }
///
/// impl Counting {
///     fn carry_out(&self, call: &Call<'_>) -> Result<()> {
///         match call {
///             Call::Barrier | Call::Broadcast { .. } => Ok(()),
///             other => Err(Error::Argument(format!("there is no {} here", other.operation()))),
///         }
///     }
///
///     /// Which call the first of so many is.
///     fn count(&self, more: usize) -> u64 {
///         let mut calls = self.calls.lock().expect("no thread has panicked");
///         *calls += more as u64;
///         *calls - more as u64 + 1
///     }
/// }
///
/// impl Backend for Counting {
///     fn name(&self) -> &'static str {
///         "counting"
///     }
///
///     fn capabilities(&self) -> &Capabilities {
///         const CAN: &Capabilities = &Capabilities {
///             operations: &[Operation::Barrier, Operation::Broadcast],
///             dtypes: &Dtype::ALL,
///             combines: |_, _| false,
///             moves_data: false,
///             abort_reaches_all: false,
///             notices_death: false,
///         };
///         CAN
///     }
///
///     fn run(&self, call: &Call<'_>, _terms: Terms) -> Result<u64> {
///         let number = self.count(1);
///         self.carry_out(call)?;
///         Ok(number)
///     }
///
///     fn submit(&self, mut job: Job) -> u64 {
///         let number = self.count(job.count());
///         job.accept(number);
///         let result = (0..job.count()).try_for_each(|index| {
///             let mut lists = Lists::default();
///             self.carry_out(&job.call(index, &mut lists))
///         });
///         job.finish(result);
///         number
///     }
///
///     fn exchange(
///         &self,
///         _outgoing: Option<Outgoing<'_>>,
///         _incoming: Option<Incoming<'_>>,
///         _timeout: Duration,
///     ) -> Result<Option<Rank>> {
///         Err(Error::Argument("there are no messages here".to_owned()))
///     }
///
///     fn submit_message(&self, delivery: Delivery) {
///         delivery.finish(Err(Error::Argument("there are no messages here".to_owned())));
///     }
///
///     fn abort(&self, _reason: &str) {}
///
///     fn error(&self) -> Option<Error> {
///         None
///     }
///
///     fn calls(&self) -> u64 {
///         *self.calls.lock().expect("no thread has panicked")
///     }
/// }
///
/// let group = Group::fake(0, 1)?.with_backend(Arc::new(Counting::default()));
/// group.barrier()?;
/// let work = group.broadcast_async(vec![1.5_f32], 0)?;
/// assert_eq!((work.number(), work.wait()?), (2, vec![1.5]));
/// assert_eq!((group.backend_name()?, group.calls()), ("counting", 2));
/// # Ok::<(), consort::Error>(())
/// ```
pub trait Backend: Send + Sync + fmt::Debug {
    /// What it is called.
    fn name(&self) -> &'static str;

    /// What it can do.
    fn capabilities(&self) -> &Capabilities;

    /// Carries out a call on this thread, after all that came before it. Says which of the group's
    /// calls it was.
    ///
    /// # Errors
    /// When the call failed. All later ones fail too.
    fn run(&self, call: &Call<'_>, terms: Terms) -> Result<u64>;

    /// Whether it can carry out a call that makes sense otherwise. One on the memory of a device is asked about before
    /// it is [submitted](Self::submit).
    ///
    /// # Errors
    /// When it cannot. The call is not made then.
    fn check(&self, _call: &Call<'_>) -> Result<()> {
        Ok(())
    }

    /// Takes calls to be carried out later, and returns at once. What came of them is said by
    /// [finishing](Job::finish) the job. Returns which of the group's calls the first one is.
    fn submit(&self, job: Job) -> u64;

    /// Sends a message, receives one, or both at once, on this thread, beside whatever calls are
    /// being carried out. Says whose message was received.
    ///
    /// # Errors
    /// As [`Group::exchange`](crate::Group::exchange) says.
    fn exchange(
        &self,
        outgoing: Option<Outgoing<'_>>,
        incoming: Option<Incoming<'_>>,
        timeout: Duration,
    ) -> Result<Option<Rank>>;

    /// Takes a message to be sent or received later, and returns at once. What came of it is said by
    /// [finishing](Delivery::finish) the delivery. Messages that wait for other ranks do not wait
    /// for each other, except to keep their order.
    fn submit_message(&self, delivery: Delivery);

    /// Ends the group: calls and messages that are being carried out and all later ones fail, if
    /// possible on all ranks. Never waits for long.
    fn abort(&self, reason: &str);

    /// Why the group has failed, if it has as far as this rank knows: the error that the next call
    /// would give. Never waits, whatever calls are being carried out.
    fn error(&self) -> Option<Error>;

    /// How many calls came in.
    fn calls(&self) -> u64;

    /// Has this thread carry out calls that were submitted, up to this one, if nobody has begun
    /// with them: it waits for that one anyway.
    fn help(&self, _number: u64) {}

    /// Whether this very thread is carrying out calls that were submitted, and runs a hook or a
    /// buffer of one: it cannot wait for others then.
    fn is_carried_here(&self) -> bool {
        false
    }

    /// Has this thread see to messages that were submitted until `is_done`, which says whether one
    /// of them is: it waits for that one anyway. May return earlier.
    fn help_with_messages(&self, _is_done: &dyn Fn() -> bool) {}
}

/// How a call is to be carried out.
///
/// ```
/// use std::time::Duration;
///
/// let terms = consort::Terms::within(Duration::from_secs(5));
/// assert!(!terms.in_windows);
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Terms {
    /// How long other ranks are waited for.
    pub timeout: Duration,
    /// Whether the operand, which lies in [symmetric memory](crate::symm), is to be worked on
    /// there, even if that takes longer.
    pub in_windows: bool,
    /// If several buffers travel together in this call, a digest of their sizes; if the buffer is a
    /// tensor's, one of its shape. Ranks whose digests differ make different calls. Otherwise 0.
    pub sizes: u32,
    /// What it is for. Ranks that make a call for different purposes make different calls.
    pub purpose: Purpose,
    /// Where the program makes it, if that is known.
    pub site: Option<&'static Location<'static>>,
}

impl Terms {
    /// For a program's call on one buffer, which may lie anywhere.
    pub const fn within(timeout: Duration) -> Self {
        Self { timeout, in_windows: false, sizes: 0, purpose: Purpose::Program, site: None }
    }
}

/// What a [`Backend`] can do.
#[derive(Clone, Copy, Debug)]
pub struct Capabilities {
    /// The operations it has.
    pub operations: &'static [Operation],
    /// The types of numbers it can move.
    pub dtypes: &'static [Dtype],
    /// Whether it can combine numbers of a type in a way.
    pub combines: fn(Dtype, ReduceOp) -> bool,
    /// Whether data gets to the other ranks at all.
    pub moves_data: bool,
    /// Whether an abort on one rank ends the calls of the others.
    pub abort_reaches_all: bool,
    /// Whether a rank that dies is noticed and named.
    pub notices_death: bool,
}

impl Capabilities {
    /// Whether it has an operation, for this type of numbers and combined in this way, as far as
    /// the operation has them.
    ///
    /// ```
    /// use consort::{Dtype, Operation, ReduceOp};
    ///
    /// let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let can = group.capabilities()?;
    /// assert!(can.supports(Operation::AllReduce, Some(Dtype::Bf16), Some(ReduceOp::Sum)));
    /// assert!(!can.supports(Operation::AllReduce, Some(Dtype::F32), Some(ReduceOp::BitXor)));
    /// # Ok::<(), consort::Error>(())
    /// ```
    pub fn supports(
        &self,
        operation: Operation,
        dtype: Option<Dtype>,
        op: Option<ReduceOp>,
    ) -> bool {
        self.operations.contains(&operation)
            && dtype.is_none_or(|dtype| self.dtypes.contains(&dtype))
            && dtype.zip(op).is_none_or(|(dtype, op)| (self.combines)(dtype, op))
    }
}
