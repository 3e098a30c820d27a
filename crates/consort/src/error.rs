//! What can go wrong when processes meet.

use std::fmt;
use std::time::Duration;

use consort_store::ErrorKind;

/// The result of every call of this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed.
///
/// [`kind`](Error::kind) sorts the variants into the few cases that code acts on.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It is not known who this process is or where to meet.
    #[error("cannot tell who this process is and where to meet\n{0}")]
    Environment(String),

    /// Ranks were started or built differently.
    #[error("rank {rank}: the ranks of this job differ in what has to be the same\n{differences}")]
    Differs {
        /// Who says so.
        rank: u32,
        /// Which ranks have what.
        differences: String,
    },

    /// Some ranks did not come.
    #[error(
        "rank {rank} of {world} waited {waited:.1?} at the meeting: {missing}; were all ranks \
         started, with the same address and secret?"
    )]
    Missing {
        /// Who waited.
        rank: u32,
        /// How many should have come.
        world: u32,
        /// For how long.
        waited: Duration,
        /// Who did not come, or came and gave no word.
        missing: String,
    },

    /// The store failed.
    #[error(transparent)]
    Store(#[from] consort_store::Error),

    /// No network interface could be chosen.
    #[error(transparent)]
    Interface(#[from] consort_sys::net::Error),

    /// The system does not say which host this is.
    #[error("cannot tell which host this is: {0}")]
    Host(std::io::Error),
}

impl fmt::Debug for Error {
    /// As it is shown: `main` prints the `Debug` form of the error it returns.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// The case this error belongs to.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Environment(_) | Self::Differs { .. } | Self::Interface(_) => ErrorKind::Mistake,
            Self::Missing { .. } => ErrorKind::Deadline,
            Self::Store(error) => error.kind(),
            Self::Host(_) => ErrorKind::System,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_sorted_by_what_can_be_done_about_it() {
        let missing = Error::Missing {
            rank: 0,
            world: 2,
            waited: Duration::ZERO,
            missing: "missing rank 1".to_owned(),
        };
        assert_eq!(missing.kind(), ErrorKind::Deadline);
        assert_eq!(Error::Environment(String::new()).kind(), ErrorKind::Mistake);
        let lost = consort_store::Error::Lost { peer: "a:1".to_owned(), reason: "gone".to_owned() };
        assert_eq!(Error::from(lost).kind(), ErrorKind::PeerGone);
    }
}
