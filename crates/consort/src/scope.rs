//! Asynchronous calls on borrowed buffers.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use consort_sys::dtype::{Element, ReduceOp};
use consort_sys::lend::{Lender, lending};

use crate::error::Result;
use crate::group::{Group, Rank};
use crate::owned::{self, GivesBack};
use crate::p2p::Tag;
use crate::p2p::letter::{FromRank, ToRank};
use crate::work::Work;

/// # Scopes
impl Group {
    /// Lets calls on borrowed buffers go on in the background while `f` does something else, and
    /// waits for all of them before it returns, even if `f` panics.
    ///
    /// ```
    /// use consort::ReduceOp;
    ///
    /// let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let (mut gradients, mut weights) = ([0.5_f32; 64], [1.0_f32; 64]);
    /// let loss = group.scope(|s| {
    ///     s.all_reduce(&mut gradients, ReduceOp::Avg)?;
    ///     s.broadcast(&mut weights, 0)?;
    ///     // … meanwhile …
    ///     Ok(0.25)
    /// })?;
    /// println!("{loss}: {} {}", gradients[0], weights[0]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// Until then the buffers cannot be used:
    ///
    /// ```compile_fail,E0499
    /// # use consort::ReduceOp;
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let mut gradients = [0.5_f32; 64];
    /// group.scope(|s| {
    ///     s.all_reduce(&mut gradients, ReduceOp::Avg)?;
    ///     gradients.fill(0.0);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// and they have to be there before the scope is:
    ///
    /// ```compile_fail,E0597
    /// # use consort::ReduceOp;
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// group.scope(|s| {
    ///     let mut gradients = [0.5_f32; 64];
    ///     s.all_reduce(&mut gradients, ReduceOp::Avg)
    /// })?;
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// Nor can the scope be kept for later:
    ///
    /// ```compile_fail,E0521
    /// # use consort::ReduceOp;
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let mut kept = None;
    /// group.scope(|s| {
    ///     kept = Some(s);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// That of the first call that failed; if none did, that of `f`. [`Error::Argument`](crate::Error::Argument) in a
    /// [hook](crate::Work::on_done) of a call of the group, which cannot wait.
    pub fn scope<'env, R>(
        &self,
        f: impl for<'scope> FnOnce(&Scope<'scope, 'env>) -> Result<R>,
    ) -> Result<R> {
        self.check_can_wait("a scope")?;
        lending(|lender| {
            let scope = Scope { group: self.clone(), lender, works: Mutex::default() };
            let result = f(&scope);
            scope.join()?;
            result
        })
    }
}

/// Where calls on borrowed buffers go on; see [`Group::scope`].
///
/// The methods return at once. They mean what those of [`Group`] mean that are called the same.
///
/// ```
/// use consort::{Element, ReduceOp, Scope};
///
/// /// Begins to average all layers, the last one first.
/// fn average<'scope, T: Element>(
///     scope: &Scope<'scope, '_>,
///     layers: &'scope mut [Vec<T>],
/// ) -> consort::Result<()> {
///     layers.iter_mut().rev().try_for_each(|layer| scope.all_reduce(layer, ReduceOp::Avg))
/// }
///
/// let group = consort::Builder::new().rank(0).world(1).init()?;
/// let mut layers = [vec![1.0_f32; 8], vec![2.0; 4]];
/// group.scope(|s| average(s, &mut layers))?;
/// assert_eq!(layers[1], [2.0; 4]);
/// # Ok::<(), consort::Error>(())
/// ```
pub struct Scope<'scope, 'env: 'scope> {
    group: Group,
    lender: &'scope Lender<'scope, 'env>,
    /// In the order in which they were begun.
    works: Mutex<Vec<Box<dyn Join>>>,
}

