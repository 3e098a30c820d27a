//! Asynchronous calls among ranks that are real processes.
#![allow(clippy::unwrap_used, reason = "a test ends with the first surprise")]

mod batch;
mod buffers;
mod failure;
mod fake;
mod future;
mod hooks;
#[path = "../invitation/mod.rs"]
mod invitation;
mod meet;
mod order;
mod results;
mod scope;
mod thread;
