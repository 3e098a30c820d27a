//! Collectives on candle's tensors, with gradients.
//!
//! # The subject
//!
//! Data-parallel training has the whole model on every rank. Where a model is too large for that, or too
//! slow, its layers are parted among ranks, and what the ranks compute has to be put together inside of the
//! forward, and its gradient to be taken apart again inside of the backward. These functions do both. A
//! tensor goes in, and what comes out is [`Pending`]: a tensor that is under way, and waited for when it is
//! used. Its backward is the call that takes the gradient back.
//!
//! ```
//! use candle_core::{Device, Tensor, Var};
//! use consort::ReduceOp;
//! use consort_train::candle::functional::{all_reduce, backward};
//!
//! # fn main() -> consort_train::Result<()> {
//! # let group = consort::Builder::new().rank(0).world(1).init()?;
//! # #[cfg(any())]
//! let group = consort::init()?;
//! // Every rank has some of a layer's inputs, and the rows of its weights that belong to them.
//! let x = Tensor::new(&[[1_f32, 2.0]], &Device::Cpu)?;
//! let weights = Var::new(&[[0.5_f32], [0.25]], &Device::Cpu)?;
//! // The layer's output is the sum of what they make of them.
//! let y = all_reduce(&x.matmul(&weights)?, ReduceOp::Sum, &group)?;
//! let loss = (y.wait()?.sqr()?.sum_all()? / group.world() as f64)?;
//! let gradients = backward(&loss)?;
//! assert_eq!(gradients.get(&weights).unwrap().to_vec2::<f32>()?, [[2.0], [4.0]]);
//! # Ok(())
//! # }
//! ```
//!
//! # Whose loss
//!
//! Every rank computes a loss and calls backward on it. What is differentiated is **the sum of all ranks'
//! losses**: the gradient of a value is how that sum changes with it, on whichever ranks it has a part. Where
//! the ranks of a group compute the same loss from the same value, as with parted layers, the sum has it as
//! many times as there are ranks: each divides by their number, as above. Then gradients are those of one
//! process with the whole model.
//!
//! **Every variable that all ranks have alike goes through [`replicate`]**, wherever it is used: a bias that is
//! added after the sum, a norm, an embedding. Every rank finds only its share of such a variable's gradient, and
//! `replicate` adds them up. Without it, where the loss is divided by the ranks, the gradient is one rank's
//! share. What came out of a call does not go through it: that call's backward adds up already, and the gradient
//! would be counted once for each rank.
//!
//! | forward | backward |
//! |---|---|
//! | [`all_reduce`] of sums, averages, premultiplied sums | the same of the gradients |
//! | [`all_gather`] | [`reduce_scatter`] of sums |
//! | [`reduce_scatter`] of sums or averages | [`all_gather`], divided for averages |
//! | [`broadcast`] | [`reduce`] to the root, zeroes elsewhere: only the root's value has a part in it |
//! | [`reduce`] of sums or averages | [`broadcast`] |
//! | [`all_to_all`], [`permute`] | the way back |
//! | [`replicate`]: nothing | [`all_reduce`] of sums |
//!
//! The greatest or least of all has no gradient here, nor has the product: with a tensor whose gradient is
//! wanted that is an error of the forward, which says what to do. What goes in
//! [detached](candle_core::Tensor::detach) has none, and neither have whole numbers.
//!
//! # Who takes part
//!
//! The last argument of each call says who, as in [`consort::functional`]:
//!
//! | given | who |
//! |---|---|
//! | `&group` | all its ranks |
//! | `(&group, &[0, 2])` | these ranks of it; only they make the call |
//! | `(&group, &[[0, 1], [2, 3]])` | those on the list that this rank is on |
//! | `&mesh` | all ranks of a mesh of one dimension |
//! | `(&mesh, "tensor")` | the ranks along a dimension that this rank is among |
//!
//! [`DistributedDataParallel`](super::DistributedDataParallel) goes around it: it gives all ranks of its group the
//! weights of the group's rank 0, and averages their gradients. So it is given the group along which ranks have
//! the *same* part, `mesh.group("data")?`, and never the world, where weights are parted.
//!
//! # What all ranks have to do alike
//!
//! The backward of a call is a call of the group, and every rank has to make it. So a result has to have a
//! part in the loss on every rank, and what goes in has to have a gradient on all ranks or on none; a rank
//! that has nothing but a placeholder to give, as in a [`broadcast`] from elsewhere, gives a
//! [`Var`]. Candle goes through the graph in an order that depends on nothing but the graph,
//! so ranks that compute alike make the same calls in the same order. Those that do not hear of it from the
//! group: calls that differ are an error on every rank that shows both. Only those of [`permute`] are compared by
//! nobody: tensors travel as messages, and ranks that say other pairs or shapes wait until the timeout, or hear
//! nothing.
//!
//! # What is waited for
//!
//! Forward, nothing but what is used. Backward, each gradient, because candle needs it to go on; but not
//! those of variables, if backward is called by [`backward`]: they travel while it goes on. Candle's own
//! `loss.backward()` is right too, only it waits for them.
//!
//! # What is kept
//!
//! A tensor that came out of a call, and whatever was computed from it, holds the group while its graph lives:
//! the way back is part of it. What is kept longer than a step, such as a loss for the log, is
//! [detached](candle_core::Tensor::detach) first.
//!
//! # On CUDA devices
//!
//! With the feature `cuda` tensors of CUDA devices are taken where they are, and what comes out is on the same device:
//!
//! | | on a device |
//! |---|---|
//! | [`all_reduce`], [`broadcast`], [`reduce`], [`all_gather`], [`reduce_scatter`], [`all_to_all`], [`all_to_all_uneven`], their gradients, [`replicate`] | there, by NCCL |
//! | along another dimension than the first | the same; candle lays numbers out before [`reduce_scatter`] and after [`all_gather`] |
//! | [`permute`] | by way of the host, and back to the device |
//! | [`send`], [`batch`] | by way of the host; what was received is on the host |
//! | [`coalesced`] forms | as one, if all tensors are on devices |
//! | reductions of bits, or of `i16` | refused: NCCL has none |
//! | fake groups | refused: they have no devices |
//!
//! A call on a device copies its tensor once to memory that consort has there, and the result once from there. That
//! memory is allocated for the call, and given back after it.
//!
//! # What is copied
//!
//! A tensor is copied once on its way in, and what comes out is candle's own memory. One whose last stride is
//! not 1, such as a transposed matrix, is laid out by candle first, which is one copy more. What is joined along
//! another dimension than the first is copied once more when it is used, and [`reduce_scatter`] along any
//! dimension is packed in that first copy. In-place and out forms are for variables: their numbers are replaced
//! when the result is used.

