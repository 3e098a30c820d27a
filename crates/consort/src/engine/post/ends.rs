//! Where messages leave for another rank and where they come from it: the ends of a ring, or of
//! something else that keeps them in their order.

#[cfg(test)]
pub(super) mod tests;

use std::fmt;

use consort_sys::arena::ArenaError;
use consort_sys::reach::Unread;
use consort_sys::ring::{self, Envelope, Progress, RingError};
use consort_sys::view::{Source, Target};

/// What leads to another rank.
#[derive(Debug)]
pub(crate) enum Outlet {
    Ring(ring::Outlet),
    Other(Box<dyn Outflow>),
}

/// What leads from another rank.
#[derive(Debug)]
pub(crate) enum Inlet {
    Ring(ring::Inlet),
    Other(Box<dyn Inflow>),
}

/// Takes messages to another rank, one after the other. Nothing here waits: whoever is stuck looks
/// again when it is [rung](crate::engine::sleep::Sleep) for.
pub(crate) trait Outflow: Send + fmt::Debug {
    /// Begins with a message, if it can now. The rank is told what it says of itself, and all of it
    /// has to go before another one begins.
    ///
    /// # Errors
    /// When no message can get there.
    fn begin(&mut self, envelope: Envelope) -> Result<bool, Broken>;

    /// Takes as much of the message that has begun as it can now, but not so much that others are
    /// kept waiting. `data` is all of the message; once that is `Done`, it is not looked at any more.
    ///
    /// # Errors
    /// When no message can get there.
    fn go_on(&mut self, data: Source<'_>) -> Result<Progress, Broken>;

    /// Whether a rank that has left may have received all of the message that has begun.
    fn may_be_done(&mut self) -> bool {
        false
    }
}

/// Gives what another rank sends, one message after the other. Nothing here waits, as above.
pub(crate) trait Inflow: Send + fmt::Debug {
    /// The message that comes next, or is being taken, if it has begun to arrive.
    ///
    /// # Errors
    /// When what comes makes no sense, or nothing comes any more.
    fn front(&mut self) -> Result<Option<Envelope>, Broken>;

    /// Copies what has arrived of the front message to where it belongs in a target as long as the
    /// message, but not so much that others are kept waiting.
    ///
    /// # Errors
    /// As [`front`](Self::front).
    fn take(&mut self, target: Target<'_>) -> Result<Progress, Broken>;

    /// Throws away what has arrived of the front message.
    ///
    /// # Errors
    /// As [`front`](Self::front).
    fn skip(&mut self) -> Result<Progress, Broken>;

    /// Whether something may yet come of a rank that has left.
    fn may_go_on(&mut self) -> bool {
        false
    }
}

/// Why a message cannot be moved.
#[derive(Debug)]
pub(crate) enum Broken {
    /// There is no memory for it.
    Memory(ArenaError),
    /// It could not be read where it is.
    Unread(Unread),
    /// What the other rank has written contradicts itself.
    Damaged(String),
    /// The way there is lost.
    Lost(String),
}

/// How far a message has come on its way through an outlet.
#[derive(Debug)]
pub(super) enum Sending {
    Ahead(Envelope),
    InRing(ring::Sending),
    Begun,
}

impl Sending {
    /// Whether some of it has gone, so that the rest has to follow.
    pub(super) fn has_begun(&self) -> bool {
        match self {
            Self::Ahead(_) => false,
            Self::InRing(sending) => sending.has_begun(),
            Self::Begun => true,
        }
    }

    fn in_ring(&mut self) -> &mut ring::Sending {
        if let Self::Ahead(envelope) = *self {
            *self = Self::InRing(ring::Sending::new(envelope));
        }
        match self {
            Self::InRing(sending) => sending,
            _ => unreachable!("a message goes through one outlet"),
        }
    }
}

impl Outlet {
    /// Sends as much of a message as it can now. One that has begun has to be done before another
    /// one begins.
    pub(super) fn go_on(
        &mut self,
        message: &mut Sending,
        data: Source<'_>,
    ) -> Result<Progress, Broken> {
        match self {
            Self::Ring(outlet) => Ok(outlet.go_on(message.in_ring(), data)?),
            Self::Other(outflow) => {
                let Sending::Ahead(envelope) = *message else { return outflow.go_on(data) };
                if !outflow.begin(envelope)? {
                    return Ok(Progress::Stuck);
                }
                *message = Sending::Begun;
                let progress = outflow.go_on(data)?;
                Ok(if progress == Progress::Stuck { Progress::Moved } else { progress })
            }
        }
    }

    /// Whether a rank that has left may have received all of the message that has begun.
    pub(super) fn may_be_done(&mut self) -> bool {
        match self {
            Self::Ring(_) => false,
            Self::Other(outflow) => outflow.may_be_done(),
        }
    }

    /// Leaves what was sent to whoever has yet to receive it. No more is sent.
    pub(super) fn abandon(&mut self) {
        match self {
            Self::Ring(outlet) => outlet.abandon(),
            // It is not in this rank's memory.
            Self::Other(_) => {}
        }
    }
}

impl Inlet {
    /// Whether messages may be fetched from where their sender has them.
    pub(super) fn may_fetch(&self) -> bool {
        matches!(self, Self::Ring(_))
    }

    /// Whether something may yet come of a rank that has left.
    pub(super) fn may_go_on(&mut self) -> bool {
        match self {
            Self::Ring(_) => false,
            Self::Other(inflow) => inflow.may_go_on(),
        }
    }

    pub(super) fn front(&mut self) -> Result<Option<Envelope>, Broken> {
        match self {
            Self::Ring(inlet) => Ok(inlet.front()?),
            Self::Other(inflow) => inflow.front(),
        }
    }

    pub(super) fn take(&mut self, target: Target<'_>) -> Result<Progress, Broken> {
        match self {
            Self::Ring(inlet) => Ok(inlet.take(target)?),
            Self::Other(inflow) => inflow.take(target),
        }
    }

    pub(super) fn skip(&mut self) -> Result<Progress, Broken> {
        match self {
            Self::Ring(inlet) => Ok(inlet.skip()?),
            Self::Other(inflow) => inflow.skip(),
        }
    }
}

impl From<Box<dyn Outflow>> for Outlet {
    fn from(outflow: Box<dyn Outflow>) -> Self {
        Self::Other(outflow)
    }
}

impl From<Box<dyn Inflow>> for Inlet {
    fn from(inflow: Box<dyn Inflow>) -> Self {
        Self::Other(inflow)
    }
}

impl From<RingError> for Broken {
    fn from(error: RingError) -> Self {
        match error {
            RingError::Memory(error) => Self::Memory(error),
            RingError::Unread(error) => Self::Unread(error),
            RingError::Damaged(what) => Self::Damaged(what),
            other => Self::Lost(other.to_string()),
        }
    }
}

impl From<ArenaError> for Broken {
    fn from(error: ArenaError) -> Self {
        Self::Memory(error)
    }
}
