//! Data-parallel training: many processes learn one model together.
//!
//! # The subject
//!
//! Every rank has the whole model, and a share of the data. In each step it computes, from its share, how
//! every parameter should change: the *gradient*. The ranks average their gradients, and all change their
//! parameters by the same averages. So the parameters stay the same on all ranks, bit by bit, and the step
//! is that of one process with all the data.
//!
//! The gradients are as large as the model, and averaging them after backward would leave the network
//! idle while backward computes and the processor idle while gradients travel. A [`Reducer`] does both at
//! once. Backward goes through the layers from the last to the first, and a gradient is complete when its
//! layer is done. The reducer collects gradients in *buckets*, and sends a bucket when it is full: it
//! travels while backward computes the next ones. When backward ends, only the last bucket is waited for.
//!
//! ```text
//! backward  │ layer 3 │ layer 2 │ layer 1 │ layer 0 │
//! ready              3         2         1         0
//! buckets             ├──── 3 ────┤      ├──── 2, 1, 0 ───┤
//!                                                   ├ waits ┤ step
//! ```
//!
//! All ranks have to send the same buckets in the same order, whatever the order in which gradients
//! become complete. So a bucket waits for those before it; and since the order of the first pass is as
//! good as any, buckets are made anew after it, in the order that rank 0 has seen.
//!
//! # Where to start
//!
//! With candle, by `consort_train::candle` (feature `candle`): a training loop for one process becomes one
//! for many by four lines. [`Reducer`] is for those who have an engine of their own; it is told three
//! things, that a backward pass begins, that a gradient is there, and that the pass ends:
//!
//! ```
//! use consort::Dtype;
//! use consort_train::{Options, Parameter, Reducer};
//!
//! // A line through points: y = slope * x + height. Every rank has points of its own.
//! # let group = consort::Builder::new().rank(0).world(1).init()?;
//! # #[cfg(any())]
//! let group = consort::init()?;
//! let (mut slope, mut height) = (0.0_f32, 0.0_f32);
//! let one = |name| Parameter::new(name, Dtype::F32, &[1]);
//! let reducer = Reducer::new(&group, vec![one("slope"), one("height")], Options::new())?;
//! for step in 0..500 {
//!     let x = (step * 7 + group.rank().index() * 3) as f32 % 10.0 / 10.0;
//!     let error = slope * x + height - (2.0 * x + 1.0);
//!
//!     let pass = reducer.begin()?;
//!     pass.ready(1, &[2.0 * error])?; // the gradient of the squared error by the height …
//!     pass.ready(0, &[2.0 * error * x])?; // … and by the slope
//!     let averages = pass.finish()?;
//!
//!     slope -= 0.3 * averages.gradient::<f32>(0)?.expect("it came")[0];
//!     height -= 0.3 * averages.gradient::<f32>(1)?.expect("it came")[0];
//! }
//! assert!((slope - 2.0).abs() < 0.05 && (height - 1.0).abs() < 0.05, "{slope} {height}");
//! # Ok::<(), consort_train::Error>(())
//! ```
//!
//! # What else happens in real training
//!
//! | | |
//! |---|---|
//! | which examples are whose | [`DistributedSampler`] |
//! | ranks begin with different parameters | [`broadcast`] gives all those of one rank |
//! | ranks have different models, or options | an error on every rank that shows both ([`Error::Differs`]) |
//! | a batch is too large for the memory | several [local passes](Reducer::begin_local), then one that is averaged |
//! | a parameter has no part in the loss, here or anywhere | [`Unused`]: averaged with zeroes, left alone, or refused by name |
//! | a gradient comes in several parts | [`Options::static_graph`] |
//! | backward makes calls of the group itself | [`Options::delay`] |
//! | a table of which each batch touches some rows | [`Parameter::sparse`] |
//! | ranks have different numbers of batches | [`Reducer::join`] |
//! | gradients of 16 bits lose too much when they are added | [`Options::reduce_as`] |
//! | the network is slow | hooks that send less: [`Cast`], [`Int8`], [`PowerSgd`], or one of your own ([`CommHook`] compares them); [`Noop`] shows what there is to gain |
//! | the network between hosts is slower still | [`PostLocalSgd`], and [`PeriodicAverager`] or [`HierarchicalAverager`] |
//! | the optimizer could begin before all gradients are there | [`Pass::finish_with`] |
//! | the engine can compute into other memory, or give its own away | [`Pass::ready_with`], [`Pass::ready_owned`], [`Places`] |
//! | gradients are on a GPU | [`Options::on_device`], [`Pass::ready_on_device`], [`Reduced::copy_to_device`] |
//! | buckets are too small, or too large | [`Caps`], by hand or by measuring |
//! | a rank dies | an error that names it; [`Group::shrink`](consort::Group::shrink) and [`Reducer::set_group`] go on with the others, without what was added up |
//! | models are kept in files, batches normalised over all ranks | the module `candle` |
//! | the model is too large for one rank | `candle::functional`: collectives with gradients, for layers in parts |
//! | where does the time go | [`Reducer::times`], [`Reducer::stats`] |
#![forbid(unsafe_code)]

mod agreement;
mod assign;
mod averager;
mod bucket;
#[cfg(feature = "candle")]
pub mod candle;
mod chance;
mod convert;
mod error;
mod hook;
mod join;
mod layout;
mod memory;
mod options;
mod parameter;
mod pass;
mod places;
mod reduced;
mod reducer;
mod rows;
mod sampler;
mod stats;
mod sync;
mod times;
mod tune;

pub use assign::Caps;
pub use averager::{HierarchicalAverager, PeriodicAverager, average};
pub use bucket::{Bucket, Gradient};
pub use error::{Error, Result};
pub use hook::{
    Average, Cast, CommHook, CompressionStats, Int8, Noop, Pending, PostLocalSgd, PowerSgd, Round,
};
pub use join::{Join, Joined, Uneven};
pub use options::{Options, Unused};
pub use parameter::Parameter;
pub use pass::Pass;
pub use places::{Place, Places};
pub use reduced::Reduced;
pub use reducer::Reducer;
pub use sampler::DistributedSampler;
pub use stats::{Means, Stats, Value};
pub use sync::broadcast;
pub use times::{BucketTimes, PassTimes};
