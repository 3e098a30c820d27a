//! Reducers whose buckets are in the memory of devices: the same code as with CUDA and NCCL, which are this library
//! here.

#![allow(clippy::unwrap_used, reason = "a test ends with the first surprise")]

mod averages;
mod failures;
mod model;
mod refusals;
#[path = "../devices/stage.rs"]
mod stage;
mod ways;
