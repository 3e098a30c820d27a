//! Memory that Python has given by its address.

use std::ptr::{self, NonNull};

use consort::{Source, Target};
use pyo3::prelude::*;

/// Some bytes of a tensor: where they begin, and how many they are.
///
/// It is made of what Python says, and nothing can check that. The package makes one only of a tensor
/// that it has in its hands, and hands over a reference to it with the call ([`Held`](crate::task::Held)),
/// so the memory is there for as long as anything of that call is.
#[derive(Clone, Copy, Debug, FromPyObject)]
pub(crate) struct Region(usize, usize);

impl Region {
    /// To be written, or read.
    pub(crate) fn target<'a>(self) -> Target<'a> {
        let Self(address, len) = self;
        let start = NonNull::new(ptr::with_exposed_provenance_mut(address));
        let (start, len) = start.map_or((NonNull::dangling(), 0), |start| (start, len));
        // SAFETY: the package has made it of a tensor that lies there, which is kept alive until the
        // call that this is for has ended; no Rust reference to the memory of a tensor exists.
        unsafe { Target::from_raw(start, len) }
    }

    /// To be read.
    pub(crate) fn source<'a>(self) -> Source<'a> {
        self.target().into()
    }
}
