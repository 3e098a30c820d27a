//! `consort run` with real programs, failures and signals.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the way to fail")]

mod cleanup;
mod failures;
mod launch;
mod output;
mod ranks;
mod secret;
mod signals;
