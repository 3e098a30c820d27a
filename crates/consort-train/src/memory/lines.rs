//! Memory that begins with a cache line.

use bytemuck::{Pod, Zeroable};

/// Whole cache lines, zero at first.
#[derive(Debug)]
pub(super) struct Lines(Vec<Line>);

impl Lines {
    /// With room for so many bytes.
    pub(super) fn new(len: usize) -> Self {
        Self(vec![Line::zeroed(); len.div_ceil(LINE)])
    }

    /// Where they begin. What is written there by others is seen by whoever looks at
    /// [bytes](Self::bytes) afterwards: no reference to them is kept, here or made for this.
    pub(super) fn address(&mut self) -> usize {
        self.0.as_mut_ptr().expose_provenance()
    }

    pub(super) fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.0)
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
    fn memory_begins_with_a_line_and_has_room() {
        for len in [0, 1, 64, 65, 1000] {
            let mut lines = Lines::new(len);
            assert!(lines.bytes().len() >= len);
            assert!(lines.bytes().as_ptr().addr().is_multiple_of(LINE));
            lines.bytes_mut().fill(7);
        }
    }
}
