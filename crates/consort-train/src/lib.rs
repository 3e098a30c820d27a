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
//! With candle: the module `candle`, which the feature of that name brings. [`Reducer`] is for those who
//! have an engine of their own.
#![forbid(unsafe_code)]

mod agreement;
mod assign;
mod bucket;
#[cfg(feature = "candle")]
pub mod candle;
mod convert;
mod error;
mod hook;
mod join;
mod layout;
mod memory;
mod options;
mod parameter;
mod pass;
mod reduced;
mod reducer;
mod rows;
mod sampler;
mod stats;
mod sync;
mod times;

pub use assign::Caps;
pub use bucket::{Bucket, Gradient};
pub use error::{Error, Result};
pub use hook::{Average, Cast, CommHook, Pending, Round};
pub use join::{Join, Joined, Uneven};
pub use options::{Options, Unused};
pub use parameter::Parameter;
pub use pass::Pass;
pub use reduced::Reduced;
pub use reducer::Reducer;
pub use sampler::DistributedSampler;
pub use stats::{Means, Stats, Value};
pub use sync::broadcast;
pub use times::{BucketTimes, PassTimes};
