//! Collectives on candle's tensors, with gradients, among ranks that are real processes.
#![allow(clippy::unwrap_used, reason = "a test ends with the first surprise")]

mod deferred;
mod differences;
mod failures;
mod fake;
#[path = "../../../consort/tests/invitation/mod.rs"]
mod invitation;
mod kinds;
mod meet;
mod models;
mod programs;
mod refused;
mod variables;
