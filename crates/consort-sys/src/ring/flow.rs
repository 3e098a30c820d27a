//! How far the two ends of a ring have come: the protocol. The README beside this file has its
//! invariants and the scenarios by name; the models are in `models.rs`.

use super::RingError;
use crate::word::Word;

/// What the writing end knows. All counts are of lines since the beginning, and wrap around.
#[derive(Debug)]
pub(super) struct Writer {
    lines: u32,
    written: u32,
    /// How many the reader was known to have read when last looked at.
    read: u32,
}

impl Writer {
    /// Of a ring of so many lines, a power of two.
    pub(super) fn new(lines: u32) -> Self {
        assert!(lines.is_power_of_two());
        Self { lines, written: 0, read: 0 }
    }

    /// The place of a line that is so many ahead of those published.
    pub(super) fn place(&self, ahead: u32) -> usize {
        (self.written.wrapping_add(ahead) & (self.lines - 1)) as usize
    }

    /// How many lines can be written. Looks only if fewer than `wanted` are known.
    pub(super) fn room(&mut self, tail: &impl Word, wanted: u32) -> Result<u32, RingError> {
        let known = self.lines - self.written.wrapping_sub(self.read);
        if known >= wanted.min(self.lines) {
            return Ok(known);
        }
        // Pairs with the reader's giving back: what it gave back, it has read.
        let read = tail.read();
        let unread = self.written.wrapping_sub(read);
        let room =
            self.lines.checked_sub(unread).ok_or_else(|| damaged("tail", self.written, read))?;
        self.read = read;
        Ok(room)
    }

    /// Says that so many more lines are written.
    pub(super) fn publish<W: Word>(&mut self, head: &W, lines: u32) {
        self.written = self.written.wrapping_add(lines);
        head.write(self.written);
    }
}

/// What the reading end knows.
#[derive(Debug)]
pub(super) struct Reader {
    lines: u32,
    read: u32,
    /// How many of the lines read the writer may use again.
    given_back: u32,
    /// How many the writer was known to have written when last looked at.
    written: u32,
}

impl Reader {
    /// Of a ring of so many lines, a power of two.
    pub(super) fn new(lines: u32) -> Self {
        assert!(lines.is_power_of_two());
        Self { lines, read: 0, given_back: 0, written: 0 }
    }

    /// The place of the next line.
    pub(super) fn place(&self) -> usize {
        (self.read & (self.lines - 1)) as usize
    }

    /// How many lines can be read. Looks only if none are known.
    pub(super) fn ready(&mut self, head: &impl Word) -> Result<u32, RingError> {
        if self.written == self.read {
            // Pairs with the writer's publishing: what is counted is written.
            let written = head.read();
            if written.wrapping_sub(self.given_back) > self.lines || self.is_before(written) {
                return Err(damaged("head", written, self.read));
            }
            self.written = written;
        }
        Ok(self.written.wrapping_sub(self.read))
    }

    /// Whether so many lines are fewer than those read.
    fn is_before(&self, written: u32) -> bool {
        written.wrapping_sub(self.given_back) < self.read.wrapping_sub(self.given_back)
    }

    /// Says that so many more lines are read, and gives them back once there are enough of them.
    /// Whether it did.
    pub(super) fn advance<W: Word>(&mut self, tail: &W, lines: u32) -> bool {
        self.read = self.read.wrapping_add(lines);
        let enough = self.read.wrapping_sub(self.given_back) >= (self.lines / 4).max(1);
        if enough {
            self.given_back = self.read;
            tail.write(self.read);
        }
        enough
    }
}

fn damaged(word: &str, written: u32, read: u32) -> RingError {
    RingError::Damaged(format!("by its {word}, {read} of {written} lines are read"))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[test]
    fn counts_that_wrap_around_are_as_good_as_others() {
        let start = u32::MAX - 2;
        let (head, tail) = (AtomicU32::new(start), AtomicU32::new(start));
        let mut writer = Writer { lines: 4, written: start, read: start };
        let mut reader = Reader { lines: 4, read: start, given_back: start, written: start };
        for round in 0..6 {
            assert_eq!(writer.room(&tail, 4).unwrap(), 4);
            let place = writer.place(0);
            writer.publish(&head, 3);
            assert_eq!(writer.room(&tail, 2).unwrap(), 1, "round {round}");
            assert_eq!((reader.place(), reader.ready(&head).unwrap()), (place, 3));
            assert!(reader.advance(&tail, 3));
            assert_eq!(reader.ready(&head).unwrap(), 0);
        }
    }

    #[test]
    fn lines_are_given_back_in_quarters() {
        let (head, tail) = (AtomicU32::new(0), AtomicU32::new(0));
        let (mut writer, mut reader) = (Writer::new(16), Reader::new(16));
        writer.publish(&head, 16);
        reader.ready(&head).unwrap();
        let given_back: Vec<u32> = (0..16)
            .map(|_| {
                reader.advance(&tail, 1);
                writer.room(&tail, 16).unwrap()
            })
            .collect();
        assert_eq!(given_back, [0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12, 16]);
    }

    #[test]
    fn counts_that_cannot_be_are_not_believed() {
        let mut writer = Writer::new(4);
        writer.publish(&AtomicU32::new(0), 1);
        // However often one looks.
        for _ in 0..2 {
            let error = writer.room(&AtomicU32::new(2), 4).unwrap_err();
            let told = "its memory is damaged: by its tail, 2 of 1 lines are read";
            assert_eq!(error.to_string(), told);
        }
        assert_eq!(writer.room(&AtomicU32::new(1), 4).unwrap(), 4);
        let mut reader = Reader::new(4);
        for _ in 0..2 {
            let error = reader.ready(&AtomicU32::new(5)).unwrap_err();
            assert!(error.to_string().contains("by its head, 0 of 5 lines are read"), "{error}");
        }
        assert_eq!(reader.ready(&AtomicU32::new(4)).unwrap(), 4);
    }

    #[test]
    fn lines_that_were_read_and_not_given_back_are_not_unwritten() {
        let mut reader = Reader { lines: 16, read: 3, given_back: 0, written: 3 };
        let error = reader.ready(&AtomicU32::new(2)).unwrap_err();
        assert!(error.to_string().contains("by its head, 3 of 2 lines are read"), "{error}");
        assert_eq!(reader.ready(&AtomicU32::new(5)).unwrap(), 2);
    }
}
