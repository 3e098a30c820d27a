//! The collectives on buffers that the call owns while it is carried out.

use std::sync::Arc;

use consort_store::Deadline;
use consort_sys::dtype::ReduceOp;

use crate::buffer::{Buffer, Input};
use crate::error::Result;
use crate::group::{Group, Rank};
use crate::job::{Job, OwnedCall};
use crate::owned::{self, GivesBack, Single, Whole};
use crate::work::{Begun, Outcome, Work};

/// # Asynchronous collectives
///
/// These return at once and are carried out in the background, by one thread of this process for
/// all groups, or by whoever waits for them. Each takes its buffers and gives them back through a
/// [`Work`]. The calls of a group, blocking ones among them, are carried out in the order in which
/// they are made, which has to be the same on all ranks. The order of calls of *different* groups
/// does not matter.
///
/// The group's [timeout](Self::timeout) counts from when the call is made.
///
/// Buffers that are only borrowed can take part in a [`scope`](Self::scope):
///
/// ```compile_fail,E0277
/// # let group = consort::Builder::new().rank(0).world(1).init()?;
/// let mut numbers = [1.0_f32; 8];
/// let work = group.all_reduce_async(&mut numbers[..], consort::ReduceOp::Sum)?;
/// # work.wait()?;
/// # Ok::<(), consort::Error>(())
/// ```
impl Group {
    /// As [`barrier`](Self::barrier).
    ///
    /// # Errors
    /// When the group cannot make calls at all.
    pub fn barrier_async(&self) -> Result<Work<()>> {
        Ok(self.start(owned::barrier())?)
    }

    /// As [`all_reduce`](Self::all_reduce).
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let work = group.all_reduce_async(vec![0.5_f32, -1.0], consort::ReduceOp::Avg)?;
    /// let averages = work.wait()?;
    /// # assert_eq!(averages, [0.5, -1.0]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the call makes no sense. Nothing is moved, and the group goes on.
    pub fn all_reduce_async<B: Buffer>(&self, buffer: B, op: ReduceOp) -> Begun<B> {
        self.start(owned::all_reduce(buffer, op))
    }

    /// As [`broadcast`](Self::broadcast).
    ///
    /// # Errors
    /// When the call makes no sense. Nothing is moved, and the group goes on.
    pub fn broadcast_async<B: Buffer>(&self, buffer: B, root: impl Into<Rank>) -> Begun<B> {
        self.start(owned::broadcast(buffer, root.into()))
    }

    /// As [`reduce`](Self::reduce).
    ///
    /// # Errors
    /// When the call makes no sense. Nothing is moved, and the group goes on.
    pub fn reduce_async<B: Buffer>(
        &self,
        buffer: B,
        op: ReduceOp,
        root: impl Into<Rank>,
    ) -> Begun<B> {
        self.start(owned::reduce(buffer, op, root.into(), self.rank()))
    }

    /// As [`all_gather`](Self::all_gather).
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let work = group.all_gather_async(vec![3_i64, 4], vec![0; 2 * group.world()])?;
    /// let (mine, everyone) = work.wait()?;
    /// # assert_eq!(everyone, mine);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the call makes no sense. Nothing is moved, and the group goes on.
    pub fn all_gather_async<I, B>(&self, input: I, output: B) -> Begun<(I, B)>
    where
        I: Input,
        B: Buffer<Element = I::Element>,
    {
        self.start(owned::all_gather(input, output))
    }

    /// As [`gather`](Self::gather).
    ///
    /// # Errors
    /// When the call makes no sense. Nothing is moved, and the group goes on.
    pub fn gather_async<I, B>(
        &self,
        input: I,
        output: Option<B>,
        root: impl Into<Rank>,
    ) -> Begun<(I, Option<B>)>
    where
        I: Input,
        B: Buffer<Element = I::Element>,
    {
        self.start(owned::gather(input, output, root.into()))
    }

    /// As [`scatter`](Self::scatter).
    ///
    /// # Errors
    /// When the call makes no sense. Nothing is moved, and the group goes on.
    pub fn scatter_async<I, B>(
        &self,
        input: Option<I>,
        output: B,
        root: impl Into<Rank>,
    ) -> Begun<(Option<I>, B)>
    where
        I: Input,
        B: Buffer<Element = I::Element>,
    {
        self.start(owned::scatter(input, output, root.into()))
    }

    /// As [`reduce_scatter`](Self::reduce_scatter).
    ///
    /// # Errors
    /// When the call makes no sense. Nothing is moved, and the group goes on.
    pub fn reduce_scatter_async<I, B>(&self, input: I, output: B, op: ReduceOp) -> Begun<(I, B)>
    where
        I: Input,
        B: Buffer<Element = I::Element>,
    {
        self.start(owned::reduce_scatter(input, output, op))
    }

    /// As [`all_to_all`](Self::all_to_all).
    ///
    /// # Errors
    /// When the call makes no sense. Nothing is moved, and the group goes on.
    pub fn all_to_all_async<I, B>(&self, input: I, output: B) -> Begun<(I, B)>
    where
        I: Input,
        B: Buffer<Element = I::Element>,
    {
        self.start(owned::all_to_all(input, output))
    }

    /// As [`call`](Self::call), for memory that the call owns.
    ///
    /// # Errors
    /// When the call makes no sense. Nothing is moved, and the group goes on.
    pub fn call_async<C: OwnedCall>(&self, call: C) -> Begun<C> {
        self.start(Whole(call))
    }

    /// Checks a call and has it carried out.
    pub(crate) fn start<C: GivesBack>(&self, mut call: C) -> Begun<C::Buffers> {
        let checked = self
            .backend()
            .cloned()
            .and_then(|backend| Ok((backend, owned::check(&mut call, self.rank(), self.world())?)));
        let (backend, operation) = match checked {
            Ok(checked) => checked,
            Err(error) => return Err(owned::refuse(call, error)),
        };
        let outcome = Arc::new(Outcome::default());
        let errand = Box::new(Single { call, outcome: outcome.clone() });
        let job = Job::new(errand, operation, Deadline::after(self.timeout()));
        let number = backend.submit(job);
        Ok(Work::new(outcome, backend, operation, number))
    }
}