mod begin;
mod deferred;
mod messages;
#[cfg_attr(not(feature = "cuda"), path = "functional/no_device.rs")]
mod on_device;
mod passage;
mod rows;

use candle_core::shape::Dim;
use candle_core::{DType, Shape, Tensor, Var};
use consort::functional::{self as values, Collective, Meta, Ranks};
use consort::{Rank, ReduceOp};

pub use self::begin::{coalesced, start};
use self::begin::{start_all_in_place, start_into};
pub use self::deferred::backward;
pub use self::messages::{Message, batch, recv, send};
use crate::candle::error::without_backtrace;
use crate::candle::numbers::dtype;
use crate::error::{Error, Result};

/// A tensor that is under way, or several: see [`consort::functional::Pending`].
///
/// View operations of candle's do not wait either, if they are done by
/// [`map`](consort::functional::Pending::map):
///
/// ```
/// use candle_core::{Device, Tensor};
/// use consort_train::candle::functional::{Pending, all_gather};
///
/// # fn main() -> consort_train::Result<()> {
/// let group = consort::Group::fake(0, 4)?;
/// let weights = Tensor::new(&[[1_f32, 2.0]], &Device::Cpu)?;
/// let all: Pending = all_gather(&weights, 0, &group)?;
/// let turned: Pending = all.clone().map(|all| Ok(all.t()?));
/// assert_eq!((all.get()?.dims(), turned.get()?.dims()), (&[4, 2][..], &[2, 4][..]));
/// # Ok(())
/// # }
/// ```
pub type Pending<T = Tensor> = values::Pending<T, Error>;

