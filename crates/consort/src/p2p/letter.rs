//! Messages in buffers of their own.

use std::sync::Arc;

use consort_sys::dtype::Element;

use super::{Incoming, Outgoing, Tag};
use crate::buffer::{Buffer, Input};
use crate::commission::{Known, Settle};
use crate::delivery::{Errand, Message, OwnedMessage};
use crate::error::{Error, Result};
use crate::group::Rank;
use crate::work::{Completion, Failed, Outcome};

/// A message that owns its buffer, and what it gives its owner when it has been sent or received.
pub(crate) trait Letter: OwnedMessage {
    /// What it gives back in any case.
    type Buffer: Send + 'static;
    /// What it gives if it succeeds.
    type Gain: Send + 'static;
    fn give_back(self) -> Self::Buffer;
    /// `from` is whose message was received.
    fn gain(self, from: Option<Rank>) -> Self::Gain;
}

/// The error of a message that was not taken, with its buffer.
pub(crate) fn refuse<L: Letter>(letter: L, error: Error) -> Failed<L::Buffer> {
    Failed { error, buffer: letter.give_back() }
}

/// A letter for one who waits.
pub(crate) struct Posted<L: Letter> {
    pub(crate) letter: L,
    pub(crate) outcome: Arc<Outcome<L::Gain, L::Buffer>>,
}

impl<L: Letter> Errand for Posted<L> {
    fn message(&mut self) -> Message<'_> {
        self.letter.message()
    }
}

impl<L: Letter> Settle for Posted<L> {
    type Gain = Option<Rank>;

    fn announce(&mut self, completion: &Completion) {
        self.outcome.announce(completion);
    }

    fn settle(
        self: Box<Self>,
        result: Result<Option<Rank>>,
        completion: Completion,
    ) -> Arc<dyn Known> {
        let Self { letter, outcome } = *self;
        let result = match result {
            Ok(from) => Ok(letter.gain(from)),
            Err(error) => Err(refuse(letter, error)),
        };
        outcome.settle(result, completion);
        outcome
    }
}

/// To be sent.
pub(crate) struct ToRank<I> {
    pub(crate) data: I,
    pub(crate) to: Rank,
    pub(crate) tag: Tag,
}

impl<I: Input> OwnedMessage for ToRank<I> {
    fn message(&mut self) -> Message<'_> {
        let Self { data, to, tag } = self;
        let data = I::Element::source(data.elements());
        Message::Out(Outgoing { dtype: I::Element::DTYPE, data, to: *to, tag: *tag })
    }
}

impl<I: Input> Letter for ToRank<I> {
    type Buffer = I;
    type Gain = I;

    fn give_back(self) -> I {
        self.data
    }

    fn gain(self, _from: Option<Rank>) -> I {
        self.data
    }
}

/// To be received from a rank.
pub(crate) struct FromRank<B> {
    pub(crate) buffer: B,
    pub(crate) from: Rank,
    pub(crate) tag: Tag,
}

impl<B: Buffer> OwnedMessage for FromRank<B> {
    fn message(&mut self) -> Message<'_> {
        incoming(&mut self.buffer, Some(self.from), self.tag)
    }
}

impl<B: Buffer> Letter for FromRank<B> {
    type Buffer = B;
    type Gain = B;

    fn give_back(self) -> B {
        self.buffer
    }

    fn gain(self, _from: Option<Rank>) -> B {
        self.buffer
    }
}

/// To be received from anybody.
pub(crate) struct FromAny<B> {
    pub(crate) buffer: B,
    pub(crate) tag: Tag,
}

impl<B: Buffer> OwnedMessage for FromAny<B> {
    fn message(&mut self) -> Message<'_> {
        incoming(&mut self.buffer, None, self.tag)
    }
}

impl<B: Buffer> Letter for FromAny<B> {
    type Buffer = B;
    type Gain = (B, Rank);

    fn give_back(self) -> B {
        self.buffer
    }

    fn gain(self, from: Option<Rank>) -> (B, Rank) {
        (self.buffer, from.expect("a backend says whose message it received"))
    }
}

/// Gives itself back.
pub(crate) struct Whole<M>(pub(crate) M);

impl<M: OwnedMessage> OwnedMessage for Whole<M> {
    fn message(&mut self) -> Message<'_> {
        self.0.message()
    }
}

impl<M: OwnedMessage> Letter for Whole<M> {
    type Buffer = M;
    type Gain = (M, Option<Rank>);

    fn give_back(self) -> M {
        self.0
    }

    fn gain(self, from: Option<Rank>) -> (M, Option<Rank>) {
        (self.0, from)
    }
}

fn incoming<B: Buffer>(buffer: &mut B, from: Option<Rank>, tag: Tag) -> Message<'_> {
    let buffer = B::Element::target(buffer.elements_mut());
    Message::In(Incoming { dtype: B::Element::DTYPE, buffer, from, tag })
}
