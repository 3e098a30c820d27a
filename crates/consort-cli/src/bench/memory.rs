//! The two buffers of one of our ranks.

use consort::symm::Symmetric;
use consort::{Error, Group};

/// Where a rank's input and output lie.
#[derive(Debug)]
pub(crate) enum Memory {
    /// In memory of the rank's own.
    Private { input: Vec<u8>, output: Vec<u8> },
    /// One after the other in its window of symmetric memory.
    Symmetric { window: Symmetric<u8>, input: usize, output: usize },
}

impl Memory {
    /// So many bytes for each.
    pub(crate) fn private(input: usize, output: usize) -> Self {
        Self::Private { input: vec![0; input], output: vec![0; output] }
    }

    /// The same in symmetric memory, as every rank has to have it then.
    ///
    /// # Errors
    /// When there is no memory for it, on any rank.
    pub(crate) fn symmetric(group: &Group, input: usize, output: usize) -> Result<Self, Error> {
        // Windows are equal, contributions are not always.
        let mut both = [(input.next_multiple_of(LINE) + output) as u64];
        group.all_reduce(&mut both, consort::ReduceOp::Max)?;
        Ok(Self::Symmetric { window: group.symmetric(both[0] as usize)?, input, output })
    }

    /// Lends both.
    ///
    /// # Errors
    /// Those of `use_them`, or why this rank's window cannot be had.
    pub(crate) fn lend<R>(
        &mut self,
        use_them: impl FnOnce(&mut [u8], &mut [u8]) -> Result<R, Error>,
    ) -> Result<R, Error> {
        match self {
            Self::Private { input, output } => use_them(input, output),
            Self::Symmetric { window, input, output } => {
                let mut window = window.local()?;
                let (first, second) = window.split_at_mut(input.next_multiple_of(LINE));
                use_them(&mut first[..*input], &mut second[..*output])
            }
        }
    }
}

/// So that both begin at a cache line.
const LINE: usize = 64;