/// The root's tensor, on every rank. What the others give only says which shape and dtype it has.
///
/// ```
/// use candle_core::{Device, Var};
/// use consort_train::candle::functional::{backward, broadcast};
///
/// # fn main() -> consort_train::Result<()> {
/// # let group = consort::Builder::new().rank(0).world(1).init()?;
/// let x = Var::new(&[3_f32], &Device::Cpu)?;
/// let y = broadcast(&x, 0, &group)?.wait()?;
/// let gradients = backward(&y.sqr()?.sum_all()?)?;
/// // On the root: the sum over all ranks. On the others: zero.
/// assert_eq!(gradients.get(&x).unwrap().to_vec1::<f32>()?, [6.0]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// See [`start`].
#[track_caller]
pub fn broadcast(x: &Tensor, root: impl Into<Rank>, ranks: impl Ranks) -> Result<Pending> {
    start(Collective::Broadcast { root: root.into() }, x, ranks)
}

/// Gives a variable the root's numbers, when the result is used. There is no gradient.
///
/// # Errors
/// See [`start`].
#[track_caller]
pub fn broadcast_in_place(
    variable: &Var,
    root: impl Into<Rank>,
    ranks: impl Ranks,
) -> Result<Pending<Var>> {
    start_into(Collective::Broadcast { root: root.into() }, variable, variable, ranks)
}

/// The combination of all tensors, on every rank.
///
/// ```
/// use candle_core::{Device, Tensor, Var};
/// use consort::ReduceOp;
/// use consort_train::candle::functional::all_reduce;
///
/// # fn main() -> consort_train::Result<()> {
/// # let group = consort::Builder::new().rank(0).world(1).init()?;
/// let scores = Var::new(&[0.5_f32, 2.0], &Device::Cpu)?;
/// let sum = all_reduce(&scores, ReduceOp::Sum, &group)?;
/// // The largest is only looked at: it has no gradient.
/// let largest = all_reduce(&scores.detach(), ReduceOp::Max, &group)?;
/// let why = all_reduce(&scores, ReduceOp::Max, &group).unwrap_err();
/// assert!(why.to_string().contains("has no gradient"));
/// # sum.wait()?;
/// # largest.wait()?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// See [`start`].
#[track_caller]
pub fn all_reduce(x: &Tensor, op: ReduceOp, ranks: impl Ranks) -> Result<Pending> {
    start(Collective::AllReduce { op }, x, ranks)
}

/// Replaces the numbers of a variable by the combination of all ranks', when the result is used. There is no
/// gradient.
///
/// # Errors
/// See [`start`].
#[track_caller]
pub fn all_reduce_in_place(
    variable: &Var,
    op: ReduceOp,
    ranks: impl Ranks,
) -> Result<Pending<Var>> {
    start_into(Collective::AllReduce { op }, variable, variable, ranks)
}

/// The combination of all tensors on the root; zeroes on the others.
///
/// # Errors
/// See [`start`].
#[track_caller]
pub fn reduce(
    x: &Tensor,
    op: ReduceOp,
    root: impl Into<Rank>,
    ranks: impl Ranks,
) -> Result<Pending> {
    start(Collective::Reduce { op, root: root.into() }, x, ranks)
}

/// All tensors, joined along a dimension in the order of ranks. Single numbers become a row.
///
/// ```
/// use candle_core::{D, Device, Tensor};
/// use consort_train::candle::functional::all_gather;
///
/// # fn main() -> consort_train::Result<()> {
/// let group = consort::Group::fake(0, 3)?;
/// let heads = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &Device::Cpu)?;
/// assert_eq!(all_gather(&heads, D::Minus1, &group)?.get()?.dims(), [2, 6]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// See [`start`].
#[track_caller]
pub fn all_gather(x: &Tensor, dim: impl Dim, ranks: impl Ranks) -> Result<Pending> {
    start(Collective::AllGather { dim: gathered_along(x, dim)? }, x, ranks)
}

