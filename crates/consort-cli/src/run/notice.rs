//! What the launcher itself has to say.

use std::fmt;
use std::io::{self, Write};

use super::report::Failure;
use crate::colour;

/// Says something to the user, on standard error. Nobody may be listening, which is no error.
pub(crate) fn notice(text: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "consort: {text}");
}

/// Reports a failure, in colour where that shows.
pub(crate) fn report(failure: &Failure) {
    if colour::shows_on(&io::stderr()) {
        notice(failure.coloured().to_string().trim_end());
    } else {
        notice(failure.to_string().trim_end());
    }
}
