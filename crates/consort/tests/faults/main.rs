//! What is done to ranks, hosts, links, stores and clocks, and what comes of it: for groups over shared
//! memory, over TCP and over both, for calls that block, that go on in the background, and in scopes.
//!
//! Every scenario is one sequence. The ranks work, and each result is looked at. The fault is done, and it
//! is seen that it was. Every survivor tells what its call said and when, which has to be the same on all.
//! The survivors make their group smaller and compute in it, all the same bits. All processes end, and
//! nothing is left of them. How long it took until each knew is printed in one line:
//!
//! ```text
//! cargo nextest run -p consort --test faults --success-output final | grep heard
//! ```
#![allow(clippy::unwrap_used, reason = "a test ends with the first surprise")]

mod clocks;
mod deaths;
mod disks;
#[path = "../invitation/mod.rs"]
mod invitation;
mod life;
mod links;
mod numbers;
mod remains;
mod scenario;
mod stillness;
mod stores;
mod verdict;
