//! Memory shared between real processes, and what becomes of it when they fail.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and so do its parts")]

mod failure;
mod limits;
mod meeting;
mod neighbours;
