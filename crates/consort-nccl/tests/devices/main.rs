//! Groups whose calls work on memory of devices: the same code as with CUDA and NCCL, which are this
//! library here.

#![allow(clippy::unwrap_used, reason = "a test ends with the first surprise")]

mod failures;
mod held;
mod making;
mod memory;
mod older;
mod records;
mod refusals;
mod results;
mod stage;
mod streams;
mod sums;
mod symmetric;
mod values;
mod watch;
