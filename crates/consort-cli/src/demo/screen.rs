//! What is seen while ranks learn: one line that is drawn again and again, or a line now and then where
//! there is no terminal. It goes to standard error, so that the results can go elsewhere.

use std::env;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use rustix::termios::tcgetwinsize;

use super::progress::Progress;
use crate::colour;

/// Where progress is shown.
#[derive(Debug)]
pub(crate) struct Screen {
    /// Whether a line can be drawn over another.
    is_terminal: bool,
    is_coloured: bool,
    /// When something was shown last.
    shown: Option<Instant>,
    /// Whether the line that the cursor is on is a bar.
    has_bar: bool,
}

impl Screen {
    /// Standard error.
    pub(crate) fn new() -> Self {
        let is_dumb = env::var_os("TERM").is_none_or(|term| term == "dumb" || term.is_empty());
        Self {
            is_terminal: io::stderr().is_terminal() && !is_dumb,
            is_coloured: colour::shows_on(&io::stderr()),
            shown: None,
            has_bar: false,
        }
    }

    /// Shows how it goes, if it was long ago that something was shown.
    pub(crate) fn show(&mut self, progress: &Progress) {
        let pause = if self.is_terminal { FRAME } else { TELL };
        let is_last = progress.step == progress.steps;
        if !is_last && self.shown.is_some_and(|shown| shown.elapsed() < pause) {
            return;
        }
        self.shown = Some(Instant::now());
        if !self.is_terminal {
            return write(&format!("{}\n", progress.line()));
        }
        let width = tcgetwinsize(io::stderr()).map_or(0, |size| usize::from(size.ws_col));
        let width = if width == 0 { USUAL } else { width };
        // The last column is left free: some terminals go to the next line when it is filled.
        let bar = progress.bar(width - 1, self.is_coloured);
        write(&format!("\r\x1b[2K{bar}"));
        self.has_bar = true;
    }

    /// Says something that stays.
    pub(crate) fn say(&mut self, text: &str) {
        let clear = if self.has_bar { "\r\x1b[2K" } else { "" };
        self.has_bar = false;
        write(&format!("{clear}{text}\n"));
    }

    /// Leaves the bar where it is, and goes on below it.
    pub(crate) fn end(&mut self) {
        if std::mem::take(&mut self.has_bar) {
            write("\n");
        }
        self.shown = None;
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.end();
    }
}

/// That nobody looks is no reason to end.
fn write(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// How often the line is drawn again.
const FRAME: Duration = Duration::from_millis(100);
/// How often there is a line in a file.
const TELL: Duration = Duration::from_secs(5);
/// How wide a terminal is that does not say so.
const USUAL: usize = 80;
