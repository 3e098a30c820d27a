//! The last lines of a rank, for the report of its failure.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// The last few lines of a stream, bounded in number and in bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tail(VecDeque<String>);

impl Tail {
    /// The end of a file.
    pub(crate) fn of_file(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        let most = (LINES * LINE_BYTES) as u64;
        file.seek(SeekFrom::Start(length.saturating_sub(most)))?;
        let mut end = Vec::new();
        file.take(most).read_to_end(&mut end)?;
        let mut tail = Self::default();
        let text = end.strip_suffix(b"\n").unwrap_or(&end);
        for line in text.split(|&byte| byte == b'\n').filter(|_| !text.is_empty()) {
            tail.push(line);
        }
        Ok(tail)
    }

    /// Takes the next line, forgets the oldest when there are too many.
    pub(crate) fn push(&mut self, line: &[u8]) {
        if self.0.len() == LINES {
            self.0.pop_front();
        }
        let mut text = String::from_utf8_lossy(&line[..line.len().min(LINE_BYTES)]).into_owned();
        if line.len() > LINE_BYTES {
            text.push('…');
        }
        self.0.push_back(text);
    }

    /// The lines, oldest first.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.iter().cloned().collect()
    }
}

const LINES: usize = 20;
const LINE_BYTES: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_lines_are_kept() {
        let mut tail = Tail::default();
        for number in 0..100 {
            tail.push(number.to_string().as_bytes());
        }
        let expected: Vec<_> = (80..100).map(|number| number.to_string()).collect();
        assert_eq!(tail.lines(), expected);
    }

    #[test]
    fn a_long_line_is_cut_and_says_so() {
        let mut tail = Tail::default();
        tail.push(&[b'x'; 5000]);
        let line = &tail.lines()[0];
        assert!(line.len() < 1100 && line.ends_with('…'), "{line}");
    }

    #[test]
    fn a_file_ends_like_a_stream() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(Tail::of_file(file.path()).unwrap().lines(), [""; 0]);
        std::fs::write(file.path(), "x".repeat(50_000) + "\na\n\nb\n").unwrap();
        let lines = Tail::of_file(file.path()).unwrap().lines();
        assert_eq!(lines[1..], ["a", "", "b"]);
    }
}
