//! Groups whose calls work on memory of devices: the same code as with CUDA and NCCL, which are this
//! library here.

#![allow(clippy::unwrap_used, reason = "a test ends with the first surprise")]

mod agreeing;
mod callers;
#[path = "../../../consort/tests/adversity/child.rs"]
mod child;
mod contexts;
mod failures;
mod forked;
mod hanging;
mod held;
mod ids;
mod leaving;
mod making;
mod memory;
#[path = "../api/numbers.rs"]
mod numbers;
mod older;
mod records;
mod reductions;
mod refusals;
mod results;
mod stage;
mod streams;
mod sums;
mod symmetric;
mod uneven;
mod values;
mod watch;
