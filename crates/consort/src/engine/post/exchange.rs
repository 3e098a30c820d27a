//! What a thread wants: to send a message, to receive one, or both at once.

use std::fmt;

use consort_sys::dtype::Dtype;
use consort_sys::ring::Envelope;
use consort_sys::view::Target;

use super::outbox::Dispatch;
use crate::p2p::{Incoming, Outgoing};

/// What a thread wants, and how far it has come.
#[derive(Debug)]
pub(crate) struct Exchange<'a> {
    pub(super) departure: Option<Departure<'a>>,
    pub(super) arrival: Option<Arrival<'a>>,
}

impl<'a> Exchange<'a> {
    pub(crate) fn new(outgoing: Option<Outgoing<'a>>, incoming: Option<Incoming<'a>>) -> Self {
        Self { departure: outgoing.map(Departure::new), arrival: incoming.map(Arrival::new) }
    }

    /// Whether a message has begun to move and not ended: nobody else can go on with it.
    pub(super) fn is_under_way(&self) -> bool {
        let departing = self.departure.as_ref().filter(|departure| !departure.done);
        departing.is_some_and(|departure| departure.dispatch.has_begun())
            || self.arrival.as_ref().is_some_and(Arrival::has_begun)
    }
}

/// As errors call it.
impl fmt::Display for Exchange<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (departure, arrival) = (&self.departure, &self.arrival);
        f.write_str(match (departure, arrival) {
            (Some(_), None) => "send of ",
            (None, _) => "recv of ",
            (Some(_), Some(_)) => "send_recv of ",
        })?;
        if let Some(Departure { message: Outgoing { dtype, data, to, tag }, .. }) = departure {
            write!(f, "{} to rank {to} with tag {tag}", contents(*dtype, data.len()))?;
            f.write_str(if arrival.is_some() { ", and of " } else { "" })?;
        }
        if let Some(Arrival { message: Incoming { dtype, buffer, from, tag }, .. }) = arrival {
            f.write_str(&contents(*dtype, buffer.len()))?;
            match from {
                Some(from) => write!(f, " from rank {from} with tag {tag}")?,
                None => write!(f, " from any rank with tag {tag}")?,
            }
        }
        Ok(())
    }
}

/// A message on its way to another rank.
#[derive(Debug)]
pub(super) struct Departure<'a> {
    pub(super) message: Outgoing<'a>,
    pub(super) dispatch: Dispatch,
    pub(super) done: bool,
}

impl<'a> Departure<'a> {
    fn new(message: Outgoing<'a>) -> Self {
        Self { message, dispatch: Dispatch::new(envelope(&message)), done: false }
    }
}

/// A message that is waited for.
#[derive(Debug)]
pub(super) struct Arrival<'a> {
    pub(super) message: Incoming<'a>,
    stage: Stage,
    held_up: bool,
}

/// How far it has come. What does not fit where it is wanted is refused.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stage {
    Awaited,
    Begun { from: usize, refused: Option<Envelope> },
    Ended { from: usize, refused: Option<Envelope> },
}

impl<'a> Arrival<'a> {
    fn new(message: Incoming<'a>) -> Self {
        Self::at(Stage::Awaited, message)
    }

    /// A message that has come so far.
    pub(super) fn at(stage: Stage, message: Incoming<'a>) -> Self {
        Self { message, stage, held_up: false }
    }

    pub(super) fn stage(&self) -> Stage {
        self.stage
    }

    pub(super) fn tag(&self) -> u32 {
        self.message.tag.get()
    }

    /// Whose message it is; `None` while it may be anybody's.
    pub(super) fn source(&self) -> Option<usize> {
        match self.stage {
            Stage::Awaited => self.message.from.map(|rank| rank.index()),
            Stage::Begun { from, .. } | Stage::Ended { from, .. } => Some(from),
        }
    }

    /// Whether it has begun to arrive, and not ended.
    pub(super) fn has_begun(&self) -> bool {
        matches!(self.stage, Stage::Begun { .. })
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.stage, Stage::Ended { .. })
    }

    /// Where it goes, unless it is refused.
    pub(super) fn target(&self) -> Option<Target<'a>> {
        self.refused().is_none().then_some(self.message.buffer)
    }

    /// What came instead of what was wanted.
    pub(super) fn refused(&self) -> Option<Envelope> {
        match self.stage {
            Stage::Awaited => None,
            Stage::Begun { refused, .. } | Stage::Ended { refused, .. } => refused,
        }
    }

    /// Takes notice of a message with the right tag.
    pub(super) fn begin(&mut self, from: usize, envelope: Envelope) {
        let Incoming { dtype, buffer, .. } = self.message;
        let fits = envelope.kind == dtype.code() && envelope.bytes == buffer.len();
        self.stage = Stage::Begun { from, refused: (!fits).then_some(envelope) };
    }

    /// Notes that it waits for a message of others from the same rank, and not for the rank, until
    /// somebody looks again.
    pub(super) fn hold_up(&mut self) {
        self.held_up = true;
    }

    pub(super) fn look_again(&mut self) {
        self.held_up = false;
    }

    pub(super) fn is_held_up(&self) -> bool {
        self.held_up
    }

    pub(super) fn end(&mut self) {
        if let Stage::Begun { from, refused } = self.stage {
            self.stage = Stage::Ended { from, refused };
        }
    }
}

/// What a message says of itself.
pub(super) fn envelope(message: &Outgoing<'_>) -> Envelope {
    let Outgoing { dtype, data, tag, .. } = message;
    Envelope { bytes: data.len(), tag: tag.get(), kind: dtype.code() }
}

/// Elements for people: `3 f32`.
pub(super) fn contents(dtype: Dtype, bytes: usize) -> String {
    format!("{} {dtype}", bytes / dtype.size())
}
