//! Meshes of ranks that are real processes.
#![allow(clippy::unwrap_used, reason = "a test ends with the first surprise")]

mod costs;
mod failures;
mod groups;
#[path = "../invitation/mod.rs"]
mod invitation;
mod meet;
mod parts;
