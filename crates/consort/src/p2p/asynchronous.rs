//! Messages that are sent and received in the background.

use std::sync::Arc;

use consort_store::Deadline;

use super::Tag;
use super::letter::{self, FromAny, FromRank, Letter, Posted, ToRank, Whole};
use crate::backend::Backend;
use crate::buffer::{Buffer, Input};
use crate::delivery::{Delivery, Message, OwnedMessage};
use crate::error::Result;
use crate::group::{Group, Rank};
use crate::work::{Begun, Outcome, Work};

/// # Asynchronous messages
///
/// These return at once; the messages go and come in the background, and each gives its buffer back
/// through a [`Work`]. They are not in the order of the group's collectives: neither waits for the
/// other.
///
/// **Order.** Messages to a rank go in the order in which they are sent, blocking ones among them:
/// a blocking send waits for those before it. Messages from a rank with the same tag go to those who
/// receive them in the order in which they began to, and whoever receives anybody's takes part in
/// that. Receives of different threads are in no order, but one that blocks is behind all that do
/// not.
///
/// **No deadlock.** Ranks can begin to send and to receive as much as they like in whatever order:
///
/// ```
/// # let group = consort::Builder::new().rank(0).world(1).init()?;
/// let everyone = 0..group.world() as u32;
/// let sent: Vec<_> = everyone
///     .clone()
///     .map(|rank| group.send_async(vec![1.5_f32; 1 << 18], rank, 7))
///     .collect::<Result<_, _>>()?;
/// let received: Vec<_> = everyone
///     .map(|rank| group.recv_async(vec![0.0_f32; 1 << 18], rank, 7))
///     .collect::<Result<_, _>>()?;
/// for work in received {
///     assert_eq!(work.wait()?[0], 1.5);
/// }
/// for work in sent {
///     work.wait()?;
/// }
/// # Ok::<(), consort::Error>(())
/// ```
///
/// The group's [timeout](Self::timeout) counts from when the call is made. If the message has not
/// begun to move by then, the call has done nothing, and the group goes on. One of 32 KiB or more has
/// begun once there was room for some of it, received or not: its timeout ends the group. What is on
/// its way when the last hold on the group is dropped goes on; when the process ends, it does not.
impl Group {
    /// As [`send`](Self::send).
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let work = group.send_async(vec![1_u8, 2, 3], 0, 7)?;
    /// // … something else in the meantime …
    /// let data = work.wait()?;
    /// # assert_eq!(data, [1, 2, 3]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When there is no such rank.
    pub fn send_async<I: Input>(
        &self,
        data: I,
        to: impl Into<Rank>,
        tag: impl Into<Tag>,
    ) -> Begun<I> {
        self.deliver(ToRank { data, to: to.into(), tag: tag.into() })
    }

    /// As [`recv`](Self::recv).
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let work = group.recv_async(vec![0_u64; 2], 0, 7)?;
    /// group.send(&[3_u64, 4], 0, 7)?;
    /// assert_eq!(work.wait()?, [3, 4]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When there is no such rank.
    pub fn recv_async<B: Buffer>(
        &self,
        buffer: B,
        from: impl Into<Rank>,
        tag: impl Into<Tag>,
    ) -> Begun<B> {
        self.deliver(FromRank { buffer, from: from.into(), tag: tag.into() })
    }

    /// As [`recv_any`](Self::recv_any).
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let work = group.recv_any_async(vec![0_i32; 2], 7)?;
    /// group.send(&[5, 6], 0, 7)?;
    /// let (numbers, from) = work.wait()?;
    /// # assert_eq!((numbers, from.get()), (vec![5, 6], 0));
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the group cannot exchange messages at all.
    pub fn recv_any_async<B: Buffer>(&self, buffer: B, tag: impl Into<Tag>) -> Begun<(B, Rank), B> {
        self.deliver(FromAny { buffer, tag: tag.into() })
    }

    /// Sends or receives a message whose types are known only at run time. Says whose message was
    /// received.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// use consort::{Dtype, Incoming, Message, OwnedMessage, Rank, Tag, Target};
    ///
    /// /// Room for somebody's tensor.
    /// struct Room {
    ///     dtype: Dtype,
    ///     bytes: Vec<u8>,
    /// }
    ///
    /// impl OwnedMessage for Room {
    ///     fn message(&mut self) -> Message<'_> {
    ///         let buffer = Target::from(&mut self.bytes[..]);
    ///         Message::In(Incoming { dtype: self.dtype, buffer, from: None, tag: Tag::from(7) })
    ///     }
    /// }
    ///
    /// let work = group.message_async(Room { dtype: Dtype::U32, bytes: vec![0; 8] })?;
    /// group.send(&[5_u32, 6], 0, 7)?;
    /// let (room, from) = work.wait()?;
    /// assert_eq!((room.bytes.len(), from), (8, Some(Rank::from(0))));
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When there is no such rank, or the bytes are not whole elements.
    pub fn message_async<M: OwnedMessage>(&self, message: M) -> Begun<(M, Option<Rank>), M> {
        self.deliver(Whole(message))
    }

    /// Checks a message and has it carried out.
    pub(crate) fn deliver<L: Letter>(&self, mut letter: L) -> Begun<L::Gain, L::Buffer> {
        let (backend, operation) = match self.accept(letter.message()) {
            Ok(accepted) => accepted,
            Err(error) => return Err(letter::refuse(letter, error)),
        };
        let outcome = Arc::new(Outcome::default());
        let posted = Box::new(Posted { letter, outcome: outcome.clone() });
        backend.submit_message(Delivery::new(posted, operation, Deadline::after(self.timeout())));
        Ok(Work::new(outcome, backend, operation, 0, self.shared.job.home))
    }

    /// Who carries out a message, and what it is called.
    fn accept(&self, message: Message<'_>) -> Result<(Arc<dyn Backend>, &'static str)> {
        let space = match message {
            Message::Out(outgoing) => self.check_messages(Some(outgoing), None)?,
            Message::In(incoming) => self.check_messages(None, Some(incoming))?,
        };
        let backend = self.post_for(space)?.clone();
        Ok((backend, if matches!(message, Message::Out(_)) { "send" } else { "recv" }))
    }
}
