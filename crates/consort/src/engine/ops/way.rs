//! Which way a result takes to its place.

use consort_sys::view::{Source, Target};

/// Through the processor's caches, or past them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Through,
    PastCache,
}

impl Way {
    /// For results of so many bytes on each of `world` ranks, who share the caches of a host.
    #[inline]
    pub(super) fn of(bytes: usize, world: usize) -> Self {
        if bytes.saturating_mul(world) >= LARGE { Self::PastCache } else { Self::Through }
    }

    /// Copies a part of the result.
    #[inline]
    pub(super) fn copy(self, from: Source<'_>, to: Target<'_>) {
        match self {
            Self::Through => to.copy_from(from),
            Self::PastCache => to.stream_from(from),
        }
    }
}

/// So much does not stay in the caches that are near a core, and those that are further away are
/// hardly faster than memory.
pub(super) const LARGE: usize = 8 << 20;
