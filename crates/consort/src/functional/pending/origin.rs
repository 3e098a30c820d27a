//! Where values come from.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::Pending;
use crate::error::Error;
use crate::work::{Failed, Prospect, Work};

/// Something that will be there, and can be waited for or polled.
pub(in crate::functional) trait Promise: Send {
    type Output;

    /// Waits for it.
    fn wait(self) -> Self::Output;

    /// Asks for it. Once it was there, nobody asks again.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Self::Output>;

    /// Of the calls that it depends on.
    fn prospects(&self) -> Arc<[Prospect]>;
}

/// A promise, without its type, and what becomes of it.
pub(super) trait Origin<T, E>: Send {
    fn wait(self: Box<Self>) -> Result<T, E>;
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<T, E>>;
}

pub(super) struct Then<P, F> {
    promise: P,
    /// `None` when it is done.
    then: Option<F>,
}

impl<P, F> Then<P, F> {
    pub(super) fn new(promise: P, then: F) -> Self {
        Self { promise, then: Some(then) }
    }
}

impl<T, E, P, F> Origin<T, E> for Then<P, F>
where
    P: Promise,
    F: FnOnce(P::Output) -> Result<T, E> + Send,
{
    fn wait(self: Box<Self>) -> Result<T, E> {
        let Self { promise, then } = *self;
        let output = promise.wait();
        then.expect("nobody waits for what was there")(output)
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<T, E>> {
        let output = std::task::ready!(self.promise.poll(context));
        Poll::Ready(self.then.take().expect("nobody asks for what was there")(output))
    }
}

/// The buffers of a call that fails are lost with it.
impl<T: Send + 'static, B: Send + 'static> Promise for Work<T, B> {
    type Output = Result<T, Error>;

    fn wait(self) -> Self::Output {
        Work::wait(self).map_err(Error::from)
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Self::Output> {
        Future::poll(Pin::new(self), context).map_err(|failed: Failed<B>| failed.error)
    }

    fn prospects(&self) -> Arc<[Prospect]> {
        [self.prospect()].into()
    }
}

impl<T, E> Promise for Pending<T, E>
where
    T: Clone + Send + Sync + 'static,
    E: Clone + From<Error> + Send + Sync + 'static,
{
    type Output = Result<T, E>;

    fn wait(self) -> Self::Output {
        Pending::wait(self)
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Self::Output> {
        std::task::ready!(self.state.poll(context));
        Poll::Ready(self.clone().wait())
    }

    fn prospects(&self) -> Arc<[Prospect]> {
        self.state.prospects().clone()
    }
}

/// Two values, which are there when both are.
pub(in crate::functional) struct Both<T, U>(
    pub(in crate::functional) Pending<T>,
    pub(in crate::functional) Pending<U>,
);

impl<T, U> Promise for Both<T, U>
where
    T: Clone + Send + Sync + 'static,
    U: Clone + Send + Sync + 'static,
{
    type Output = Result<(T, U), Error>;

    fn wait(self) -> Self::Output {
        // Both are waited for even if the first fails: what is on its way goes on.
        let (one, other) = (self.0.wait(), self.1.wait());
        Ok((one?, other?))
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Self::Output> {
        let both = (self.0.state.poll(context), self.1.state.poll(context));
        match both {
            (Poll::Ready(one), Poll::Ready(other)) => {
                Poll::Ready(one.clone().and_then(|one| Ok((one, other.clone()?))))
            }
            _ => Poll::Pending,
        }
    }

    fn prospects(&self) -> Arc<[Prospect]> {
        [&self.0.state.prospects()[..], self.1.state.prospects()].concat().into()
    }
}

/// Any number of values of one kind, which are there when all are.
pub(super) struct All<T, E>(pub(super) Vec<Pending<T, E>>);

impl<T, E> Promise for All<T, E>
where
    T: Clone + Send + Sync + 'static,
    E: Clone + From<Error> + Send + Sync + 'static,
{
    type Output = Result<Vec<T>, E>;

    fn wait(self) -> Self::Output {
        // All are waited for even if one fails.
        let values: Vec<_> = self.0.into_iter().map(Pending::wait).collect();
        values.into_iter().collect()
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Self::Output> {
        // Everyone is asked, so that each wakes whoever waits for all.
        let missing = self.0.iter().filter(|value| value.state.poll(context).is_pending()).count();
        if missing > 0 {
            return Poll::Pending;
        }
        Poll::Ready(self.0.drain(..).map(Pending::wait).collect())
    }

    fn prospects(&self) -> Arc<[Prospect]> {
        self.0.iter().flat_map(|value| value.state.prospects().iter().cloned()).collect()
    }
}
