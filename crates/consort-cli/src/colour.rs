//! Whether to use colours.

use std::env;
use std::io::IsTerminal;

/// Whether a stream shows colours: a terminal that can, unless the user does not want them.
pub(crate) fn shows_on(stream: &impl IsTerminal) -> bool {
    let is = |name, test: fn(&str) -> bool| env::var(name).is_ok_and(|value| test(&value));
    let unwanted = is("NO_COLOR", |value| !value.is_empty()) || is("TERM", |value| value == "dumb");
    stream.is_terminal() && !unwanted
}