/// As [`all_gather`], into a variable, when the result is used. There is no gradient.
///
/// # Errors
/// See [`start`]; and when the variable has another shape or dtype.
#[track_caller]
pub fn all_gather_out(
    x: &Tensor,
    dim: impl Dim,
    out: &Var,
    ranks: impl Ranks,
) -> Result<Pending<Var>> {
    let collective = Collective::AllGather { dim: gathered_along(x, dim)? };
    start_out(collective, x, out, ranks)
}

/// This rank's part of the combination of all tensors, which are cut along a dimension into equal parts.
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use consort::ReduceOp;
/// use consort_train::candle::functional::reduce_scatter;
///
/// # fn main() -> consort_train::Result<()> {
/// let group = consort::Group::fake(0, 4)?;
/// let gradients = Tensor::zeros((3, 8), DType::F32, &Device::Cpu)?;
/// let mine = reduce_scatter(&gradients, ReduceOp::Avg, 1, &group)?;
/// assert_eq!(mine.get()?.dims(), [3, 2]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// See [`start`].
#[track_caller]
pub fn reduce_scatter(
    x: &Tensor,
    op: ReduceOp,
    dim: impl Dim,
    ranks: impl Ranks,
) -> Result<Pending> {
    let dim = index(dim, x.shape(), "reduce_scatter")?;
    start(Collective::ReduceScatter { op, dim }, x, ranks)
}

/// As [`reduce_scatter`], into a variable, when the result is used. There is no gradient.
///
/// # Errors
/// See [`start`]; and when the variable has another shape or dtype.
#[track_caller]
pub fn reduce_scatter_out(
    x: &Tensor,
    op: ReduceOp,
    dim: impl Dim,
    out: &Var,
    ranks: impl Ranks,
) -> Result<Pending<Var>> {
    let dim = index(dim, x.shape(), "reduce_scatter")?;
    start_out(Collective::ReduceScatter { op, dim }, x, out, ranks)
}

/// A part from everyone: each tensor is cut along dimension 0 into equal parts, of which each rank gets its
/// own, in the order of ranks.
///
/// # Errors
/// See [`start`].
#[track_caller]
pub fn all_to_all(x: &Tensor, ranks: impl Ranks) -> Result<Pending> {
    start(Collective::AllToAll, x, ranks)
}

/// As [`all_to_all`], with parts of different sizes: `to[r]` rows go to rank r, `from[r]` come from it.
///
/// # Errors
/// See [`start`].
#[track_caller]
pub fn all_to_all_uneven(
    x: &Tensor,
    to: &[usize],
    from: &[usize],
    ranks: impl Ranks,
) -> Result<Pending> {
    start(Collective::AllToAllUneven { to: to.to_vec(), from: from.to_vec() }, x, ranks)
}

/// Somebody else's tensor: each pair has a rank that sends and one that gets what it sends. One that nobody
/// sends to gets zeroes.
///
/// ```
/// use candle_core::{Device, Tensor};
/// use consort_train::candle::functional::permute;
///
/// # fn main() -> consort_train::Result<()> {
/// # let group = consort::Builder::new().rank(0).world(1).init()?;
/// // Ring attention: keys and values go round.
/// let world = group.world() as u32;
/// let circle: Vec<_> = (0..world).map(|rank| (rank, (rank + 1) % world)).collect();
/// let keys = Tensor::new(&[[1_f32, 2.0]], &Device::Cpu)?;
/// let next = permute(&keys, &circle, &group)?;
/// // … attention with the keys that are there …
/// let keys = next.wait()?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// See [`start`].
#[track_caller]
pub fn permute(x: &Tensor, pairs: &[(u32, u32)], ranks: impl Ranks) -> Result<Pending> {
    let pairs = pairs.iter().map(|&(from, to)| (from.into(), to.into())).collect();
    start(Collective::Permute { pairs }, x, ranks)
}

