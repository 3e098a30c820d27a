//! Saying aloud that a test did not run.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};

/// Why something cannot be done on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip {
    reason: String,
}

impl Skip {
    /// A reason that tells the reader what is missing.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Skip {}

/// Prints `SKIPPED: reason` where it can be seen, and returns, so that the test can too.
///
/// Test runners keep the output of a test that passes to themselves. So the line goes straight to
/// standard error, past the capture of `cargo test`, and if the variable `TESTKIT_SKIPPED` names a
/// file it is added there as well, with the test's name.
///
/// ```
/// # use consort_testkit::{Hosts, skip};
/// # fn test() {
/// let hosts = match Hosts::new(2) {
///     Ok(hosts) => hosts,
///     Err(reason) => return skip(reason),
/// };
/// # }
/// ```
pub fn skip(reason: impl fmt::Display) {
    // Nothing depends on these lines; a closed standard error must not fail the test.
    let _ = writeln!(io::stderr(), "SKIPPED: {reason}");
    if let Some(file) = std::env::var_os("TESTKIT_SKIPPED") {
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        let _ =
            OpenOptions::new().create(true).append(true).open(file).and_then(|mut file| {
                file.write_all(format!("SKIPPED: {test}: {reason}\n").as_bytes())
            });
    }
}
