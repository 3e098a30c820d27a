//! What is needed of a transport.

#[cfg(test)]
pub(super) mod mem;

use consort_sys::view::{Source, Target};

use crate::error::{Error, Result};

/// Ways to all ranks of a group, for the messages of one call. Nothing here waits.
pub(crate) trait Links {
    /// All messages are about to be gone on with once more. What has not come by then need not be
    /// looked for again until the next time.
    fn look_again(&mut self) {}

    /// Goes on with a message to a rank.
    ///
    /// `done` counts the bytes that have moved so far, 0 at first. The message has left when
    /// [`Moved::Whole`] is returned. One without bytes is a message, too.
    fn send(
        &mut self,
        to: usize,
        label: Label,
        parts: &[Source<'_>],
        done: &mut usize,
    ) -> Result<Moved>;

    /// Goes on with a message from a rank, in the same way. Parts may be of
    /// [truths](Target::holds_truths).
    ///
    /// # Errors
    /// A message that is not as long as the parts, among others.
    fn receive(
        &mut self,
        from: usize,
        label: Label,
        parts: &[Target<'_>],
        done: &mut usize,
    ) -> Result<Moved>;

    /// Nothing of what this call asked for could move: puts away what has come and stands in the
    /// way. Whether that moved anything.
    fn make_way(&mut self) -> Result<bool>;

    /// The error for a rank that sends so many bytes where as many others were expected.
    fn differs(&self, from: usize, expected: u64, sent: u64) -> Error;
}

/// Which message of a call it is: the same on both sides, and once only from one rank to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Label {
    /// The track that it travels on.
    pub(crate) track: u16,
    /// Its number among all from the one rank to the other.
    pub(crate) position: u32,
}

impl Label {
    /// No message has it.
    pub(crate) const NONE: Self = Self { track: u16::MAX, position: u32::MAX };
}

/// How far a message has moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// Not at all.
    Nothing,
    /// Further than before.
    Some,
    /// To its end.
    Whole,
}
