//! Groups of several ranks on each of several hosts: shared memory inside, TCP between.
#![allow(clippy::unwrap_used, reason = "a test ends with the first surprise")]

mod failures;
mod meet;
mod messages;
mod moves;
#[path = "../collectives/oracle.rs"]
mod oracle;
mod reductions;
