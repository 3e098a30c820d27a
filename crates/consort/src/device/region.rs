//! Who owns bytes of a device.

use consort_sys::view::{Source, Target};

use super::Memory;
use crate::symm::DeviceSymmetric;

/// Bytes of a device that somebody owns, so that a [call](super::calls) can own them meanwhile.
///
/// ```
/// use consort::device::{Memory, Region};
/// use consort::{Source, Target};
///
/// /// The part of some memory that is in use.
/// #[derive(Debug)]
/// struct Bucket {
///     memory: Memory,
///     len: usize,
/// }
///
/// impl Region for Bucket {
///     fn source(&self) -> Source<'_> {
///         self.memory.source().slice(0..self.len)
///     }
///
///     fn target(&mut self) -> Target<'_> {
///         self.memory.target().slice(0..self.len)
///     }
/// }
/// ```
pub trait Region: Send + 'static {
    /// Their name for calls that read them.
    fn source(&self) -> Source<'_>;

    /// Their name for calls that write them.
    fn target(&mut self) -> Target<'_>;
}

impl Region for Memory {
    fn source(&self) -> Source<'_> {
        Self::source(self)
    }

    fn target(&mut self) -> Target<'_> {
        Self::target(self)
    }
}

impl Region for DeviceSymmetric {
    fn source(&self) -> Source<'_> {
        Self::source(self)
    }

    fn target(&mut self) -> Target<'_> {
        Self::target(self)
    }
}
