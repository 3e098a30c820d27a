//! What has to be read by somebody.

use std::io::{self, Write};

use tracing::dispatcher::get_default;
use tracing::subscriber::NoSubscriber;

/// Warns of something: in the program's log, or on standard error if the program keeps none, where
/// `consort run` shows it behind the rank's number.
pub(crate) fn warn(text: &str) {
    tracing::warn!("{text}");
    if get_default(|subscriber| subscriber.is::<NoSubscriber>()) {
        // Whoever has closed it reads nothing.
        let _ = writeln!(io::stderr().lock(), "consort: {text}");
    }
}
