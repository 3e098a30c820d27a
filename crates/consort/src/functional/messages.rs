//! Values that are sent from one rank to another.

use consort_sys::dtype::Dtype;

use super::meta::Meta;
use super::moving::copied;
use super::pending::Pending;
use super::ranks::Ranks;
use super::value::{Memory, Value};
use crate::delivery::{Message as Outer, OwnedMessage};
use crate::error::{Error, Result};
use crate::group::{Group, Rank};
use crate::p2p::{Incoming, Outgoing, Tag};

/// Sends a copy of a value to a rank. There is nothing to be had but that it was sent.
///
/// Gradients do not go back through messages: that is what [`permute`](super::permute) is for.
///
/// ```
/// use consort::Dtype;
/// use consort::functional::{Meta, recv, send};
///
/// # let group = consort::Builder::new().rank(0).world(1).init()?;
/// let sent = send(&vec![1.5_f32, 2.5], 0, 7, &group)?;
/// let received = recv::<Vec<f32>>(Meta::new(Dtype::F32, [2]), 0, 7, &group)?;
/// assert_eq!(received.wait()?, [1.5, 2.5]);
/// sent.wait()?;
/// # Ok::<(), consort::Error>(())
/// ```
///
/// # Errors
/// When there is no such rank. What happens later is told by the [`Pending`], as
/// [`Group::exchange`] says.
pub fn send<V: Value>(
    x: &V,
    to: impl Into<Rank>,
    tag: impl Into<Tag>,
    ranks: impl Ranks,
) -> Result<Pending<()>> {
    let meta = x.meta()?;
    send_memory(copied(x, &meta, |view| view)?, meta.dtype, to.into(), tag.into(), &ranks.group()?)
}

/// Receives a value from a rank: of the shape and kind that it was sent with.
///
/// # Errors
/// When there is no such rank. What happens later is told by the [`Pending`], as
/// [`Group::exchange`] says: a message of another kind or another number of elements is lost.
pub fn recv<V: Value>(
    meta: Meta,
    from: impl Into<Rank>,
    tag: impl Into<Tag>,
    ranks: impl Ranks,
) -> Result<Pending<V>> {
    let meta = meta.check_size()?;
    let room = V::Memory::zeroed(meta.dtype, meta.count())?;
    receive(room, meta, from.into(), tag.into(), &ranks.group()?)
}

/// A message that is one of [several](batch).
#[derive(Clone, Debug)]
pub enum Message<'a, V> {
    /// To be sent.
    Out {
        /// What.
        x: &'a V,
        /// To whom.
        to: Rank,
        /// What it is about.
        tag: Tag,
    },
    /// To be received.
    In {
        /// What.
        meta: Meta,
        /// From whom.
        from: Rank,
        /// What it is about.
        tag: Tag,
    },
}

/// Sends and receives several values at once: ranks that send to each other do not wait for each other,
/// however much it is. Gives those that were received, in the order of the list.
///
/// ```
/// use consort::Dtype;
/// use consort::functional::{Message, Meta, batch};
///
/// # let group = consort::Builder::new().rank(0).world(1).init()?;
/// let (next, previous) = (group.rank(), group.rank());
/// let x = vec![7_i64; 1000];
/// let received = batch(
///     &[
///         Message::Out { x: &x, to: next, tag: 1.into() },
///         Message::In { meta: Meta::new(Dtype::I64, [1000]), from: previous, tag: 1.into() },
///     ],
///     &group,
/// )?;
/// assert_eq!(received.wait()?, [x]);
/// # Ok::<(), consort::Error>(())
/// ```
///
/// # Errors
/// As [`send`] and [`recv`]; none was begun then.
pub fn batch<V: Value>(messages: &[Message<'_, V>], ranks: impl Ranks) -> Result<Pending<Vec<V>>> {
    let group = ranks.group()?;
    for message in messages {
        let (Message::Out { to: rank, .. } | Message::In { from: rank, .. }) = message;
        if rank.index() >= group.world() {
            let world = group.world();
            return Err(Error::Argument(format!("there is no rank {rank} in a group of {world}")));
        }
    }
    // All that can be wrong is found before the first of them goes.
    let prepare = |message: &Message<'_, V>| match message {
        Message::Out { x, to, tag } => {
            let meta = x.meta()?;
            let memory = copied(*x, &meta, |view| view)?;
            Ok(Prepared::Out(Out { memory, dtype: meta.dtype, to: *to, tag: *tag }))
        }
        Message::In { meta, from, tag } => {
            let meta = meta.clone().check_size()?;
            let memory = V::Memory::zeroed(meta.dtype, meta.count())?;
            Ok(Prepared::In(In { memory, dtype: meta.dtype, from: *from, tag: *tag }, meta))
        }
    };
    let prepared = messages.iter().map(prepare).collect::<Result<Vec<_>>>()?;
    let begun = prepared.into_iter().map(|message| match message {
        Prepared::Out(out) => Ok(begin_sending(out, &group)?.map(|()| Ok(None))),
        Prepared::In(room, meta) => {
            Ok(begin_receiving(room, meta, &group)?.map(|value: V| Ok(Some(value))))
        }
    });
    let all = Pending::<Option<V>>::all(begun.collect::<Result<Vec<_>>>()?);
    Ok(all.map(|values| Ok(values.into_iter().flatten().collect())))
}

/// A message that can go.
enum Prepared<M> {
    Out(Out<M>),
    In(In<M>, Meta),
}

/// Sends memory that is given away.
pub(super) fn send_memory<M: Memory>(
    memory: M,
    dtype: Dtype,
    to: Rank,
    tag: Tag,
    group: &Group,
) -> Result<Pending<()>> {
    begin_sending(Out { memory, dtype, to, tag }, group)
}

fn begin_sending<M: Memory>(out: Out<M>, group: &Group) -> Result<Pending<()>> {
    let work = group.message_async(out)?;
    Ok(Pending::after(work, |sent| sent.map(drop)))
}

/// Receives a value in memory that is given.
pub(super) fn receive<V: Value>(
    memory: V::Memory,
    meta: Meta,
    from: Rank,
    tag: Tag,
    group: &Group,
) -> Result<Pending<V>> {
    begin_receiving(In { memory, dtype: meta.dtype, from, tag }, meta, group)
}

fn begin_receiving<V: Value>(room: In<V::Memory>, meta: Meta, group: &Group) -> Result<Pending<V>> {
    let work = group.message_async(room)?;
    Ok(Pending::after(work, move |received| Ok(V::from_memory(received?.0.memory, meta))))
}

struct Out<M> {
    memory: M,
    dtype: Dtype,
    to: Rank,
    tag: Tag,
}

impl<M: Memory> OwnedMessage for Out<M> {
    fn message(&mut self) -> Outer<'_> {
        let Self { ref memory, dtype, to, tag } = *self;
        Outer::Out(Outgoing { dtype, data: memory.source(), to, tag })
    }
}

struct In<M> {
    memory: M,
    dtype: Dtype,
    from: Rank,
    tag: Tag,
}

impl<M: Memory> OwnedMessage for In<M> {
    fn message(&mut self) -> Outer<'_> {
        let Self { ref mut memory, dtype, from, tag } = *self;
        Outer::In(Incoming { dtype, buffer: memory.target(), from: Some(from), tag })
    }
}
