//! Values that are not there yet.

mod origin;
mod state;
mod wakers;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use self::origin::{All, Then};
pub(super) use self::origin::{Both, Promise};
use self::state::State;
use crate::error::Error;

/// A value that is not there yet: what a call that has begun will give.
///
/// The call goes on by itself. Whoever needs the value waits for it then, and has it from then on:
///
/// ```
/// use consort::ReduceOp;
/// use consort::functional::{Pending, all_reduce};
///
/// # let group = consort::Builder::new().rank(0).world(1).init()?;
/// let sums: Pending<Vec<f32>> = all_reduce(&vec![1.0, 2.0], ReduceOp::Sum, &group)?;
/// // … something else in the meantime …
/// let first = sums.get()?[0]; // waits, if it has to
/// let sums = sums.wait()?; // it is there
/// # assert_eq!((first, sums), (1.0, vec![1.0, 2.0]));
/// # Ok::<(), consort::Error>(())
/// ```
///
/// - It can be **passed on**, also to other threads, and cloned: clones are the same value, and any of them
///   can be waited for.
/// - It can be **looked at in another way** without waiting: [`map`](Self::map) is carried out when the value is
///   used.
/// - It can be **awaited**: it is a plain [`Future`], for any executor.
/// - If the call **fails**, whoever uses the value gets the error, every time.
/// - **Dropping** it, and all its clones, does not end the call, for no rank can leave a call that others are
///   in. The call goes on, and its memory is freed when it is done; but only while the process lives, so wait for
///   what other ranks need before `main` returns.
/// - Collectives of one group **complete in order**; messages, and [`permute`](super::permute) is made of
///   them, when they are there.
///
/// A compiler that finds "no method" for a `Pending` misses a `wait`.
///
/// What is not needed is dropped on purpose, not by mistake:
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// # fn all(group: &consort::Group) -> consort::Result<()> {
/// consort::functional::all_reduce(&vec![1.0_f32], consort::ReduceOp::Sum, group)?;
/// # Ok(())
/// # }
/// ```
///
/// and what is not there cannot be taken for what is:
///
/// ```compile_fail,E0308
/// # fn all(group: &consort::Group) -> consort::Result<()> {
/// let sums: Vec<f32> = consort::functional::all_reduce(&vec![1.0_f32], consort::ReduceOp::Sum, group)?;
/// # Ok(())
/// # }
/// ```
#[must_use = "the value comes from `wait` or `get`; to let the call go on unattended, drop it"]
pub struct Pending<T, E = Error> {
    state: Arc<State<T, E>>,
}

