//! `consort run` with real programs, failures and signals.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and so do its parts")]

mod cleanup;
mod failures;
mod launch;
mod output;
mod ranks;
mod secret;
mod signals;
