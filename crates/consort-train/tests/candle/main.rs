//! Models of candle's that ranks train together.
#![allow(clippy::unwrap_used, reason = "a test ends with the first surprise")]

mod buffers;
mod bypasses;
mod checkpoints;
mod failures;
#[path = "../../../consort/tests/invitation/mod.rs"]
mod invitation;
mod join;
mod mistakes;
mod nets;
mod overlap;
mod sync_batch_norm;
mod training;