impl<T, E> Pending<T, E>
where
    T: Clone + Send + Sync + 'static,
    E: Clone + From<Error> + Send + Sync + 'static,
{
    /// A value that is there.
    ///
    /// ```
    /// use consort::functional::Pending;
    ///
    /// let known: Pending<_> = Pending::ready(7);
    /// assert!(known.is_done());
    /// assert_eq!(known.wait()?, 7);
    /// # Ok::<(), consort::Error>(())
    /// ```
    pub fn ready(value: T) -> Self {
        Self { state: Arc::new(State::known(value)) }
    }

    /// All of some values, in their order, or the error of the first that fails.
    ///
    /// ```
    /// use consort::functional::Pending;
    ///
    /// let all: Pending<Vec<i32>> = Pending::all([Pending::ready(1), Pending::ready(2)]);
    /// assert_eq!(all.wait()?, [1, 2]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    pub fn all(values: impl IntoIterator<Item = Self>) -> Pending<Vec<T>, E> {
        let values: Vec<Self> = values.into_iter().collect();
        Pending::after(All(values), |values| values)
    }

    /// What is made of something that was promised.
    pub(super) fn after<P>(
        promise: P,
        then: impl FnOnce(P::Output) -> Result<T, E> + Send + 'static,
    ) -> Self
    where
        P: Promise + 'static,
    {
        let prospects = promise.prospects();
        let origin = Box::new(Then::new(promise, then));
        Self { state: Arc::new(State::promised(origin, prospects)) }
    }

    /// The value. Waits until it is there; who waits carries out the call, if nobody else does.
    ///
    /// # Errors
    /// Why the call failed, every time. In a child that was forked from this process, and in a
    /// [hook](crate::Work::on_done) of another call of the group, a value that is not there.
    pub fn get(&self) -> Result<&T, E> {
        self.state.wait()?.as_ref().map_err(E::clone)
    }

    /// The value, in one's own hands. Waits until it is there, as [`get`](Self::get) does. If there are
    /// clones of this, it is a clone of the value.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn wait(self) -> Result<T, E> {
        self.get()?;
        match Arc::try_unwrap(self.state) {
            Ok(state) => state.into_value().expect("it was waited for"),
            Err(shared) => shared.value().expect("it was waited for").clone(),
        }
    }

    /// Whether the value is there, or its call has failed. Never waits.
    pub fn is_done(&self) -> bool {
        self.state.is_done()
    }

    /// What `f` makes of the value: another view of it, a part, another type. Does not wait: it is done when
    /// the new value is used. For several views of one value there are clones.
    ///
    /// ```
    /// use consort::functional::{Array, all_gather};
    ///
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let rows = Array::new([1, 2], vec![3.5_f32, 4.5])?;
    /// let all = all_gather(&rows, 0, &group)?.map(|all| {
    ///     let count = all.numbers().len();
    ///     all.reshape([count])
    /// });
    /// assert_eq!(all.get()?.shape(), [2]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    pub fn map<U>(self, f: impl FnOnce(T) -> Result<U, E> + Send + 'static) -> Pending<U, E>
    where
        U: Clone + Send + Sync + 'static,
    {
        self.map_with(f)
    }

    /// As [`map`](Self::map), with errors of another kind.
    ///
    /// ```
    /// use consort::functional::Pending;
    ///
    /// #[derive(Clone, Debug)]
    /// enum Failure {
    ///     Negative,
    ///     Group(consort::Error),
    /// }
    ///
    /// impl From<consort::Error> for Failure {
    ///     fn from(error: consort::Error) -> Self {
    ///         Self::Group(error)
    ///     }
    /// }
    ///
    /// let square: Pending<f32> = Pending::ready(-4.0);
    /// let root = square.map_with(|x| if x < 0.0 { Err(Failure::Negative) } else { Ok(x.sqrt()) });
    /// assert!(matches!(root.get(), Err(Failure::Negative)));
    /// ```
    pub fn map_with<U, F>(self, f: impl FnOnce(T) -> Result<U, F> + Send + 'static) -> Pending<U, F>
    where
        U: Clone + Send + Sync + 'static,
        F: Clone + From<Error> + From<E> + Send + Sync + 'static,
    {
        Pending::after(self, |value| f(value?))
    }
}

impl<T, E> Future for Pending<T, E>
where
    T: Clone,
    E: Clone + From<Error>,
{
    type Output = Result<T, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.state.poll(context).map(Clone::clone)
    }
}

impl<T, E> Clone for Pending<T, E> {
    fn clone(&self) -> Self {
        Self { state: self.state.clone() }
    }
}

impl<T, E> From<T> for Pending<T, E>
where
    T: Clone + Send + Sync + 'static,
    E: Clone + From<Error> + Send + Sync + 'static,
{
    fn from(value: T) -> Self {
        Self::ready(value)
    }
}

impl<T: fmt::Debug, E: fmt::Debug> fmt::Debug for Pending<T, E> {
    /// Never waits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.state.value() {
            None => f.write_str("Pending(on its way)"),
            Some(Ok(value)) => f.debug_tuple("Pending").field(value).finish(),
            Some(Err(error)) => f.debug_tuple("Pending").field(error).finish(),
        }
    }
}
