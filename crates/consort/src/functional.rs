//! Collectives on values: what goes in stays as it is, what comes out is new.
//!
//! # The subject
//!
//! The methods of [`Group`](crate::Group) work on memory: they replace what is in a slice. Models are made of
//! values: the output of a layer is a new tensor, which the next one takes. The functions of this module are
//! the same collectives for them. A call takes a value and returns at once; what it gives is [`Pending`], a
//! value that is not there yet. Whoever needs it waits, and nobody else does:
//!
//! ```
//! use consort::ReduceOp;
//! use consort::functional::{Array, all_gather, all_reduce};
//!
//! # let group = consort::Builder::new().rank(0).world(1).init()?;
//! # #[cfg(any())]
//! let group = consort::init()?;
//! let weights = Array::new([2, 3], vec![0.5_f32; 6])?;
//! // The weights of all ranks, side by side: under way from here on …
//! let all = all_gather(&weights, 1, &group)?;
//! // … while something else is computed, and summed, …
//! let loss = all_reduce(&vec![0.25_f32], ReduceOp::Avg, &group)?;
//! // … until they are needed.
//! assert_eq!(all.get()?.shape(), [2, 3 * group.world()]);
//! println!("mean loss {}", loss.get()?[0]);
//! # Ok::<(), consort::Error>(())
//! ```
//!
//! So communication is hidden behind computation by beginning early and using late, and the type says at
//! every place whether a value is there.
//!
//! # The calls
//!
//! | function | shape of the result | |
//! |---|---|---|
//! | [`broadcast`] | the same | the root's value |
//! | [`all_reduce`] | the same | all values combined |
//! | [`reduce`] | the same | the same on the root, zeroes elsewhere |
//! | [`all_gather`] | a dimension × ranks | all values, joined along a dimension |
//! | [`reduce_scatter`] | a dimension ÷ ranks | a part of all values combined |
//! | [`all_to_all`] | the same | a part from everyone |
//! | [`all_to_all_uneven`] | as many rows as come | the same with parts of different sizes |
//! | [`permute`] | the same | somebody else's value |
//! | [`send`], [`recv`], [`batch`] | as it was sent | messages |
//!
//! [`start`] begins any of them, from a [`Collective`], and [`coalesced`] several at once. `…_in_place` gives
//! the memory of the value away, so that it is not copied; `…_out` says which memory the result goes to. Who
//! takes part is a group, some of its ranks, or a dimension of a [mesh](crate::Mesh): see [`Ranks`].
//!
//! Every rank of the group makes the same calls, in the same order, with values of the same shapes and kinds
//! (but for parts that are said to differ), as with all collectives; ranks that do not get
//! [`Error::Mismatch`](crate::Error::Mismatch). Only in [`permute`] ranks are compared by nobody: values travel as
//! messages, and ranks that say other pairs or shapes wait until the timeout, or hear nothing.
//!
//! # Without communication
//!
//! What comes of a call, and what is wrong with it, is known without anybody else: [`Collective::meta`] tells
//! it from the shape and the number of ranks, and is what every call looks at first. So a program of many
//! ranks can be tried out on one, in a [fake group](crate::Group::fake), which counts what
//! [would be sent](crate::Group::traffic). It computes with this rank's own numbers, not with those of all ranks:
//! shapes are right, sums are not. `Group::fake(0, 1)` is one process, whose own numbers are all there are.
//!
//! # Gradients
//!
//! Each of these has a way back for gradients, [`Collective::adjoint`], which is again one of them. With
//! candle tensors they are there already: `consort_train::candle::functional`.
//!
//! # Values
//!
//! `Vec` and [`Array`] are values. A library's tensors become some by [`Value`]: where their numbers lie,
//! and how a tensor is made from memory. They may lie in any order, as in a transposed matrix; they are put
//! in rows on their way, which is the one copy that is made of them.

mod array;
mod begin;
mod collective;
mod messages;
mod meta;
mod moving;
mod on_device;
mod pending;
mod permutation;
mod plan;
mod ranks;
mod value;
mod view;

use consort_sys::dtype::ReduceOp;

pub use self::array::Array;
pub use self::begin::{coalesced, start};
use self::begin::{start_in_place, start_out};
pub use self::collective::{Adjoint, Collective};
pub use self::messages::{Message, batch, recv, send};
pub use self::meta::Meta;
pub use self::on_device::{OnDevice, coalesced_on_device, start_on_device};
pub use self::pending::Pending;
pub use self::ranks::{RankList, Ranks};
pub use self::value::{Memory, Value};
pub use self::view::View;
use crate::error::Result;
use crate::group::Rank;

/// The root's value, on every rank. What the others give only says which shape and kind it has.
///
/// ```
/// # let group = consort::Builder::new().rank(0).world(1).init()?;
/// let seed = consort::functional::broadcast(&vec![7_u64], 0, &group)?;
/// assert_eq!(seed.wait()?, [7]);
/// # Ok::<(), consort::Error>(())
/// ```
///
/// # Errors
/// See [`start`].
#[track_caller]
pub fn broadcast<V: Value>(x: &V, root: impl Into<Rank>, ranks: impl Ranks) -> Result<Pending<V>> {
    start(Collective::Broadcast { root: root.into() }, x, ranks)
}

