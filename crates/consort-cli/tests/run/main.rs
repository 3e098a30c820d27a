//! `consort run` with real programs, failures and signals.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and so do its parts")]

mod cleanup;
mod cluster;
mod documents;
mod examples;
mod failures;
mod groups;
mod launch;
mod metrics;
mod mpi;
mod nodes;
mod output;
mod program;
mod ranks;
mod secret;
mod signals;
mod tolerance;
mod trace;
