//! What a failed test shows of its ranks.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::ExitStatus;

use super::layout::Layout;

/// How every rank ended and what it wrote.
pub(crate) fn of_all_ranks(layout: &Layout, statuses: &[ExitStatus]) -> String {
    let mut report = String::new();
    for (rank, status) in (0..).zip(statuses) {
        let output = read_output(&layout.output(rank));
        let output = tail(output.trim_end(), SHOWN);
        let _ = write!(report, "--- rank {rank}, {status} ---\n{output}\n");
    }
    report
}

/// A rank's output as text, whatever bytes it is.
pub(crate) fn read_output(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

fn tail(text: &str, length: usize) -> String {
    if text.len() <= length {
        return text.to_owned();
    }
    let from = text.ceil_char_boundary(text.len() - length);
    format!("[{from} bytes left out]\n{}", &text[from..])
}

/// How much of each rank's output is shown.
const SHOWN: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_output_is_shown_from_its_end() {
        assert_eq!(tail("short", 10), "short");
        assert_eq!(tail("äää the end", 7), "[7 bytes left out]\nthe end");
        assert_eq!(tail("ä!", 2), "[2 bytes left out]\n!");
    }
}
