//! Where the ranks of one host stand in the job.

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
    /// Ranks in the job.
    pub(crate) world: u32,
    /// Where rank 0 may listen.
    pub(crate) master_address: String,
    /// The port that is kept free there.
    pub(crate) master_port: u16,
    /// The job's store, for ranks that use ours.
    pub(crate) store: Option<String>,
}

impl Placement {
    /// A job that has this host to itself.
    pub(crate) fn one_host(job: &str, restarts: u32, ranks: u32, master_port: u16) -> Self {
        Self {
            job: job.to_owned(),
            epoch: u64::from(restarts),
            restarts,
            node: 0,
            nodes: 1,
            first_rank: 0,
            local_world: ranks,
            world: ranks,
            master_address: "127.0.0.1".to_owned(),
            master_port,
            store: None,
        }
    }

    /// The rank of this host's process number `local_rank`.
    pub(crate) fn rank(&self, local_rank: u32) -> u32 {
        self.first_rank + local_rank
    }
}
