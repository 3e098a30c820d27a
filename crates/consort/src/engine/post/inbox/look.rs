//! Looking for a message.

use consort_sys::ring::{Envelope, Progress};

/// Which messages are looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted {
    /// Those with a tag.
    Tag(u32),
    /// Those that the courier waits for.
    Bespoken,
}

impl Wanted {
    pub(super) fn is(self, tag: u32, bespoken: bool) -> bool {
        match self {
            Self::Tag(wanted) => wanted == tag,
            Self::Bespoken => bespoken,
        }
    }
}

/// What came of looking for a message. Some may have been put away.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Looked {
    Found(Found),
    /// It has not come.
    NotYet(Progress),
    /// It may have come, behind one that somebody else takes.
    Behind(Progress),
}

/// A message that is there, or has begun to arrive.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found {
    /// It was put away; its tag.
    Early(u32),
    /// It is at the front of the ring.
    Front(Envelope),
}

impl Found {
    pub(crate) fn tag(self) -> u32 {
        match self {
            Self::Early(tag) => tag,
            Self::Front(envelope) => envelope.tag,
        }
    }
}