/// As [`broadcast`], in the memory of the value.
///
/// # Errors
/// See [`start`].
#[track_caller]
pub fn broadcast_in_place<V: Value>(
    x: V,
    root: impl Into<Rank>,
    ranks: impl Ranks,
) -> Result<Pending<V>> {
    start_in_place(Collective::Broadcast { root: root.into() }, x, ranks)
}

/// The combination of all values, on every rank.
///
/// ```
/// use consort::ReduceOp;
/// use consort::functional::all_reduce;
///
/// # let group = consort::Builder::new().rank(0).world(1).init()?;
/// let largest = all_reduce(&vec![0.5_f32, -1.0], ReduceOp::Max, &group)?;
/// assert_eq!(largest.wait()?, [0.5, -1.0]);
/// # Ok::<(), consort::Error>(())
/// ```
///
/// # Errors
/// See [`start`].
#[track_caller]
pub fn all_reduce<V: Value>(x: &V, op: ReduceOp, ranks: impl Ranks) -> Result<Pending<V>> {
    start(Collective::AllReduce { op }, x, ranks)
}

/// As [`all_reduce`], in the memory of the value.
///
/// ```
/// use consort::ReduceOp;
/// use consort::functional::all_reduce_in_place;
///
/// # let group = consort::Builder::new().rank(0).world(1).init()?;
/// let gradients = vec![0.5_f32; 1 << 20];
/// let averages = all_reduce_in_place(gradients, ReduceOp::Avg, &group)?;
/// assert_eq!(averages.wait()?[0], 0.5);
/// # Ok::<(), consort::Error>(())
/// ```
///
/// # Errors
/// See [`start`].
#[track_caller]
pub fn all_reduce_in_place<V: Value>(x: V, op: ReduceOp, ranks: impl Ranks) -> Result<Pending<V>> {
    start_in_place(Collective::AllReduce { op }, x, ranks)
}

/// The combination of all values on the root; zeroes on the others.
///
/// # Errors
/// See [`start`].
#[track_caller]
pub fn reduce<V: Value>(
    x: &V,
    op: ReduceOp,
    root: impl Into<Rank>,
    ranks: impl Ranks,
) -> Result<Pending<V>> {
    start(Collective::Reduce { op, root: root.into() }, x, ranks)
}

/// All values, joined along a dimension in the order of ranks. Single numbers become a row.
///
/// ```
/// use consort::functional::{Array, all_gather};
///
/// # let group = consort::Builder::new().rank(0).world(1).init()?;
/// let columns = Array::new([3, 1], vec![1_u8, 2, 3])?;
/// let table = all_gather(&columns, 1, &group)?;
/// assert_eq!(table.get()?.shape(), [3, group.world()]);
/// # Ok::<(), consort::Error>(())
/// ```
///
/// # Errors
/// See [`start`].
#[track_caller]
pub fn all_gather<V: Value>(x: &V, dim: usize, ranks: impl Ranks) -> Result<Pending<V>> {
    start(Collective::AllGather { dim }, x, ranks)
}

/// As [`all_gather`], in the memory of `out`, which has the shape of the result.
///
/// ```
/// use consort::functional::all_gather_out;
///
/// # let group = consort::Builder::new().rank(0).world(1).init()?;
/// let room = vec![0.0_f32; 2 * group.world()];
/// let all = all_gather_out(&vec![1.0, 2.0], 0, room, &group)?;
/// assert_eq!(all.get()?[..2], [1.0, 2.0]);
/// # Ok::<(), consort::Error>(())
/// ```
///
/// # Errors
/// See [`start`]; and when `out` has another shape or kind.
#[track_caller]
pub fn all_gather_out<V: Value>(
    x: &V,
    dim: usize,
    out: V,
    ranks: impl Ranks,
) -> Result<Pending<V>> {
    start_out(Collective::AllGather { dim }, x, out, ranks)
}

/// This rank's part of the combination of all values, which are cut along a dimension into equal parts.
///
/// ```
/// use consort::ReduceOp;
/// use consort::functional::{Array, reduce_scatter};
///
/// let group = consort::Group::fake(1, 2)?;
/// let gradients = Array::new([2, 4], vec![0.5_f32; 8])?;
/// let mine = reduce_scatter(&gradients, ReduceOp::Avg, 1, &group)?;
/// assert_eq!(mine.get()?.shape(), [2, 2]);
/// # Ok::<(), consort::Error>(())
/// ```
///
/// # Errors
/// See [`start`].
#[track_caller]
pub fn reduce_scatter<V: Value>(
    x: &V,
    op: ReduceOp,
    dim: usize,
    ranks: impl Ranks,
) -> Result<Pending<V>> {
    start(Collective::ReduceScatter { op, dim }, x, ranks)
}

