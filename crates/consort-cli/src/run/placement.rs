//! Where the ranks of one host stand in the job.

use std::path::PathBuf;

use consort_store::Round;

use super::venue::Venue;

/// What a round decided for this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    /// The job's name.
    pub(crate) job: String,
    /// The round; every start of the ranks is a new one.
    pub(crate) epoch: u64,
    /// How often all ranks were started again after a failure.
    pub(crate) restarts: u32,
    /// This host among the hosts.
    pub(crate) node: u32,
    /// Hosts in this round.
    pub(crate) nodes: u32,
    /// The rank of this host's first process.
    pub(crate) first_rank: u32,
    /// Ranks on this host.
    pub(crate) local_world: u32,
    /// Ranks on each of the hosts.
    pub(crate) slots: Vec<u32>,
    /// Ranks in the job.
    pub(crate) world: u32,
    /// Where rank 0 may listen.
    pub(crate) master_address: String,
    /// The port that is kept free there.
    pub(crate) master_port: u16,
    /// The job's store, for ranks that use ours.
    pub(crate) store: String,
    /// Where the ranks can read the job's secret.
    pub(crate) secret_file: PathBuf,
}

impl Placement {
    /// This host's part of a round.
    pub(crate) fn of(round: &Round, venue: &Venue) -> Self {
        let first = &round.nodes[0];
        Self {
            job: round.job.clone(),
            epoch: round.epoch,
            restarts: round.restarts,
            node: round.place as u32,
            nodes: round.nodes.len() as u32,
            first_rank: round.first_rank(),
            local_world: round.nodes[round.place].slots,
            slots: round.nodes.iter().map(|node| node.slots).collect(),
            world: round.world(),
            master_address: first.address.clone(),
            master_port: first.port,
            store: venue.url(),
            secret_file: venue.secret.path().to_owned(),
        }
    }

    /// The rank of this host's process number `local_rank`.
    pub(crate) fn rank(&self, local_rank: u32) -> u32 {
        self.first_rank + local_rank
    }
}
