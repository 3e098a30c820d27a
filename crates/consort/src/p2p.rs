//! Messages from one rank to another.

mod asynchronous;
pub(crate) mod letter;

use std::fmt;

use consort_sys::dtype::{Dtype, Element};
use consort_sys::view::{Source, Space, Target};

use crate::call::space;
use crate::error::{Error, Result};
use crate::group::{Group, Rank};

/// What a message is about. A receiver gets the messages with the tag it asks for.
///
/// Programs have those below 2³¹ for themselves; [`permute`](crate::functional::permute) uses others.
///
/// ```
/// use consort::Tag;
///
/// const GRADIENTS: u32 = 1;
/// let tag = Tag::from(GRADIENTS);
/// assert_eq!((tag.get(), tag.to_string()), (1, "1".to_owned()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(u32);

impl Tag {
    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl From<u32> for Tag {
    fn from(number: u32) -> Self {
        Self(number)
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A message to be sent: bytes, and what they mean.
///
/// ```
/// use consort::{Dtype, Group, Outgoing, Source};
///
/// /// Sends what a binding knows only as bytes.
/// fn send_tensor(group: &Group, bytes: &[u8], dtype: Dtype, to: u32) -> consort::Result<()> {
///     let data = Source::from(bytes);
///     group.exchange(Some(Outgoing { dtype, data, to: to.into(), tag: 0.into() }), None)?;
///     Ok(())
/// }
///
/// let group = consort::Builder::new().rank(0).world(1).init()?;
/// send_tensor(&group, &2.5_f64.to_ne_bytes(), Dtype::F64, 0)?;
/// let mut number = [0.0_f64];
/// group.recv(&mut number, 0, 0)?;
/// assert_eq!(number, [2.5]);
/// # Ok::<(), consort::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// What the bytes mean.
    pub dtype: Dtype,
    /// The message.
    pub data: Source<'a>,
    /// Who gets it.
    pub to: Rank,
    /// What it is about.
    pub tag: Tag,
}

/// A message to be received: room for it, and what its bytes have to mean.
///
/// ```
/// use consort::{Dtype, Incoming, Target};
///
/// let group = consort::Builder::new().rank(0).world(1).init()?;
/// group.send(&[258_u16], 0, 5)?;
/// let mut bytes = [0_u8; 2];
/// let buffer = Target::from(&mut bytes[..]);
/// // From anybody.
/// let incoming = Incoming { dtype: Dtype::U16, buffer, from: None, tag: 5.into() };
/// assert_eq!(group.exchange(None, Some(incoming))?, Some(group.rank()));
/// assert_eq!(u16::from_ne_bytes(bytes), 258);
/// # Ok::<(), consort::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// What the bytes mean.
    pub dtype: Dtype,
    /// Where it goes: as long as the message.
    pub buffer: Target<'a>,
    /// Whose message; `None` for anybody's.
    pub from: Option<Rank>,
    /// What it is about.
    pub tag: Tag,
}

/// # Messages
///
/// A message goes from one rank to one other, which has to receive it. Messages are no collectives:
/// the other ranks have no part in them, and threads can send and receive while another thread is
/// in a collective of the same group.
///
/// **Matching.** A receiver gets messages by sender and tag: those with the same tag in the order
/// in which they were sent, those with different tags in whatever order it asks for them. Type and
/// count have to be the sender's; a message of another type or count is thrown away, and the
/// receiver gets [`Error::MessageDiffers`], which says what came. The group goes on then.
///
/// **Buffering.** Each rank has 64 KiB for messages on their way to each other rank. A message of
/// less than 32 KiB is sent at once if it fits there, whether or not somebody waits for it; it takes
/// whole lines of 64 bytes, and one more for the envelope. A longer one begins to move as soon as
/// there is room for some of it, and is done when it was received. So two ranks that both send much
/// before they receive wait for each other in vain: [`send_recv`](Group::send_recv) does both at
/// once, and [`send_async`](Group::send_async) does not wait. While a rank waits for a message, it
/// puts away what else comes from the same rank, in memory of its own: up to 256 MiB from each. What
/// would be more stays with its sender until it is asked for, or until enough of the rest was
/// received; whoever waits for a message behind it waits for that, too. What a rank sends to itself
/// is put away at once, however much it is.
///
/// **Ends.** A call that reaches its [timeout](Group::within) before its message has begun to move
/// has done nothing, and the group goes on. It ends, on all ranks, when a message is cut off in the
/// middle or when a rank that is waited for has died. A message of 32 KiB or more has begun once
/// there was room, whether or not somebody receives it: if nobody does in time, its timeout ends the
/// group. Messages from a rank that has left the group can still be received.
impl Group {
    /// Sends elements to a rank.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// group.send(&[1.0_f32, 2.0], 0, 7)?;
    /// let mut numbers = [0.0_f32; 2];
    /// group.recv(&mut numbers, 0, 7)?;
    /// assert_eq!(numbers, [1.0, 2.0]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Argument`] when there is no such rank; otherwise see [`exchange`](Self::exchange).
    #[inline]
    pub fn send<T: Element>(
        &self,
        data: &[T],
        to: impl Into<Rank>,
        tag: impl Into<Tag>,
    ) -> Result<()> {
        self.exchange(Some(outgoing(data, to.into(), tag.into())), None).map(drop)
    }

