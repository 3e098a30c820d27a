//! Training with candle on many ranks.
//!
//! A training loop for one process becomes one for many by four lines:
//!
//! ```diff
//! +let group = consort::init()?;
//!  let variables = VarMap::new();
//! -let model = Net::new(VarBuilder::from_varmap(&variables, DType::F32, &Device::Cpu))?;
//! -let mut optimizer = SGD::new(variables.all_vars(), 0.1)?;
//! +let (ddp, model) = DistributedDataParallel::new(&group, &variables, DType::F32, Net::new)?;
//! +let mut optimizer = SGD::new(ddp.vars(), 0.1)?;
//!  for (x, y) in batches {
//!      let loss = loss::mse(&model.forward(&x)?, &y)?;
//! -    optimizer.backward_step(&loss)?;
//! +    ddp.backward_step(&mut optimizer, &loss)?;
//!  }
//! ```
//!
//! Every rank runs the same program with its own batches. [`DistributedDataParallel`] builds the model
//! on every rank and gives all the parameters of rank 0; it averages the gradients while backward
//! computes others; and since every rank changes its parameters by the same averages, they stay the same
//! on all, bit by bit. The whole of it, as a program of one rank:
//!
//! ```
//! use candle_core::{DType, Device, Tensor};
//! use candle_nn::{Module, Optimizer, SGD, VarMap, linear, loss};
//! use consort_train::candle::DistributedDataParallel;
//!
//! # fn main() -> consort_train::Result<()> {
//! # let group = consort::Builder::new().rank(0).world(1).init()?;
//! # #[cfg(any())]
//! let group = consort::init()?;
//! let variables = VarMap::new();
//! let (ddp, model) = DistributedDataParallel::new(&group, &variables, DType::F32, |vb| {
//!     linear(1, 1, vb.pp("line"))
//! })?;
//! let mut optimizer = SGD::new(ddp.vars(), 0.5)?;
//! for step in 0..100 {
//!     // Points on a line, of which every rank has its own.
//!     let x = (step * group.world() + group.rank().index()) as f32 * 0.61 % 1.0;
//!     let (x, y) = ([[x], [1.0 - x]], [[2.0 * x + 1.0], [3.0 - 2.0 * x]]);
//!     let (x, y) = (Tensor::new(&x, &Device::Cpu)?, Tensor::new(&y, &Device::Cpu)?);
//!     let loss = loss::mse(&model.forward(&x)?, &y)?;
//!     ddp.backward_step(&mut optimizer, &loss)?;
//! }
//! let slope = model.weight().flatten_all()?.to_vec1::<f32>()?[0];
//! assert!((slope - 2.0).abs() < 0.01, "{slope}");
//! # Ok(())
//! # }
//! ```
//!
//! A model that is too large for one rank is parted among several: [`functional`] has collectives with
//! gradients for that.
//!
//! # What a step is
//!
//! The average over ranks of the gradients of their *mean* losses is the gradient of the mean over all
//! examples, if all ranks have equally many. So a step of four ranks with 32 examples each is a step of
//! one process with 128, and the learning rate is that of 128.
//!
//! More can be had than [`backward_step`](DistributedDataParallel::backward_step):
//! - Between [`backward`](DistributedDataParallel::backward) and
//!   [`step`](DistributedDataParallel::step) gradients can be looked at, or be
//!   [cut](Gradients::clip_norm).
//! - [`backward_local`](DistributedDataParallel::backward_local) adds up gradients of a large batch in
//!   parts, of which only the last has to travel.
//! - [`join`](DistributedDataParallel::join) is for ranks that do not have the same number of batches.
//! - Parameters that have no part in the loss are left alone, or averaged with zeroes if they have one
//!   on other ranks. Some of candle's operations cannot be differentiated and say nothing, so that
//!   whatever comes before them learns nothing: `LayerNorm` with a bias, or `softmax_last_dim`. With
//!   [`Unused::Refuse`](crate::Unused::Refuse) such parameters are an error that names them.
//! - Models that learn in turns, such as a generator and its critic, are built by one
//!   `DistributedDataParallel`, with an optimizer for the parameters of each.
//!
//! # Data and files
//!
//! A [`DistributedSampler`](crate::DistributedSampler) says which examples a rank has in each epoch.
//! [`checkpoint`] keeps a model in a file, and gives it back to any number of ranks.
//!
//! # What is not learned
//!
//! Variables like the running statistics of a `BatchNorm` are *buffers*: the model gets them as they are,
//! ranks have their own while they compute, and after each step all get those of rank 0, or
//! [what is asked for](Options::buffers). A [`SyncBatchNorm`] has the statistics of all ranks' batches at
//! once.
//!
//! # How it works, and what it costs
//!
//! Candle does not say when a gradient is complete. So the model is not given its parameters but a copy
//! of each, with an operation between the two whose backward is called with the whole gradient. It goes
//! into a bucket of the [reducer](crate::Reducer), and travels when the bucket is full, while backward
//! goes on. Large gradients are not copied for that: they are averaged in candle's own memory, and come back
//! in it. The copies of parameters cost as much memory as the parameters, and a
//! [step](DistributedDataParallel::step) brings them up to date, which is one pass over the model's
//! memory. Whoever changes parameters by other means, such as `VarMap::load`, calls
//! [`refresh`](DistributedDataParallel::refresh); a backward that finds other parameters than the model
//! computes with is [refused](crate::Error::Stale). It looks at some numbers of each: the change of an
//! optimizer is seen, that of a few numbers among thousands may not be.
//!
//! # On CUDA devices
//!
//! With the feature `cuda` the model may be on a CUDA device, one for each rank: [`Options::device`] says which.
//! Gradients go to buckets in its memory, NCCL averages them there, and averages come back as tensors of the device.
//! Tensors that are given to [`functional`] are taken where they are. The two kinds of groups' calls, on the host and
//! on devices, are made by the [same groups](consort::Group#memory-of-devices).
//!
//! ```no_run
//! # #[cfg(feature = "cuda")]
//! # fn main() -> consort_train::Result<()> {
//! use candle_core::{DType, Device};
//! use candle_nn::{VarMap, linear};
//! use consort_train::candle::{DistributedDataParallel, Options};
//!
//! let group = consort::init()?;
//! let device = Device::new_cuda(group.local_rank())?;
//! let variables = VarMap::new();
//! let options = Options::new().device(&device);
//! let (ddp, model) =
//!     DistributedDataParallel::with_options(&group, &variables, DType::F32, options, |vb| {
//!         linear(1000, 10, vb)
//!     })?;
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "cuda"))]
//! # fn main() {}
//! ```
//!
//! | | on a device |
//! |---|---|
//! | [`backward`](DistributedDataParallel::backward), [`step`](DistributedDataParallel::step), [`join`](DistributedDataParallel::join) | there; one copy into a bucket by way of room for the largest gradient, one out |
//! | [`clip_norm`](Gradients::clip_norm) | there |
//! | parameters that all get at the start, [`broadcast`](DistributedDataParallel::broadcast), buffers, [`verify`](DistributedDataParallel::verify), [`checkpoint`] | by way of the host |
//! | [`SyncBatchNorm`] | by way of the host, forward and backward |
//! | whether the model computes with what its parameters are | looked at in the last numbers of each |
//! | [`backward_local`](DistributedDataParallel::backward_local), hooks that compress, [`reduce_as`](crate::Options::reduce_as) | refused, with what to do instead |
//!
//! Candle and consort have to use the same driver: if `CONSORT_CUDA_LIBRARY` is set, it names the `libcuda.so.1`
//! that candle was linked with. Candle's stream, and that of the group, wait for each other by
//! events: whatever computes a tensor before it is given away belongs to it, also on a device that was made by
//! `new_cuda_with_stream`. The program itself waits for candle's stream where averages, or results of a
//! call, become tensors.
//!
//! # When a rank is gone
//!
//! Whatever is called then gives an error of kind [`PeerGone`](consort::ErrorKind::PeerGone), which names
//! the rank. Those that are left make a smaller group and go on with it. The step that failed is lost; the
//! model is that of the new group's rank 0. What knows the old ranks has to be made anew: the sampler, a
//! [`SyncBatchNorm`], and an optimizer that remembers something, like `AdamW`.
//!
//! ```no_run
//! # use candle_core::Tensor;
//! # use candle_nn::{Optimizer, SGD};
//! # use consort::{ErrorKind, Group};
//! # use consort_train::candle::DistributedDataParallel;
//! # fn train(mut group: Group, ddp: &DistributedDataParallel, optimizer: &mut SGD, loss: &Tensor)
//! # -> consort_train::Result<()> {
//! if let Err(error) = ddp.backward_step(optimizer, loss) {
//!     if error.kind() != ErrorKind::PeerGone {
//!         return Err(error);
//!     }
//!     group = group.shrink()?;
//!     ddp.set_group(&group)?;
//! }
//! # Ok(())
//! # }
//! ```

pub mod checkpoint;
#[cfg(feature = "cuda")]
mod cuda;
mod ear;
mod error;
pub mod functional;
mod gradients;
mod join;
mod model;
mod numbers;
mod options;
mod parallel;
mod source;
#[cfg(feature = "cuda")]
mod staging;
mod sync_batch_norm;
mod taking;
mod together;
mod write_back;

pub use gradients::Gradients;
pub use join::Training;
pub use options::{Buffers, Options};
pub use parallel::DistributedDataParallel;
pub use sync_batch_norm::{SyncBatchNorm, sync_batch_norm};

/// Why something cannot be done with tensors of CUDA devices.
#[cfg(not(feature = "cuda"))]
fn no_cuda() -> String {
    "tensors of CUDA devices take the feature `cuda` of consort-train, which this program was built without".to_owned()
}
