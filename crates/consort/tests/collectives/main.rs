//! Every collective among real processes, against the simplest computation that gives the same.
#![allow(clippy::unwrap_used, reason = "a test ends with the first surprise")]

mod data;
mod edges;
mod exercise;
#[path = "../invitation/mod.rs"]
mod invitation;
mod meet;
mod oracle;
mod room;
mod sizes;
mod works;

mod among;
mod background;
mod barriers;
mod disagreement;
mod faults;
mod large;
mod moves;
mod reductions;
mod refusals;
mod slices;
mod subgroups;
mod threads;
mod windows;
