//! The engines that this host has, beside consort's own.

use consort::engines::{self, Found};

/// What was found of each, or why it cannot be used.
#[derive(Clone, Debug)]
pub(crate) struct Engines {
    pub(crate) mpi: Result<Found, String>,
    pub(crate) nccl: Result<Found, String>,
}

impl Engines {
    pub(super) fn gather() -> Self {
        Self { mpi: engines::mpi(), nccl: engines::nccl() }
    }
}
