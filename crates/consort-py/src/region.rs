//! Memory that Python has given by its address.

use std::ptr::{self, NonNull};

use consort::{Source, Target};
use pyo3::prelude::*;

use crate::errors::mistake;

/// Some bytes of a tensor: where they begin, and how many they are.
///
/// It is made of what Python says, and nothing can check that. The package makes one only of a tensor
/// that it has in its hands, and hands over a reference with the call ([`Held`](crate::task::Held)): to
/// the tensor if it waits for the call, to its storage if not, as a tensor may be given another one
/// meanwhile. So the memory is there for as long as anything of that call is, unless the program
/// resizes the storage itself, which no backend of PyTorch's can stand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region(usize, usize);

impl<'py> FromPyObject<'_, 'py> for Region {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let (address, len): (usize, usize) = object.extract()?;
        if address == 0 && len > 0 {
            return Err(mistake(format!("a tensor of {len} bytes has no memory")));
        }
        Ok(Self(address, len))
    }
}

impl Region {
    /// To be written, or read.
    pub(crate) fn target<'a>(self) -> Target<'a> {
        let Self(address, len) = self;
        // A tensor without elements may be nowhere.
        let start = NonNull::new(ptr::with_exposed_provenance_mut(address));
        let start = start.unwrap_or(NonNull::dangling());
        // SAFETY: the package has made it of a tensor that lies there, whose storage is kept until the
        // call that this is for has ended; no Rust reference to the memory of a tensor exists.
        unsafe { Target::from_raw(start, len) }
    }

    /// To be read.
    pub(crate) fn source<'a>(self) -> Source<'a> {
        self.target().into()
    }
}
