//! Memory shared between real processes, and what becomes of it when they fail.
#![expect(clippy::disallowed_types, reason = "the words of an arena are atomics")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, and so do its parts")]

mod failure;
mod limits;
mod meeting;
mod neighbours;

use consort_sys::arena::Agreement;

// SAFETY: every test uses what it shares as bytes or as words, and in an order that it ensures.
const AGREEMENT: Agreement = unsafe { Agreement::keep() };
