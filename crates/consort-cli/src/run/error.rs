//! Why the launcher itself could not do its work.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use consort_store::Error as StoreError;
use rustix::io::Errno;

use crate::files;

/// The launcher could not start or watch its ranks. (A rank that fails is not one of these.)
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    /// A rank could not be started.
    #[error("cannot start rank {rank}: {error}{}", hint(error))]
    Start {
        /// The rank.
        rank: u32,
        /// What the system said.
        error: io::Error,
    },

    /// There are not files enough to watch so many ranks.
    #[error(
        "cannot start {ranks} ranks: the launcher opens {} files a rank and {} for itself, which \
         allows {most} here; `ulimit -n` raises the limit",
        files::LAUNCHER_PER_RANK,
        files::OWN
    )]
    TooManyRanks {
        /// How many were asked for.
        ranks: u32,
        /// How many there can be.
        most: u64,
    },

    /// The directory for output could not be used.
    #[error("cannot write logs to {}: {error}", path.display())]
    LogDir {
        /// What was given.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },

    /// Nobody can ask for metrics.
    #[error(
        "cannot listen at {address} for those who ask for metrics: {error}; give --metrics another \
         port, or 0 for one that the system chooses"
    )]
    Metrics {
        /// Where they would have asked.
        address: SocketAddr,
        /// What the system said.
        error: io::Error,
    },

    /// The store, its secret or the meeting failed.
    #[error(transparent)]
    Store(#[from] StoreError),

    /// The store has not answered for longer than a host may be silent.
    #[error(
        "lost the store at {url}: it has not answered for {since:.1?}; the host that holds it, or \
         the network to it, is gone"
    )]
    StoreSilent {
        /// Where it was.
        url: String,
        /// Since when.
        since: Duration,
    },

    /// No network interface could be chosen.
    #[error(transparent)]
    Interface(#[from] consort_sys::net::Error),

    /// The secret is not on this host yet.
    #[error(
        "there is no file {}: copy it from {holder}, where it is made when the job starts",
        path.display()
    )]
    NoSecret {
        /// What was given.
        path: PathBuf,
        /// The host that holds the meeting.
        holder: String,
    },

    /// The meeting's address means this host only.
    #[error(
        "{host} is {address} on this host, where no other host can come (is it in /etc/hosts?): \
         give --rdzv the address that the others reach"
    )]
    Loopback {
        /// The name that was given.
        host: String,
        /// What it means here.
        address: IpAddr,
    },

    /// The other hosts did not come.
    #[error("only {came} of at least {min} hosts came within {waited:.0?}: {names}")]
    TooFew {
        /// How many came.
        came: usize,
        /// How many are needed.
        min: u32,
        /// How long they were waited for.
        waited: Duration,
        /// Who came.
        names: String,
    },

    /// Our own output could not be written.
    #[error("cannot write the ranks' output: {0}")]
    Output(io::Error),

    /// Something else the system refused.
    #[error("cannot {doing}: {error}")]
    System {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        error: io::Error,
    },
}

impl RunError {
    /// The error, of a job that meets at `url`.
    pub(crate) fn at(self, url: &str) -> Self {
        match self {
            Self::Store(StoreError::Timeout { waited, missing, .. }) if missing.count == 0 => {
                Self::StoreSilent { url: url.to_owned(), since: waited }
            }
            other => other,
        }
    }
}

/// What to do about the limits that a large number of ranks runs into.
fn hint(error: &io::Error) -> &'static str {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::MFILE) => "; `ulimit -n` raises the limit",
        Some(Errno::AGAIN) => "; `ulimit -u` or a control group limits the number of processes",
        _ => "",
    }
}
