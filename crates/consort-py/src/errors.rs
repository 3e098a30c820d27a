//! Errors of consort as exceptions of Python.

use consort::{Error, ErrorKind, StoreError};
use pyo3::prelude::*;

/// The exception for an error. Which class it is, the package decides: `consort.errors` has one for
/// each kind, and with PyTorch these are PyTorch's, too.
pub(crate) fn raise(error: &Error) -> PyErr {
    exception(error.kind(), error.to_string(), ranks(error))
}

/// The exception for an error of the store.
pub(crate) fn raise_of_store(error: &StoreError) -> PyErr {
    exception(error.kind(), error.to_string(), Vec::new())
}

/// The exception for a mistake that was found here.
pub(crate) fn mistake(what: impl Into<String>) -> PyErr {
    exception(ErrorKind::Mistake, what.into(), Vec::new())
}

/// The exception of a kind, about these ranks.
pub(crate) fn exception(kind: ErrorKind, text: String, ranks: Vec<u32>) -> PyErr {
    let made = Python::attach(|py| {
        let errors = py.import("consort.errors")?;
        errors.getattr("_make")?.call1((name(kind), text, ranks)).map(PyErr::from_value)
    });
    made.unwrap_or_else(|error| error)
}

/// The ranks that an error is about: those that are gone, late, have left or have ended the group.
fn ranks(error: &Error) -> Vec<u32> {
    match error {
        Error::PeerLost { rank, .. }
        | Error::PeerUnable { rank, .. }
        | Error::Unable { rank, .. }
        | Error::Damaged { rank, .. }
        | Error::Aborted { by: rank, .. }
        | Error::MessageDiffers { from: rank, .. } => vec![*rank],
        Error::Late { missing: ranks, .. }
        | Error::Left { ranks, .. }
        | Error::Held { holders: ranks, .. }
        | Error::Diverged { ranks, .. } => ranks.clone(),
        Error::Mismatch { first, second, .. } => vec![first.0, second.0],
        _ => Vec::new(),
    }
}

/// What `consort.errors` calls a kind.
fn name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Mistake => "Mistake",
        ErrorKind::Mismatch => "Mismatch",
        ErrorKind::PeerGone => "PeerGone",
        ErrorKind::Deadline => "Deadline",
        ErrorKind::Aborted => "Aborted",
        _ => "SystemTrouble",
    }
}
