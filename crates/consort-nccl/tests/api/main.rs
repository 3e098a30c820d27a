//! `consort::nccl`, on consort's own NCCL: real processes, real data, real deaths.
#![allow(clippy::unwrap_used, reason = "a test ends with the first surprise")]

mod changes;
mod ends;
mod forgetting;
mod groups;
mod library;
mod meet;
mod memory;
mod moves;
mod numbers;
mod old;
mod reductions;
mod refusals;
mod streams;
