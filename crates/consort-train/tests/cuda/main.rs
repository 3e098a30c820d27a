//! Candle's tensors on CUDA devices, among ranks that are real processes. `tools/cuda/test` runs this without a GPU.
#![allow(clippy::unwrap_used, reason = "a test ends with the first surprise")]

#[path = "../../../consort/tests/invitation/mod.rs"]
mod invitation;
mod models;
mod stage;
mod streams;
mod values;
