//! Tells people what goes on, on standard error.

use std::io::{self, IsTerminal, Write};

/// What is told while one model is trained.
#[derive(Debug)]
pub(crate) struct Progress {
    model: &'static str,
    shows: bool,
    /// Whether all that was asked for has come.
    pub(crate) complete: bool,
}

impl Progress {
    /// For this model. How far it is, is shown on terminals, and goes into the log.
    pub(crate) fn new(model: &'static str) -> Self {
        Self { model, shows: io::stderr().is_terminal(), complete: true }
    }

    /// Something is missing from what was asked for.
    pub(crate) fn note(&mut self, what: &str) {
        self.complete = false;
        self.end();
        eprintln!("consort: {}: {what}", self.model);
    }

    /// Replaces what was shown before.
    pub(crate) fn show(&self, what: &str) {
        tracing::info!("{}: {what}", self.model);
        if self.shows {
            eprint!("{CLEAR}{}: {what}", self.model);
            let _ = io::stderr().flush();
        }
    }

    /// Leaves nothing of it.
    pub(crate) fn end(&self) {
        if self.shows {
            eprint!("{CLEAR}");
        }
    }
}

/// To the beginning of the line, of which nothing is left.
const CLEAR: &str = "\r\x1b[K";
