//! Buffers that begin anywhere and show when something is written beside them.

use consort::Target;

/// A buffer between two margins.
pub(crate) struct Room {
    bytes: Vec<u8>,
    lead: usize,
    len: usize,
}

impl Room {
    /// How large a margin is at most.
    pub(crate) const MARGIN: usize = 16;

    /// A copy of this data, which begins so many bytes after an aligned place.
    pub(crate) fn holding(data: &[u8], lead: usize) -> Self {
        let mut room = Self::empty(data.len(), lead);
        room.bytes[lead..lead + data.len()].copy_from_slice(data);
        room
    }

    /// So many bytes that hold nothing of use.
    pub(crate) fn empty(len: usize, lead: usize) -> Self {
        Self { bytes: vec![MARK; lead + len + Self::MARGIN], lead, len }
    }

    pub(crate) fn target(&mut self) -> Target<'_> {
        Target::from(&mut self.bytes[self.lead..self.lead + self.len])
    }

    /// Copies it, with its margins, to the beginning of some memory. Returns where it is there.
    pub(crate) fn move_into<'m>(&self, memory: &'m mut [u8]) -> Target<'m> {
        memory[..self.bytes.len()].copy_from_slice(&self.bytes);
        self.target_in(memory)
    }

    /// Where it is in memory that it was moved to.
    pub(crate) fn target_in<'m>(&self, memory: &'m mut [u8]) -> Target<'m> {
        Target::from(&mut memory[self.lead..self.lead + self.len])
    }

    /// Takes it from there again.
    pub(crate) fn move_back(&mut self, memory: &[u8]) {
        let len = self.bytes.len();
        self.bytes.copy_from_slice(&memory[..len]);
    }

    /// What is in it.
    ///
    /// # Panics
    /// When something was written beside it.
    pub(crate) fn bytes(&self) -> &[u8] {
        let (before, rest) = self.bytes.split_at(self.lead);
        let (inside, behind) = rest.split_at(self.len);
        for margin in [before, behind] {
            assert!(
                margin == &[MARK; Self::MARGIN][..margin.len()],
                "something was written beside it"
            );
        }
        inside
    }
}

const MARK: u8 = 0xa5;
