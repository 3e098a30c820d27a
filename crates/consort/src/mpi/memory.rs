//! Memory that MPI works on.

/// Bytes that any kind of number can lie in.
#[derive(Debug, Default)]
pub(crate) struct Staging {
    words: Vec<u64>,
}

/// What an operation of MPI reads and what it writes.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) send: Staging,
    pub(crate) receive: Staging,
}

impl Staging {
    /// All that there are.
    pub(crate) fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.words)
    }

    /// At least so many, with whatever is in them.
    pub(crate) fn of(&mut self, bytes: usize) -> &mut [u8] {
        let words = bytes.div_ceil(size_of::<u64>());
        if self.words.len() < words {
            self.words.resize(words, 0);
        }
        &mut bytemuck::cast_slice_mut(&mut self.words)[..bytes]
    }

    /// Lets go of what is more than anybody should keep.
    pub(crate) fn trim(&mut self, most: usize) {
        if self.words.len() * size_of::<u64>() > most {
            self.words = Vec::new();
        }
    }
}

impl Memory {
    /// Lets go of what is more than anybody should keep.
    pub(crate) fn trim(&mut self, most: usize) {
        self.send.trim(most);
        self.receive.trim(most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_bytes_as_are_asked_for_and_they_stay() {
        let mut staging = Staging::default();
        staging.of(3).copy_from_slice(&[1, 2, 3]);
        assert_eq!(staging.of(17).len(), 17);
        assert_eq!(staging.bytes()[..3], [1, 2, 3]);
        assert_eq!(staging.of(0).len(), 0);
        staging.trim(24);
        assert_eq!(staging.bytes().len(), 24);
        staging.trim(23);
        assert!(staging.bytes().is_empty());
    }
}
