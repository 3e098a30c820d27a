//! Who owns bytes of a device.

use consort_sys::view::{Source, Target};

use super::Memory;
use crate::symm::DeviceSymmetric;

/// Bytes of a device that somebody owns, so that a [call](super::calls) can own them meanwhile.
///
/// A call that has failed gives them back when the device does nothing more with them. If that takes it longer than ten
/// seconds from the end of the group they are given back all the same, and the program's log has an error that says so:
/// then nothing else may be put there before the process has ended. [`Memory`] and
/// [symmetric memory](DeviceSymmetric) see to that themselves when they are dropped; memory of others, such as a pool's,
/// does not.
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