/// A tensor that is the same on every rank, and has a part in what each of them computes: its gradient is
/// the sum of all ranks'. Nothing moves forward, but it is copied if its gradient is wanted.
///
/// Every variable that all ranks have alike goes through it, wherever it is used: an embedding, a norm, a bias; a
/// bias added after the sum, too. Otherwise, with a loss that is divided by the ranks, its gradient is one rank's
/// share. What came out of another call does not go through it: that call's backward adds up already.
///
/// ```
/// use candle_core::{Device, Var};
/// use consort_train::candle::functional::{backward, replicate};
///
/// # fn main() -> consort_train::Result<()> {
/// # let group = consort::Builder::new().rank(0).world(1).init()?;
/// let bias = Var::new(&[0.5_f32], &Device::Cpu)?;
/// let loss = (replicate(&bias, &group)? * 3.0)?.sum_all()?;
/// let gradient = backward(&loss)?.remove(&bias).unwrap();
/// assert_eq!(gradient.to_vec1::<f32>()?, [3.0 * group.world() as f32]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// When the group cannot be had, or candle cannot copy the tensor.
pub fn replicate(x: &Tensor, ranks: impl Ranks) -> Result<Tensor> {
    begin::replicate(x, &ranks.group()?)
}

/// As [`all_reduce`], for several tensors that are given at once.
///
/// # Errors
/// See [`coalesced`].
#[track_caller]
pub fn all_reduce_coalesced(
    xs: &[&Tensor],
    op: ReduceOp,
    ranks: impl Ranks,
) -> Result<Pending<Vec<Tensor>>> {
    let calls = xs.iter().map(|&x| (Collective::AllReduce { op }, x));
    coalesced(&calls.collect::<Vec<_>>(), ranks)
}

/// As [`all_reduce_in_place`], for several variables at once.
///
/// # Errors
/// See [`coalesced`].
#[track_caller]
pub fn all_reduce_coalesced_in_place(
    variables: &[&Var],
    op: ReduceOp,
    ranks: impl Ranks,
) -> Result<Pending<Vec<Var>>> {
    start_all_in_place(&Collective::AllReduce { op }, variables, ranks)
}

/// As [`all_gather`], for several tensors that are given at once, each with its dimension.
///
/// # Errors
/// See [`coalesced`].
#[track_caller]
pub fn all_gather_coalesced(
    xs: &[(&Tensor, usize)],
    ranks: impl Ranks,
) -> Result<Pending<Vec<Tensor>>> {
    let calls = xs.iter().map(|&(x, dim)| (Collective::AllGather { dim }, x));
    coalesced(&calls.collect::<Vec<_>>(), ranks)
}

/// As [`reduce_scatter`], for several tensors that are given at once, each with its dimension.
///
/// # Errors
/// See [`coalesced`].
#[track_caller]
pub fn reduce_scatter_coalesced(
    xs: &[(&Tensor, usize)],
    op: ReduceOp,
    ranks: impl Ranks,
) -> Result<Pending<Vec<Tensor>>> {
    let calls = xs.iter().map(|&(x, dim)| (Collective::ReduceScatter { op, dim }, x));
    coalesced(&calls.collect::<Vec<_>>(), ranks)
}

/// Begins a call whose result goes to a variable, which has to have its shape.
#[track_caller]
fn start_out(
    collective: Collective,
    x: &Tensor,
    out: &Var,
    ranks: impl Ranks,
) -> Result<Pending<Var>> {
    let group = ranks.group()?;
    let result = collective.meta(&meta(x.shape(), x.dtype())?, group.rank(), group.world())?;
    let room = meta(out.shape(), out.dtype())?;
    if result != room {
        let name = collective.name();
        let what = format!("{name}: what comes out is {result}, and the variable is {room}");
        return Err(Error::Argument(what));
    }
    start_into(collective, x, out, &group)
}

/// The dimension along which tensors are gathered. A single number is taken for a row.
fn gathered_along(x: &Tensor, dim: impl Dim) -> Result<usize> {
    let row = Shape::from(1);
    let shape = if x.rank() == 0 { &row } else { x.shape() };
    index(dim, shape, "all_gather")
}

fn index(dim: impl Dim, shape: &Shape, name: &'static str) -> Result<usize> {
    dim.to_index(shape, name).map_err(|said| Error::Argument(without_backtrace(&said)))
}

fn meta(shape: impl Into<Shape>, of: DType) -> Result<Meta> {
    Ok(Meta::new(dtype(of)?, shape.into().into_dims()))
}
