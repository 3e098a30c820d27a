//! Collectives on values among ranks that are real processes.
#![allow(clippy::unwrap_used, reason = "a test ends with the first surprise")]

mod adjoint;
#[path = "../adversity/child.rs"]
mod child;
mod coalesced;
mod disagreement;
mod exercise;
mod failure;
mod fake;
mod foreign;
mod fork;
mod future;
mod hooks;
#[path = "../invitation/mod.rs"]
mod invitation;
mod keeping;
mod lists;
mod meet;
mod memory;
mod messages;
mod moves;
mod numbers;
mod oracle;
mod panics;
mod pending;
mod random;
mod reductions;
mod sizes;
