//! Tensors that are sent from one rank to another.

use candle_core::{DType, Shape, Tensor};
use consort::functional::{self as values, Ranks};
use consort::{Rank, Tag};

use super::rows::Rows;
use super::{Pending, meta};
use crate::error::Result;

/// Sends a copy of a tensor to a rank. Gradients do not go back through messages: that is what
/// [`permute`](super::permute) is for.
///
/// # Errors
/// When there is no such rank.
pub fn send(
    x: &Tensor,
    to: impl Into<Rank>,
    tag: impl Into<Tag>,
    ranks: impl Ranks,
) -> Result<Pending<()>> {
    Ok(values::send(&Rows(x.clone()), to, tag, ranks)?.map_with(Ok))
}

/// Receives a tensor from a rank: of the shape and dtype that it was sent with.
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use consort_train::candle::functional::{recv, send};
///
/// # fn main() -> consort_train::Result<()> {
/// # let group = consort::Builder::new().rank(0).world(1).init()?;
/// let sent = send(&Tensor::new(&[[1_f32, 2.0]], &Device::Cpu)?, 0, 7, &group)?;
/// let received = recv((1, 2), DType::F32, 0, 7, &group)?;
/// assert_eq!(received.get()?.to_vec2::<f32>()?, [[1.0, 2.0]]);
/// # sent.wait()?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// When there is no such rank.
pub fn recv(
    shape: impl Into<Shape>,
    dtype: DType,
    from: impl Into<Rank>,
    tag: impl Into<Tag>,
    ranks: impl Ranks,
) -> Result<Pending> {
    let pending = values::recv(meta(shape, dtype)?, from, tag, ranks)?;
    Ok(pending.map_with(|Rows(received)| Ok(received)))
}

/// A message that is one of [several](batch).
#[derive(Clone, Debug)]
pub enum Message<'a> {
    /// To be sent.
    Out {
        /// What.
        x: &'a Tensor,
        /// To whom.
        to: Rank,
        /// What it is about.
        tag: Tag,
    },
    /// To be received.
    In {
        /// Of which shape.
        shape: Shape,
        /// Of which dtype.
        dtype: DType,
        /// From whom.
        from: Rank,
        /// What it is about.
        tag: Tag,
    },
}

/// Sends and receives several tensors at once: ranks that send to each other do not wait for each other,
/// however much it is. Gives those that were received, in the order of the list.
///
/// # Errors
/// As [`send`] and [`recv`]; none was begun then.
pub fn batch(messages: &[Message<'_>], ranks: impl Ranks) -> Result<Pending<Vec<Tensor>>> {
    let sent: Vec<Option<Rows>> = messages
        .iter()
        .map(|message| match message {
            Message::Out { x, .. } => Some(Rows((*x).clone())),
            Message::In { .. } => None,
        })
        .collect();
    let mut all = Vec::with_capacity(messages.len());
    for (message, x) in messages.iter().zip(&sent) {
        all.push(match (message, x) {
            (Message::Out { to, tag, .. }, Some(x)) => {
                values::Message::Out { x, to: *to, tag: *tag }
            }
            (Message::In { shape, dtype, from, tag }, _) => {
                let meta = meta(shape.clone(), *dtype)?;
                values::Message::In { meta, from: *from, tag: *tag }
            }
            (Message::Out { .. }, None) => unreachable!("what is sent was noted"),
        });
    }
    let received = values::batch(&all, ranks)?;
    Ok(received.map_with(|tensors| Ok(tensors.into_iter().map(|Rows(tensor)| tensor).collect())))
}
