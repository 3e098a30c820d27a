//! The collectives on buffers that the call owns.

use std::sync::Arc;

use consort_sys::dtype::{Element, ReduceOp};
use consort_sys::view::{Source, Space, Target};

use crate::backend::{Backend, Terms};
use crate::buffer::{Buffer, Input};
use crate::call::{Call, Inputs, Outputs};
use crate::commission::{Known, Settle};
use crate::device::Streams;
use crate::error::{Error, Result};
use crate::group::Rank;
use crate::job::{Errand, Lists, OwnedCall};
use crate::work::{Completion, Failed, Outcome};

/// Buffers, and the call to be made with them.
pub(crate) struct Owned<B, F> {
    pub(crate) buffers: B,
    make: F,
}

impl<B, F> Owned<B, F>
where
    B: Send + 'static,
    F: for<'a> Fn(&'a mut B) -> Call<'a> + Send + 'static,
{
    fn new(buffers: B, make: F) -> Self {
        Self { buffers, make }
    }
}

impl<B, F> OwnedCall for Owned<B, F>
where
    B: Send + 'static,
    F: for<'a> Fn(&'a mut B) -> Call<'a> + Send + 'static,
{
    fn call<'a>(&'a mut self, _lists: &'a mut Lists<'a>) -> Call<'a> {
        (self.make)(&mut self.buffers)
    }
}

/// A call that gives back its buffers when it is done.
pub(crate) trait GivesBack: OwnedCall {
    type Buffers: Send + 'static;
    fn give_back(self) -> Self::Buffers;
}

impl<B, F> GivesBack for Owned<B, F>
where
    B: Send + 'static,
    F: for<'a> Fn(&'a mut B) -> Call<'a> + Send + 'static,
{
    type Buffers = B;

    fn give_back(self) -> B {
        self.buffers
    }
}

/// Gives itself back.
pub(crate) struct Whole<C>(pub(crate) C);

impl<C: OwnedCall> OwnedCall for Whole<C> {
    fn call<'a>(&'a mut self, lists: &'a mut Lists<'a>) -> Call<'a> {
        self.0.call(lists)
    }

    fn terms(&self, terms: Terms) -> Terms {
        self.0.terms(terms)
    }

    fn streams(&mut self) -> Option<&mut Streams> {
        self.0.streams()
    }
}

impl<C: OwnedCall> GivesBack for Whole<C> {
    type Buffers = C;

    fn give_back(mut self) -> C {
        // Whoever still waits for it to be given to a device waits in vain, and hears so.
        drop(self.0.streams().map(std::mem::take));
        self.0
    }
}

/// One call for one who waits.
pub(crate) struct Single<C: GivesBack> {
    pub(crate) call: C,
    pub(crate) outcome: Arc<Outcome<C::Buffers>>,
}

impl<C: GivesBack> Errand for Single<C> {
    fn count(&self) -> usize {
        1
    }

    fn call<'a>(&'a mut self, _index: usize, lists: &'a mut Lists<'a>) -> Call<'a> {
        self.call.call(lists)
    }

    fn terms(&self, _index: usize, terms: Terms) -> Terms {
        self.call.terms(terms)
    }

    fn streams(&mut self, _index: usize) -> Option<&mut Streams> {
        self.call.streams()
    }
}

impl<C: GivesBack> Settle for Single<C> {
    type Gain = ();

    fn announce(&mut self, completion: &Completion) {
        self.outcome.announce(completion);
    }

    fn settle(self: Box<Self>, result: Result<()>, completion: Completion) -> Arc<dyn Known> {
        let Self { call, outcome } = *self;
        outcome.settle(with_buffers(result, call.give_back()), completion);
        outcome
    }
}

/// Whatever came of it, the buffers go back.
pub(crate) fn with_buffers<B>(result: Result<()>, buffer: B) -> Result<B, Failed<B>> {
    match result {
        Ok(()) => Ok(buffer),
        Err(error) => Err(Failed { error, buffer }),
    }
}

pub(crate) fn barrier() -> impl GivesBack<Buffers = ()> {
    Owned::new((), |_| Call::Barrier)
}

pub(crate) fn all_reduce<B: Buffer>(buffer: B, op: ReduceOp) -> impl GivesBack<Buffers = B> {
    Owned::new(buffer, move |buffer| {
        let output = target(buffer);
        Call::AllReduce { dtype: B::Element::DTYPE, op, input: output.into(), output }
    })
}

