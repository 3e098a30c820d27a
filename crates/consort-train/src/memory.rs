//! Memory for gradients, which begins with a cache line.

use bytemuck::{Pod, Zeroable};

/// Bytes that begin with a cache line, zero at first.
#[derive(Debug)]
pub(crate) struct Memory {
    lines: Vec<Line>,
    len: usize,
}

impl Memory {
    pub(crate) fn new(len: usize) -> Self {
        Self { lines: vec![Line::zeroed(); len.div_ceil(LINE)], len }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.lines)[..self.len]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.len]
    }
}

/// What a processor fetches at a time.
pub(crate) const LINE: usize = 64;

#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Zeroable, Pod)]
struct Line([u8; LINE]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_begins_with_a_line_and_is_as_long_as_asked_for() {
        for len in [0, 1, 64, 65, 1000] {
            let mut memory = Memory::new(len);
            assert_eq!(memory.bytes().len(), len);
            assert!(memory.bytes().as_ptr().addr().is_multiple_of(LINE));
            memory.bytes_mut().fill(7);
            assert!(memory.bytes().iter().all(|byte| *byte == 7));
        }
    }
}
