//! What can go wrong with NCCL.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use consort_store::ErrorKind;
use consort_sys::dl::NotLoaded;

use super::code::Code;
use super::version::Version;

/// The result of every call of this module that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed. [`kind`](Self::kind) sorts the variants into the few cases that code acts on.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no NCCL, or it cannot be loaded.
    #[error("NCCL cannot be loaded: {0}; {advice}", advice = INSTALL)]
    NotLoaded(NotLoaded),

    /// What `CONSORT_NCCL_LIBRARY` names cannot be loaded.
    #[error("NCCL cannot be loaded: {0}; {advice}", advice = CORRECT)]
    NamedNotLoaded(NotLoaded),

    /// What was loaded is not NCCL.
    #[error("{path} is not NCCL: {reason}", path = path.display())]
    NotNccl {
        /// What was loaded.
        path: PathBuf,
        /// How that is known.
        reason: String,
    },

    /// The NCCL that was loaded does not have what was asked for.
    #[error("{function} needs NCCL {needed} or later, and {found} is loaded{and}", and = lacks(*.needed, *.found))]
    NeedsVersion {
        /// The function, or the field of a configuration.
        function: &'static str,
        /// Since when there is one.
        needed: Version,
        /// What is loaded.
        found: Version,
    },

    /// The caller's mistake: NCCL was not called.
    #[error("{function}: {reason}")]
    Argument {
        /// Which call.
        function: &'static str,
        /// What is wrong with it, and what would be right.
        reason: String,
    },

    /// NCCL said no.
    #[error(transparent)]
    Failed(Box<Failure>),

    /// A call took too long. The communicator is of no use until it is aborted.
    #[error(
        "{function}: rank {rank} of {world} waited {waited:.1?}, and it is still in progress; other ranks may be \
         missing: abort the communicator"
    )]
    Deadline {
        /// Which call.
        function: &'static str,
        /// Who waited.
        rank: u32,
        /// How many ranks there are.
        world: u32,
        /// For how long.
        waited: Duration,
    },

    /// Whoever watched over the call has given up waiting for it.
    #[error("{function}: rank {rank} waits no longer: {reason}; abort the communicator")]
    GivenUp {
        /// Which call.
        function: &'static str,
        /// Who waited.
        rank: u32,
        /// Why.
        reason: String,
    },

    /// Another thread has the communicator: it is in a call, or in a group that it does not end.
    #[error(
        "{function}: another thread has had the communicator of rank {rank} of {world} for {waited:.1?}, in a call or \
         in a group that it has not ended; abort the communicator if it will not"
    )]
    Busy {
        /// Which call.
        function: &'static str,
        /// Whose communicator.
        rank: u32,
        /// How many ranks there are.
        world: u32,
        /// How long it was waited for.
        waited: Duration,
    },

    /// The communicator has been aborted or has come to its end.
    #[error("{function}: the communicator of rank {rank} was {fate}; make another")]
    Ended {
        /// Which call.
        function: &'static str,
        /// Whose communicator.
        rank: u32,
        /// What has become of it.
        fate: &'static str,
    },
}

impl fmt::Debug for Error {
    /// As it is shown: `main` prints the `Debug` form of the error it returns.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// NCCL's own code, if it was NCCL that said no.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Failed(failure) => Some(failure.code),
            _ => None,
        }
    }

    /// What can be done about it.
    ///
    /// ```
    /// use consort::ErrorKind;
    /// use consort::nccl::UniqueId;
    ///
    /// assert_eq!(UniqueId::from_bytes(b"short").unwrap_err().kind(), ErrorKind::Mistake);
    /// ```
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Argument { .. } => ErrorKind::Mistake,
            Self::Deadline { .. } | Self::Busy { .. } => ErrorKind::Deadline,
            Self::Ended { .. } | Self::GivenUp { .. } => ErrorKind::Aborted,
            Self::NotLoaded(_)
            | Self::NamedNotLoaded(_)
            | Self::NotNccl { .. }
            | Self::NeedsVersion { .. } => ErrorKind::System,
            Self::Failed(failure) => match failure.code {
                Code::INVALID_ARGUMENT | Code::INVALID_USAGE => ErrorKind::Mistake,
                Code::REMOTE_ERROR => ErrorKind::PeerGone,
                Code::TIMEOUT => ErrorKind::Deadline,
                _ => ErrorKind::System,
            },
        }
    }

    pub(super) fn argument(function: &'static str, reason: impl Into<String>) -> Self {
        Self::Argument { function, reason: reason.into() }
    }
}

/// What to do where there is none.
pub(crate) const INSTALL: &str = "install it (pip install nvidia-nccl-cu12, or the system's libnccl2), or name the \
                                  file in CONSORT_NCCL_LIBRARY";
/// What to do where the one that is named is none.
pub(crate) const CORRECT: &str =
    "correct CONSORT_NCCL_LIBRARY, or unset it to have consort look by itself";

/// What NCCL said when a function of it failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The function.
    pub function: &'static str,
    /// What it answered.
    pub code: Code,
    /// What NCCL says that means.
    pub text: String,
    /// What NCCL last complained about, on this thread or for this communicator; often nothing.
    pub last: String,
    /// The rank of the communicator, and how many it has, if there was one.
    pub rank: Option<(u32, u32)>,
}

impl std::error::Error for Failure {}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.function)?;
        if let Some((rank, world)) = self.rank {
            write!(f, ": rank {rank} of {world}")?;
        }
        write!(f, ": {}", self.text)?;
        if !self.text.contains(&self.code.0.to_string()) {
            write!(f, " (code {})", self.code.0)?;
        }
        if !self.last.is_empty() {
            write!(f, "; NCCL's last words: {}", self.last)?;
        }
        match self.code.hint() {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

/// What to add when a library is new enough and still does not have it.
fn lacks(needed: Version, found: Version) -> &'static str {
    if found >= needed { ", which was built without it" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_tells_everything_that_is_known() {
        let failure = Failure {
            function: "ncclCommInitRank",
            code: Code::UNHANDLED_CUDA_ERROR,
            text: "unhandled cuda error".to_owned(),
            last: "driver too old".to_owned(),
            rank: Some((1, 4)),
        };
        let text = failure.to_string();
        for part in [
            "ncclCommInitRank: rank 1 of 4: unhandled cuda error (code 1)",
            "NCCL's last words: driver too old",
            "is there a GPU",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn a_function_that_should_be_there_is_missed_in_other_words() {
        let [old, new] = [Version::new(2, 18, 5), Version::new(2, 30, 7)];
        let lacking = |found| Error::NeedsVersion {
            function: "ncclCommShrink",
            needed: Version::new(2, 27, 0),
            found,
        };
        assert_eq!(
            lacking(old).to_string(),
            "ncclCommShrink needs NCCL 2.27.0 or later, and 2.18.5 is loaded"
        );
        assert!(lacking(new).to_string().ends_with("2.30.7 is loaded, which was built without it"));
    }
}
