//! Bytes into lines.

use std::time::{Duration, Instant};

/// Cuts a stream into lines.
///
/// A line ends with a newline, at 64 KiB, or with the stream. Text before a lone carriage return
/// is a progress bar that is about to be overwritten: of such texts one a second is given, and
/// the last one always, since a newline follows it.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    partial: Vec<u8>,
    after_return: bool,
    last_progress: Option<Instant>,
}

impl Lines {
    /// Takes the next bytes; gives each line they complete, without its end, to `line`.
    pub(crate) fn push(&mut self, mut bytes: &[u8], now: Instant, line: &mut impl FnMut(&[u8])) {
        while let Some(&first) = bytes.first() {
            if std::mem::take(&mut self.after_return) {
                if first == b'\n' {
                    self.give(line);
                    bytes = &bytes[1..];
                    continue;
                }
                self.give_progress(now, line);
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let (text, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            self.extend(text, line);
            match rest.first() {
                Some(b'\n') => self.give(line),
                Some(_) => self.after_return = true,
                None => return,
            }
            bytes = &rest[1..];
        }
    }

    /// The stream has ended: gives what has no newline.
    pub(crate) fn finish(&mut self, line: &mut impl FnMut(&[u8])) {
        self.after_return = false;
        if !self.partial.is_empty() {
            self.give(line);
        }
    }

    fn extend(&mut self, mut text: &[u8], line: &mut impl FnMut(&[u8])) {
        while self.partial.len() + text.len() > LONGEST {
            let (fits, rest) = text.split_at(LONGEST - self.partial.len());
            self.partial.extend_from_slice(fits);
            let whole = self.partial.len() - broken_character(&self.partial);
            line(&self.partial[..whole]);
            self.partial.drain(..whole);
            text = rest;
        }
        self.partial.extend_from_slice(text);
    }

    fn give(&mut self, line: &mut impl FnMut(&[u8])) {
        line(&self.partial);
        self.partial.clear();
    }

    fn give_progress(&mut self, now: Instant, line: &mut impl FnMut(&[u8])) {
        let due = self.last_progress.is_none_or(|last| now.duration_since(last) >= PROGRESS_EVERY);
        if due && !self.partial.is_empty() {
            self.last_progress = Some(now);
            line(&self.partial);
        }
        self.partial.clear();
    }
}

/// How many bytes at the end are the beginning of a UTF-8 character.
fn broken_character(bytes: &[u8]) -> usize {
    let end = &bytes[bytes.len().saturating_sub(3)..];
    for (place, &byte) in end.iter().enumerate().rev() {
        let present = end.len() - place;
        match byte {
            0x80..=0xBF => continue,
            0xC2..=0xDF if present < 2 => return present,
            0xE0..=0xEF if present < 3 => return present,
            0xF0..=0xF4 if present < 4 => return present,
            _ => return 0,
        }
    }
    0
}

/// The longest line that is passed on in one piece.
const LONGEST: usize = 64 * 1024;

const PROGRESS_EVERY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of a stream that arrives in these pieces, a tenth of a second apart.
    fn lines<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
        let (mut lines, mut found) = (Lines::default(), Vec::new());
        let mut now = Instant::now();
        for piece in pieces {
            lines.push(piece, now, &mut |line| found.push(line.to_vec()));
            now += Duration::from_millis(100);
        }
        lines.finish(&mut |line| found.push(line.to_vec()));
        found
    }

    fn text(stream: &str) -> Vec<String> {
        let whole = lines([stream.as_bytes()]);
        assert_eq!(whole, lines(stream.as_bytes().chunks(stream.len().max(1))));
        whole.into_iter().map(|line| String::from_utf8(line).unwrap()).collect()
    }

    #[test]
    fn lines_end_with_a_newline_or_with_the_stream() {
        assert_eq!(text("a\n\nb\r\nc"), ["a", "", "b", "c"]);
        assert_eq!(text(""), [""; 0]);
        assert_eq!(text("\n"), [""]);
    }

    #[test]
    fn it_does_not_matter_where_a_stream_is_cut() {
        let stream = "one\r\ntwo\n\nthr\u{e9}e";
        let by_byte = lines(stream.as_bytes().chunks(1));
        assert_eq!(by_byte, lines([stream.as_bytes()]));
        assert_eq!(by_byte.len(), 4);
    }

    #[test]
    fn bytes_that_are_not_text_pass_through() {
        assert_eq!(lines([&b"\xff\xfe\n\x80"[..]]), [&b"\xff\xfe"[..], b"\x80"]);
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        let stream = "\u{20ac}".repeat(LONGEST);
        let pieces = text(&stream);
        assert!(pieces.iter().all(|piece| piece.len() <= LONGEST));
        assert_eq!(pieces.len(), 4);
        assert_eq!(pieces.concat(), stream);
        let raw = vec![0x80; LONGEST + 1];
        assert_eq!(lines([&raw[..]]).concat(), raw);
    }

    #[test]
    fn of_a_progress_bar_one_state_a_second_is_given_and_the_last_always() {
        let ticks: Vec<String> = (0..=40).map(|tick| format!("\r{tick} of 40")).collect();
        let pieces = ticks.iter().map(String::as_bytes).chain([&b"\nnext\n"[..]]);
        let found = lines(pieces);
        let expected = ["0 of 40", "10 of 40", "20 of 40", "30 of 40", "40 of 40", "next"];
        assert_eq!(found, expected.map(|line| line.as_bytes().to_vec()));
    }
}
