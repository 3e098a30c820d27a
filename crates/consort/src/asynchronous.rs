//! The collectives on buffers that the call owns while it is carried out.

use std::sync::Arc;

use consort_store::Deadline;
use consort_sys::dtype::ReduceOp;

use consort_sys::view::Space;

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
/// A call whose [`Work`] is dropped goes on as long as the process lives, even when the last hold on
/// the group is dropped. It does not keep the process alive: before `main` returns, wait for it.
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
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let everyone_is_here = group.barrier_async()?;
    /// // … something else in the meantime …
    /// everyone_is_here.wait()?;
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the group cannot make calls at all.
    #[track_caller]
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
    #[track_caller]
    pub fn all_reduce_async<B: Buffer>(&self, buffer: B, op: ReduceOp) -> Begun<B> {
        self.start(owned::all_reduce(buffer, op))
    }

    /// As [`broadcast`](Self::broadcast).
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let work = group.broadcast_async(vec![0.25_f32; 8], 0)?;
    /// let weights = work.wait()?;
    /// # assert_eq!(weights, [0.25; 8]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the call makes no sense. Nothing is moved, and the group goes on.
    #[track_caller]
    pub fn broadcast_async<B: Buffer>(&self, buffer: B, root: impl Into<Rank>) -> Begun<B> {
        self.start(owned::broadcast(buffer, root.into()))
    }

    /// As [`reduce`](Self::reduce).
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let work = group.reduce_async(vec![0.5_f64], consort::ReduceOp::Max, 0)?;
    /// let worst = work.wait()?;
    /// if group.rank().get() == 0 {
    ///     println!("the largest loss is {}", worst[0]);
    /// }
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the call makes no sense. Nothing is moved, and the group goes on.
    #[track_caller]
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
    #[track_caller]
    pub fn all_gather_async<I, B>(&self, input: I, output: B) -> Begun<(I, B)>
    where
        I: Input,
        B: Buffer<Element = I::Element>,
    {
        self.start(owned::all_gather(input, output))
    }

    /// As [`gather`](Self::gather).
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let room = (group.rank().get() == 0).then(|| vec![0_u8; group.world()]);
    /// let (_, everyone) = group.gather_async(vec![7_u8], room, 0)?.wait()?;
    /// assert_eq!(everyone, Some(vec![7]));
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the call makes no sense. Nothing is moved, and the group goes on.
    #[track_caller]
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
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let batches = (group.rank().get() == 0).then(|| vec![3_u32; 4 * group.world()]);
    /// let (_, mine) = group.scatter_async(batches, vec![0; 4], 0)?.wait()?;
    /// assert_eq!(mine, [3; 4]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the call makes no sense. Nothing is moved, and the group goes on.
    #[track_caller]
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
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let gradients = vec![1.0_f32; 4 * group.world()];
    /// let work = group.reduce_scatter_async(gradients, vec![0.0; 4], consort::ReduceOp::Avg)?;
    /// let (_, shard) = work.wait()?;
    /// assert_eq!(shard, [1.0; 4]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the call makes no sense. Nothing is moved, and the group goes on.
    #[track_caller]
    pub fn reduce_scatter_async<I, B>(&self, input: I, output: B, op: ReduceOp) -> Begun<(I, B)>
    where
        I: Input,
        B: Buffer<Element = I::Element>,
    {
        self.start(owned::reduce_scatter(input, output, op))
    }

    /// As [`all_to_all`](Self::all_to_all).
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let world = group.world();
    /// let (_, from_everyone) = group.all_to_all_async(vec![5_u32; world], vec![0; world])?.wait()?;
    /// assert_eq!(from_everyone[0], 5);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the call makes no sense. Nothing is moved, and the group goes on.
    #[track_caller]
    pub fn all_to_all_async<I, B>(&self, input: I, output: B) -> Begun<(I, B)>
    where
        I: Input,
        B: Buffer<Element = I::Element>,
    {
        self.start(owned::all_to_all(input, output))
    }

    /// As [`call`](Self::call), for memory that the call owns.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// use consort::{Call, Dtype, Lists, OwnedCall, ReduceOp, Target};
    ///
    /// /// Somebody's tensor, and what keeps it alive.
    /// struct Sum {
    ///     dtype: Dtype,
    ///     bytes: Vec<u8>,
    /// }
    ///
    /// impl OwnedCall for Sum {
    ///     fn call<'a>(&'a mut self, _lists: &'a mut Lists<'a>) -> Call<'a> {
    ///         let output = Target::from(&mut self.bytes[..]);
    ///         let (dtype, op, input) = (self.dtype, ReduceOp::Sum, output.into());
    ///         Call::AllReduce { dtype, op, input, output }
    ///     }
    /// }
    ///
    /// let work = group.call_async(Sum { dtype: Dtype::I32, bytes: vec![0; 64] })?;
    /// assert_eq!(work.wait()?.bytes.len(), 64);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the call makes no sense. Nothing is moved, and the group goes on.
    #[track_caller]
    pub fn call_async<C: OwnedCall>(&self, call: C) -> Begun<C> {
        self.start(Whole(call))
    }

    /// Checks a call and has it carried out.
    #[track_caller]
    pub(crate) fn start<C: GivesBack>(&self, mut call: C) -> Begun<C::Buffers> {
        let checked = owned::check(&mut call, self.rank(), self.world());
        let checked = checked.and_then(|(operation, space)| {
            let backend = self.backend_for(space)?;
            if let Some(Space::Device(_)) = space {
                owned::check_by(&**backend, &mut call)?;
            }
            Ok((backend.clone(), operation))
        });
        let (backend, operation) = match checked {
            Ok(checked) => checked,
            Err(error) => return Err(owned::refuse(call, error)),
        };
        let outcome = Arc::new(Outcome::default());
        let errand = Box::new(Single { call, outcome: outcome.clone() });
        let job = Job::new(errand, operation, Deadline::after(self.timeout()));
        let number = backend.submit(job);
        Ok(Work::new(outcome, backend, operation, number, self.shared.job.home))
    }
}
