//! Buffers that begin anywhere and show when something is written beside them.

use consort::{Source, Target};

/// A buffer between two margins.
pub(crate) struct Room {
    bytes: Vec<u8>,
    lead: usize,
    len: usize,
}

impl Room {
    /// A copy of this data, which begins so many bytes after an aligned place.
    pub(crate) fn holding(data: &[u8], lead: usize) -> Self {
        let mut room = Self::empty(data.len(), lead);
        room.bytes[lead..lead + data.len()].copy_from_slice(data);
        room
    }

    /// So many bytes that hold nothing of use.
    pub(crate) fn empty(len: usize, lead: usize) -> Self {
        Self { bytes: vec![MARK; lead + len + TAIL], lead, len }
    }

    pub(crate) fn source(&self) -> Source<'_> {
        Source::from(self.bytes())
    }

    pub(crate) fn target(&mut self) -> Target<'_> {
        Target::from(&mut self.bytes[self.lead..self.lead + self.len])
    }

    /// What is in it.
    ///
    /// # Panics
    /// When something was written beside it.
    pub(crate) fn bytes(&self) -> &[u8] {
        let (before, rest) = self.bytes.split_at(self.lead);
        let (inside, behind) = rest.split_at(self.len);
        for margin in [before, behind] {
            assert!(margin == &[MARK; TAIL][..margin.len()], "something was written beside it");
        }
        inside
    }

    /// Nothing was written into it.
    pub(crate) fn is_untouched(&self) -> bool {
        self.bytes() == vec![MARK; self.len]
    }
}

const MARK: u8 = 0xa5;
const TAIL: usize = 16;