/// As [`reduce_scatter`], in the memory of `out`, which has the shape of the result.
///
/// # Errors
/// See [`start`]; and when `out` has another shape or kind.
#[track_caller]
pub fn reduce_scatter_out<V: Value>(
    x: &V,
    op: ReduceOp,
    dim: usize,
    out: V,
    ranks: impl Ranks,
) -> Result<Pending<V>> {
    start_out(Collective::ReduceScatter { op, dim }, x, out, ranks)
}

/// A part from everyone: each value is cut along dimension 0 into equal parts, of which each rank gets its
/// own, in the order of ranks.
///
/// ```
/// # let group = consort::Builder::new().rank(0).world(1).init()?;
/// let tokens = vec![5_u32; group.world()];
/// let from_everyone = consort::functional::all_to_all(&tokens, &group)?;
/// assert_eq!(from_everyone.wait()?[0], 5);
/// # Ok::<(), consort::Error>(())
/// ```
///
/// # Errors
/// See [`start`].
#[track_caller]
pub fn all_to_all<V: Value>(x: &V, ranks: impl Ranks) -> Result<Pending<V>> {
    start(Collective::AllToAll, x, ranks)
}

/// As [`all_to_all`], with parts of different sizes: `to[r]` rows go to rank r, `from[r]` come from it.
///
/// ```
/// use consort::functional::{Array, all_to_all_uneven};
///
/// # let group = consort::Builder::new().rank(0).world(1).init()?;
/// let tokens = Array::new([3, 2], vec![0.5_f32; 6])?;
/// let mine = all_to_all_uneven(&tokens, &[3], &[3], &group)?;
/// assert_eq!(mine.get()?.shape(), [3, 2]);
/// # Ok::<(), consort::Error>(())
/// ```
///
/// # Errors
/// See [`start`].
#[track_caller]
pub fn all_to_all_uneven<V: Value>(
    x: &V,
    to: &[usize],
    from: &[usize],
    ranks: impl Ranks,
) -> Result<Pending<V>> {
    start(Collective::AllToAllUneven { to: to.to_vec(), from: from.to_vec() }, x, ranks)
}

/// Somebody else's value: each pair has a rank that sends and one that gets what it sends. A rank sends once
/// at the most, and is sent to once at the most; one that nobody sends to gets zeroes.
///
/// All ranks of the group make the call, with the same pairs, but only those of a pair wait for each other:
/// values travel as messages.
///
/// ```
/// use consort::functional::permute;
///
/// # let group = consort::Builder::new().rank(0).world(1).init()?;
/// // Everyone's to the next, in a circle.
/// let world = group.world() as u32;
/// let circle: Vec<_> = (0..world).map(|rank| (rank, (rank + 1) % world)).collect();
/// let previous = permute(&vec![group.rank().as_f32()], &circle, &group)?;
/// # assert_eq!(previous.wait()?, [0.0]);
/// # Ok::<(), consort::Error>(())
/// ```
///
/// # Errors
/// See [`start`].
#[track_caller]
pub fn permute<V: Value>(x: &V, pairs: &[(u32, u32)], ranks: impl Ranks) -> Result<Pending<V>> {
    let pairs = pairs.iter().map(|&(from, to)| (from.into(), to.into())).collect();
    start(Collective::Permute { pairs }, x, ranks)
}

/// As [`all_reduce`], for several values that are given at once.
///
/// ```
/// use consort::ReduceOp;
/// use consort::functional::all_reduce_coalesced;
///
/// # let group = consort::Builder::new().rank(0).world(1).init()?;
/// let (weights, bias) = (vec![0.5_f32; 64], vec![0.1; 8]);
/// let averages = all_reduce_coalesced(&[&weights, &bias], ReduceOp::Avg, &group)?;
/// assert_eq!(averages.get()?[1].len(), 8);
/// # Ok::<(), consort::Error>(())
/// ```
///
/// # Errors
/// See [`coalesced`].
#[track_caller]
pub fn all_reduce_coalesced<V: Value>(
    xs: &[&V],
    op: ReduceOp,
    ranks: impl Ranks,
) -> Result<Pending<Vec<V>>> {
    let calls = xs.iter().map(|&x| (Collective::AllReduce { op }, x));
    coalesced(&calls.collect::<Vec<_>>(), ranks)
}

/// As [`all_gather`], for several values that are given at once, each with its dimension.
///
/// # Errors
/// See [`coalesced`].
#[track_caller]
pub fn all_gather_coalesced<V: Value>(
    xs: &[(&V, usize)],
    ranks: impl Ranks,
) -> Result<Pending<Vec<V>>> {
    let calls = xs.iter().map(|&(x, dim)| (Collective::AllGather { dim }, x));
    coalesced(&calls.collect::<Vec<_>>(), ranks)
}

/// As [`reduce_scatter`], for several values that are given at once, each with its dimension.
///
/// # Errors
/// See [`coalesced`].
#[track_caller]
pub fn reduce_scatter_coalesced<V: Value>(
    xs: &[(&V, usize)],
    op: ReduceOp,
    ranks: impl Ranks,
) -> Result<Pending<Vec<V>>> {
    let calls = xs.iter().map(|&(x, dim)| (Collective::ReduceScatter { op, dim }, x));
    coalesced(&calls.collect::<Vec<_>>(), ranks)
}
