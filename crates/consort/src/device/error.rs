//! What can go wrong with a device.

use std::ffi::CStr;
use std::fmt;

use consort_sys::dl::{Library, NotLoaded};
use consort_sys::view::Space;

/// A number that the driver answers with. Those it does not know today are errors, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Code(pub i32);

impl Code {
    /// What was asked about is not done yet.
    pub const NOT_READY: Self = Self(600);
}

/// Why a device cannot do what it was asked for.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// There is no driver on this host.
    #[error(
        "there is no CUDA driver here ({0}): install NVIDIA's, or name one in CONSORT_CUDA_LIBRARY"
    )]
    NoDriver(NotLoaded),
    /// What `CONSORT_CUDA_LIBRARY` names cannot be loaded.
    #[error("the CUDA driver that is named cannot be loaded ({0}): {advice}", advice = CORRECT)]
    NamedNoDriver(NotLoaded),
    /// It is too old, or something else.
    #[error("{library} has no function {function}: it is too old, or not a CUDA driver")]
    NoFunction {
        /// What was loaded.
        library: String,
        /// What it lacks.
        function: String,
    },
    /// There is no device of this number.
    #[error("there is no device {number}: this process has {count}")]
    NoDevice {
        /// The number.
        number: u16,
        /// How many there are.
        count: u16,
    },
    /// It could not do what it was asked for.
    #[error("the CUDA driver failed in {function}: {text} (code {})", code.0)]
    Failed {
        /// What it was asked for.
        function: &'static str,
        /// Its answer.
        code: Code,
        /// In its own words.
        text: String,
    },
    /// Bytes do not fit.
    #[error("{given} bytes do not fit: there are {there}")]
    Length {
        /// How many were given.
        given: usize,
        /// How many there are.
        there: usize,
    },
    /// Bytes lie in another memory.
    #[error(
        "bytes of {given} cannot be copied within {own}: Memory::read and Memory::write move bytes between \
         a device and the host"
    )]
    Elsewhere {
        /// Where the bytes lie that were given.
        given: Space,
        /// Where they should.
        own: Space,
    },
}

/// What to do where the driver that is named is none.
pub(crate) const CORRECT: &str =
    "correct CONSORT_CUDA_LIBRARY, or unset it to have consort take the system's";

impl fmt::Debug for DeviceError {
    /// As it is shown: `main` prints the `Debug` form of the error it returns.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl DeviceError {
    pub(super) fn missing(library: &Library, function: &CStr) -> Self {
        Self::NoFunction {
            library: library.path().display().to_string(),
            function: function.to_string_lossy().into_owned(),
        }
    }

    /// The driver says that it went well, and gives nothing.
    pub(super) fn nothing(function: &'static str) -> Self {
        let text = "it gave nothing, and said that it went well".to_owned();
        Self::Failed { function, code: Code(0), text }
    }
}