pub(crate) fn broadcast<B: Buffer>(buffer: B, root: Rank) -> impl GivesBack<Buffers = B> {
    Owned::new(buffer, move |buffer| Call::Broadcast {
        dtype: B::Element::DTYPE,
        root,
        buffer: target(buffer),
    })
}

pub(crate) fn reduce<B: Buffer>(
    buffer: B,
    op: ReduceOp,
    root: Rank,
    me: Rank,
) -> impl GivesBack<Buffers = B> {
    Owned::new(buffer, move |buffer| {
        let buffer = target(buffer);
        let output = (root == me).then_some(buffer);
        Call::Reduce { dtype: B::Element::DTYPE, op, root, input: buffer.into(), output }
    })
}

pub(crate) fn all_gather<I, B>(input: I, output: B) -> impl GivesBack<Buffers = (I, B)>
where
    I: Input,
    B: Buffer<Element = I::Element>,
{
    Owned::new((input, output), |(input, output): &mut (I, B)| Call::AllGather {
        dtype: I::Element::DTYPE,
        input: source(input),
        outputs: Outputs::Equal(target(output)),
    })
}

pub(crate) fn gather<I, B>(
    input: I,
    output: Option<B>,
    root: Rank,
) -> impl GivesBack<Buffers = (I, Option<B>)>
where
    I: Input,
    B: Buffer<Element = I::Element>,
{
    Owned::new((input, output), move |(input, output): &mut (I, Option<B>)| Call::Gather {
        dtype: I::Element::DTYPE,
        root,
        uneven: false,
        input: source(input),
        outputs: output.as_mut().map(|output| Outputs::Equal(target(output))),
    })
}

pub(crate) fn scatter<I, B>(
    input: Option<I>,
    output: B,
    root: Rank,
) -> impl GivesBack<Buffers = (Option<I>, B)>
where
    I: Input,
    B: Buffer<Element = I::Element>,
{
    Owned::new((input, output), move |(input, output): &mut (Option<I>, B)| Call::Scatter {
        dtype: I::Element::DTYPE,
        root,
        uneven: false,
        inputs: input.as_ref().map(|input| Inputs::Equal(source(input))),
        output: target(output),
    })
}

pub(crate) fn reduce_scatter<I, B>(
    input: I,
    output: B,
    op: ReduceOp,
) -> impl GivesBack<Buffers = (I, B)>
where
    I: Input,
    B: Buffer<Element = I::Element>,
{
    Owned::new((input, output), move |(input, output): &mut (I, B)| Call::ReduceScatter {
        dtype: I::Element::DTYPE,
        op,
        inputs: Inputs::Equal(source(input)),
        output: target(output),
    })
}

pub(crate) fn all_to_all<I, B>(input: I, output: B) -> impl GivesBack<Buffers = (I, B)>
where
    I: Input,
    B: Buffer<Element = I::Element>,
{
    Owned::new((input, output), |(input, output): &mut (I, B)| Call::AllToAll {
        dtype: I::Element::DTYPE,
        uneven: false,
        inputs: Inputs::Equal(source(input)),
        outputs: Outputs::Equal(target(output)),
    })
}

fn source<I: Input>(input: &I) -> Source<'_> {
    I::Element::source(input.elements())
}

fn target<B: Buffer>(buffer: &mut B) -> Target<'_> {
    B::Element::target(buffer.elements_mut())
}

/// Whether a rank may make a call that owns its memory. Says what it is called, and which memory it works
/// on, if on any.
pub(crate) fn check(
    call: &mut impl OwnedCall,
    me: Rank,
    world: usize,
) -> Result<(&'static str, Option<Space>)> {
    let mut lists = Lists::default();
    let call = call.call(&mut lists);
    let space = call.check(me, world)?;
    Ok((call.operation().name(), space))
}

/// Whether whoever is to carry out a call can.
///
/// # Errors
/// When it cannot.
pub(crate) fn check_by(backend: &dyn Backend, call: &mut impl OwnedCall) -> Result<()> {
    backend.check(&call.call(&mut Lists::default()))
}

/// The error of a call that was not made, with its buffers.
pub(crate) fn refuse<C: GivesBack>(call: C, error: Error) -> Failed<C::Buffers> {
    Failed { error, buffer: call.give_back() }
}
