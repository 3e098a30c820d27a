//! Messages on their way to whoever carries them out.

use std::fmt;
use std::time::Duration;

use consort_store::Deadline;

use crate::commission::{Commission, Settle};
use crate::error::Result;
use crate::group::Rank;
use crate::p2p::{Incoming, Outgoing};

/// A message to be sent, or one to be received.
#[derive(Clone, Copy, Debug)]
pub enum Message<'a> {
    /// To be sent.
    Out(Outgoing<'a>),
    /// To be received.
    In(Incoming<'a>),
}

/// A message that owns its memory: the form for bindings that know their types only at run time,
/// for [`Group::message_async`](crate::Group::message_async).
pub trait OwnedMessage: Send + 'static {
    /// The message. It is asked for when it is given to the group and whenever it can go on, by
    /// whichever thread sees to it; it has to be the same every time.
    fn message(&mut self) -> Message<'_>;
}

/// A message with the memory that it owns, to be sent or received in the background.
///
/// A [backend](crate::Backend) that is given one carries out its [message](Self::message) and
/// [finishes](Self::finish) it. One that is dropped unfinished has failed.
pub struct Delivery(Commission<dyn Errand>);

/// The message of a delivery.
pub(crate) trait Errand: Settle<Gain = Option<Rank>> {
    fn message(&mut self) -> Message<'_>;
}

impl Delivery {
    pub(crate) fn new(errand: Box<dyn Errand>, operation: &'static str, until: Deadline) -> Self {
        Self(Commission::new(errand, operation, until))
    }

    /// The message, which was checked when it was given to the group.
    pub fn message(&mut self) -> Message<'_> {
        self.0.errand_mut().message()
    }

    /// Says that it has begun to move.
    pub fn begin(&mut self) {
        self.0.begin();
    }

    /// When it has to be done.
    pub fn deadline(&self) -> Deadline {
        self.0.deadline()
    }

    pub(crate) fn operation(&self) -> &'static str {
        self.0.operation()
    }

    /// How long it has been on its way.
    pub(crate) fn elapsed(&self) -> Duration {
        self.0.called().elapsed()
    }

    /// Says what came of it: for a message that was received, whose it is. Gives the memory back.
    pub fn finish(self, result: Result<Option<Rank>>) {
        self.0.finish_within(result, |settle| settle());
    }
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {} on its way", self.0.operation())
    }
}
