//! Every collective among real processes, against the simplest computation that gives the same.
#![allow(clippy::unwrap_used, reason = "a test ends with the first surprise")]

mod data;
mod meet;
mod oracle;
mod room;
mod sizes;

mod large;
mod moves;
mod reductions;
mod slices;
mod subgroups;