    /// Receives elements from a rank: as many as it sent.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// group.send(&[1_u8], 0, 1)?;
    /// group.send(&[2_u8], 0, 2)?;
    /// // By tag, in whatever order.
    /// let mut second = [0_u8];
    /// group.recv(&mut second, 0, 2)?;
    /// assert_eq!(second, [2]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Argument`] when there is no such rank; otherwise see [`exchange`](Self::exchange).
    #[inline]
    pub fn recv<T: Element>(
        &self,
        buffer: &mut [T],
        from: impl Into<Rank>,
        tag: impl Into<Tag>,
    ) -> Result<()> {
        self.exchange(None, Some(incoming(buffer, Some(from.into()), tag.into()))).map(drop)
    }

    /// Receives elements from whichever rank has sent some with this tag, and says from which. If
    /// several have, they take turns.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// group.send(&[3_u8], 0, 7)?;
    /// let mut answer = [0_u8];
    /// assert_eq!(group.recv_any(&mut answer, 7)?, group.rank());
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`exchange`](Self::exchange).
    #[inline]
    pub fn recv_any<T: Element>(&self, buffer: &mut [T], tag: impl Into<Tag>) -> Result<Rank> {
        let from = self.exchange(None, Some(incoming(buffer, None, tag.into())))?;
        Ok(from.expect("a message was received"))
    }

    /// Sends elements to one rank and receives elements from another, or the same, at once: however
    /// much both are, neither has to wait for the other.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let (next, previous) = (0, 0);
    /// let mut theirs = [0_i64; 3];
    /// group.send_recv(&[1_i64, 2, 3], next, &mut theirs, previous, 7)?;
    /// assert_eq!(theirs, [1, 2, 3]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Argument`] when there is no such rank; otherwise see [`exchange`](Self::exchange).
    #[inline]
    pub fn send_recv<T: Element, U: Element>(
        &self,
        data: &[T],
        to: impl Into<Rank>,
        buffer: &mut [U],
        from: impl Into<Rank>,
        tag: impl Into<Tag>,
    ) -> Result<()> {
        let tag = tag.into();
        let outgoing = outgoing(data, to.into(), tag);
        self.exchange(Some(outgoing), Some(incoming(buffer, Some(from.into()), tag))).map(drop)
    }

    /// Sends a message, receives one, or both at once, whose types are known only at run time. Says
    /// whose message was received.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// use consort::{Dtype, Incoming, Outgoing, Source, Target};
    ///
    /// let (dtype, tag) = (Dtype::I16, 3.into());
    /// let (there, mut back) = ([7_u8; 64], [0_u8; 64]);
    /// let (data, buffer) = (Source::from(&there[..]), Target::from(&mut back[..]));
    /// let (to, from) = (group.rank(), Some(group.rank()));
    /// let outgoing = Outgoing { dtype, data, to, tag };
    /// group.exchange(Some(outgoing), Some(Incoming { dtype, buffer, from, tag }))?;
    /// assert_eq!(back, there);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// * [`Error::Argument`]: there is no such rank, or the bytes are not whole elements, or both
    ///   are the same memory. Nothing has moved.
    /// * [`Error::MessageDiffers`]: what came is of another type or count. It is lost.
    /// * [`Error::Left`]: the other rank has left the group.
    /// * [`Error::Late`]: the other rank did not come in time. The group has ended if the message had
    ///   begun to move.
    /// * [`Error::PeerLost`]: the other rank, or when anybody's message is waited for any other
    ///   rank, has died. The group has ended.
    /// * What has ended the group, if it has ended.
    #[inline]
    pub fn exchange(
        &self,
        outgoing: Option<Outgoing<'_>>,
        incoming: Option<Incoming<'_>>,
    ) -> Result<Option<Rank>> {
        let space = self.check_messages(outgoing, incoming)?;
        self.post_for(space)?.exchange(outgoing, incoming, self.timeout())
    }

    fn check_messages(
        &self,
        outgoing: Option<Outgoing<'_>>,
        incoming: Option<Incoming<'_>>,
    ) -> Result<Option<Space>> {
        if let Some(Outgoing { dtype, data, to, .. }) = outgoing {
            self.check_rank(to)?;
            check_whole(dtype, data.len())?;
        }
        if let Some(Incoming { dtype, buffer, from, .. }) = incoming {
            from.map_or(Ok(()), |from| self.check_rank(from))?;
            check_whole(dtype, buffer.len())?;
            if outgoing.is_some_and(|outgoing| overlap(outgoing.data, buffer)) {
                refuse("what is sent and what is received are the same memory".to_owned())?;
            }
        }
        space::of_both(outgoing.map(|it| it.data), incoming.map(|it| it.buffer))
    }

    fn check_rank(&self, rank: Rank) -> Result<()> {
        if rank.index() < self.world() {
            return Ok(());
        }
        refuse(format!("there is no rank {rank} in a group of {}", self.world()))
    }
}

fn outgoing<T: Element>(data: &[T], to: Rank, tag: Tag) -> Outgoing<'_> {
    Outgoing { dtype: T::DTYPE, data: T::source(data), to, tag }
}

fn incoming<T: Element>(buffer: &mut [T], from: Option<Rank>, tag: Tag) -> Incoming<'_> {
    Incoming { dtype: T::DTYPE, buffer: T::target(buffer), from, tag }
}

fn check_whole(dtype: Dtype, bytes: usize) -> Result<()> {
    if bytes.is_multiple_of(dtype.size()) {
        return Ok(());
    }
    refuse(format!("{bytes} bytes are not a whole number of {dtype}"))
}

fn overlap(data: Source<'_>, buffer: Target<'_>) -> bool {
    let (sent, received) = (data.as_ptr().addr(), buffer.as_mut_ptr().addr());
    !data.is_empty()
        && !buffer.is_empty()
        && sent < received + buffer.len()
        && received < sent + data.len()
}

fn refuse(what: String) -> Result<()> {
    Err(Error::Argument(what))
}
