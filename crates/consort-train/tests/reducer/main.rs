//! Reducers of ranks that are real processes.
#![allow(clippy::unwrap_used, reason = "a test ends with the first surprise")]

mod averages;
mod compression;
mod failures;
#[path = "../../../consort/tests/invitation/mod.rs"]
mod invitation;
mod join;
mod memory;
mod mistakes;
mod model;
mod places;
mod rows;
mod schedules;