impl<'scope> Scope<'scope, '_> {
    /// As [`Group::barrier`].
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// group.scope(|s| {
    ///     s.barrier()?;
    ///     // … while the others come …
    ///     Ok(())
    /// })?;
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the group cannot make calls at all.
    #[track_caller]
    pub fn barrier(&self) -> Result<()> {
        self.start(owned::barrier())
    }

    /// As [`Group::all_reduce`].
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let mut gradients = [0.5_f32; 8];
    /// group.scope(|s| s.all_reduce(&mut gradients, consort::ReduceOp::Sum))?;
    /// assert_eq!(gradients, [0.5 * group.world() as f32; 8]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the call makes no sense. Nothing is moved, and the group goes on.
    #[track_caller]
    pub fn all_reduce<T: Element>(&self, buffer: &'scope mut [T], op: ReduceOp) -> Result<()> {
        self.start(owned::all_reduce(self.lender.lend_mut(buffer), op))
    }

    /// As [`Group::broadcast`].
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let mut weights = [0.25_f32; 8];
    /// group.scope(|s| s.broadcast(&mut weights, 0))?;
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the call makes no sense. Nothing is moved, and the group goes on.
    #[track_caller]
    pub fn broadcast<T: Element>(
        &self,
        buffer: &'scope mut [T],
        root: impl Into<Rank>,
    ) -> Result<()> {
        self.start(owned::broadcast(self.lender.lend_mut(buffer), root.into()))
    }

    /// As [`Group::reduce`].
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let mut loss = [0.5_f64];
    /// group.scope(|s| s.reduce(&mut loss, consort::ReduceOp::Max, 0))?;
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the call makes no sense. Nothing is moved, and the group goes on.
    #[track_caller]
    pub fn reduce<T: Element>(
        &self,
        buffer: &'scope mut [T],
        op: ReduceOp,
        root: impl Into<Rank>,
    ) -> Result<()> {
        let buffer = self.lender.lend_mut(buffer);
        self.start(owned::reduce(buffer, op, root.into(), self.group.rank()))
    }

    /// As [`Group::all_gather`].
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let mut everyone = vec![0_u32; group.world()];
    /// group.scope(|s| s.all_gather(&[7], &mut everyone))?;
    /// assert!(everyone.iter().all(|&number| number == 7));
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the call makes no sense. Nothing is moved, and the group goes on.
    #[track_caller]
    pub fn all_gather<T: Element>(
        &self,
        input: &'scope [T],
        output: &'scope mut [T],
    ) -> Result<()> {
        self.start(owned::all_gather(self.lender.lend(input), self.lender.lend_mut(output)))
    }

    /// As [`Group::gather`].
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let is_root = group.rank().get() == 0;
    /// let mut everyone = vec![0_u8; group.world()];
    /// group.scope(|s| s.gather(&[9], is_root.then_some(&mut everyone[..]), 0))?;
    /// assert_eq!(everyone[0], if is_root { 9 } else { 0 });
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the call makes no sense. Nothing is moved, and the group goes on.
    #[track_caller]
    pub fn gather<T: Element>(
        &self,
        input: &'scope [T],
        output: Option<&'scope mut [T]>,
        root: impl Into<Rank>,
    ) -> Result<()> {
        let output = output.map(|output| self.lender.lend_mut(output));
        self.start(owned::gather(self.lender.lend(input), output, root.into()))
    }

    /// As [`Group::scatter`].
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let batches = vec![3_i32; 2 * group.world()];
    /// let mut mine = [0; 2];
    /// let input = (group.rank().get() == 0).then_some(&batches[..]);
    /// group.scope(|s| s.scatter(input, &mut mine, 0))?;
    /// assert_eq!(mine, [3, 3]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the call makes no sense. Nothing is moved, and the group goes on.
    #[track_caller]
    pub fn scatter<T: Element>(
        &self,
        input: Option<&'scope [T]>,
        output: &'scope mut [T],
        root: impl Into<Rank>,
    ) -> Result<()> {
        let input = input.map(|input| self.lender.lend(input));
        self.start(owned::scatter(input, self.lender.lend_mut(output), root.into()))
    }

    /// As [`Group::reduce_scatter`].
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let gradients = vec![1.0_f32; 4 * group.world()];
    /// let mut shard = [0.0; 4];
    /// group.scope(|s| s.reduce_scatter(&gradients, &mut shard, consort::ReduceOp::Avg))?;
    /// assert_eq!(shard, [1.0; 4]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the call makes no sense. Nothing is moved, and the group goes on.
    #[track_caller]
    pub fn reduce_scatter<T: Element>(
        &self,
        input: &'scope [T],
        output: &'scope mut [T],
        op: ReduceOp,
    ) -> Result<()> {
        let (input, output) = (self.lender.lend(input), self.lender.lend_mut(output));
        self.start(owned::reduce_scatter(input, output, op))
    }

    /// As [`Group::all_to_all`].
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let (tokens, mut received) = (vec![5_u16; group.world()], vec![0; group.world()]);
    /// group.scope(|s| s.all_to_all(&tokens, &mut received))?;
    /// assert_eq!(received[0], 5);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the call makes no sense. Nothing is moved, and the group goes on.
    #[track_caller]
    pub fn all_to_all<T: Element>(
        &self,
        input: &'scope [T],
        output: &'scope mut [T],
    ) -> Result<()> {
        self.start(owned::all_to_all(self.lender.lend(input), self.lender.lend_mut(output)))
    }

    /// As [`Group::send`].
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let mut received = [0_u8; 3];
    /// group.scope(|s| {
    ///     s.send(&[1_u8, 2, 3], 0, 7)?;
    ///     s.recv(&mut received, 0, 7)
    /// })?;
    /// assert_eq!(received, [1, 2, 3]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When there is no such rank.
    pub fn send<T: Element>(
        &self,
        data: &'scope [T],
        to: impl Into<Rank>,
        tag: impl Into<Tag>,
    ) -> Result<()> {
        let data = self.lender.lend(data);
        self.keep(self.group.deliver(ToRank { data, to: to.into(), tag: tag.into() })?);
        Ok(())
    }

    /// As [`Group::recv`].
    ///
    /// # Errors
    /// When there is no such rank.
    pub fn recv<T: Element>(
        &self,
        buffer: &'scope mut [T],
        from: impl Into<Rank>,
        tag: impl Into<Tag>,
    ) -> Result<()> {
        let buffer = self.lender.lend_mut(buffer);
        self.keep(self.group.deliver(FromRank { buffer, from: from.into(), tag: tag.into() })?);
        Ok(())
    }

    #[track_caller]
    fn start(&self, call: impl GivesBack) -> Result<()> {
        self.keep(self.group.start(call)?);
        Ok(())
    }

    fn keep(&self, work: impl Join + 'static) {
        self.works.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(work));
    }

    /// Waits for all of them. The first error counts.
    fn join(self) -> Result<()> {
        let works = self.works.into_inner().unwrap_or_else(PoisonError::into_inner);
        works.into_iter().map(Join::join).fold(Ok(()), Result::and)
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("group", &self.group.name()).finish_non_exhaustive()
    }
}

/// A work, whatever it gives back.
trait Join: Send {
    fn join(self: Box<Self>) -> Result<()>;
}

impl<T: Send, B: Send> Join for Work<T, B> {
    fn join(self: Box<Self>) -> Result<()> {
        self.wait()?;
        Ok(())
    }
}
