//! Groups whose other ranks are not there.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use consort_store::MemStore;
use consort_sys::host::HostId;
use consort_sys::origin::Own;

use super::devices::Devices;
use super::subgroup::Subgroups;
use super::{Carrier, Group, Job, Member, Rank, Shared};
use crate::backend::Fake;
use crate::error::{Error, Result};
use crate::home::Home;
use crate::options::Options;
use crate::recorder::Recorder;
use crate::traffic::Ledger;

impl Group {
    /// A group in which this process pretends to be one of `world` ranks: for trying out a program
    /// of many ranks on one, and for planning. Calls are checked as always and done at once, but
    /// nothing is sent or combined. They leave what would come of them if every rank had what this
    /// one has, as far as that can be had by copying:
    ///
    /// | call | what it leaves |
    /// |---|---|
    /// | barrier, broadcast | everything as it was |
    /// | all_reduce, reduce | this rank's input, without what the others would have added |
    /// | all_gather, gather on the root | this rank's input in every part |
    /// | scatter on the root, reduce_scatter | this rank's part of its input |
    /// | scatter elsewhere | everything as it was |
    /// | send | everything as it was: the message is lost |
    /// | recv | everything as it was; anybody's message is this rank's |
    /// | all_to_all | each part of the input in the same part of the output |
    ///
    /// Where parts differ in size, one that is larger than what it is made of is filled with that
    /// over and over. In [`split`](Self::split) all ranks give the same colour as this one. There is
    /// no symmetric memory. [`traffic`](Self::traffic) tells what would have been sent.
    ///
    /// ```
    /// let group = consort::Group::fake(3, 1000)?;
    /// let mut everyone = vec![0_u8; group.world()];
    /// group.all_gather(&[7], &mut everyone)?;
    /// assert_eq!(everyone, [7; 1000]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When there is no such rank in so many, or the system does not say which host this is.
    pub fn fake(rank: impl Into<Rank>, world: u32) -> Result<Self> {
        let rank = rank.into();
        if rank.get() >= world {
            return Err(Error::Argument(format!("there is no rank {rank} in a group of {world}")));
        }
        let host = HostId::here().map_err(|error| Error::Host(error.into()))?;
        let process = std::process::id();
        let member = |rank| Member {
            rank: Rank(rank),
            host: host.clone(),
            address: Ipv4Addr::LOCALHOST.into(),
            process,
        };
        let ledger = Arc::<Ledger>::default();
        let job = Job {
            ledger: Some(ledger.clone()),
            name: "fake".to_owned(),
            epoch: 0,
            home: Home::of(rank.get()),
            store: Arc::new(MemStore::new()),
            registry: Arc::new(MemStore::new()),
            options: Options::default(),
            warn_after: None,
            recorder: Own::new(Recorder::none()),
            neighbourhood: None,
            wire: None,
            mpi: None,
            lobby: None,
            exits: Vec::new(),
        };
        let shared = Shared {
            name: "world".to_owned(),
            rank,
            members: (0..world).map(member).collect(),
            world_ranks: (0..world).collect(),
            backend: Arc::new(Fake::new("world", rank, world as usize, ledger)),
            devices: Devices::default(),
            carrier: Carrier::Host,
            lookout: None,
            monitored: Mutex::default(),
            succession: Mutex::default(),
            subgroups: Subgroups::default(),
            values: Mutex::default(),
            commons: None,
            job: Arc::new(job),
        };
        Ok(Self { shared: Arc::new(shared), timeout: TIMEOUT })
    }

    /// A new group of these ranks of a fake one, this one among them, as all ranks together would make it.
    pub(super) fn fake_part(&self, ranks: &[usize]) -> Result<Self> {
        self.barrier()?;
        let name = format!("#{}", self.calls());
        Ok(self.fake_part_named(&name, ranks))
    }

    /// A new group of these ranks of a fake one, this one among them.
    pub(super) fn fake_part_named(&self, name: &str, ranks: &[usize]) -> Self {
        let name = format!("{}/{name}", self.name());
        let place = ranks.iter().position(|&rank| rank == self.rank().index());
        let rank = Rank(place.expect("this rank is among them") as u32);
        let member = |(rank, &old): (u32, &usize)| Member {
            rank: Rank(rank),
            ..self.members()[old].clone()
        };
        let ledger = self.shared.job.ledger.clone().unwrap_or_default();
        let shared = Shared {
            backend: Arc::new(Fake::new(&name, rank, ranks.len(), ledger)),
            name,
            rank,
            members: (0..).zip(ranks).map(member).collect(),
            world_ranks: ranks.iter().map(|&rank| self.world_ranks()[rank]).collect(),
            devices: Devices::default(),
            carrier: Carrier::Host,
            lookout: None,
            monitored: Mutex::default(),
            succession: Mutex::default(),
            subgroups: Subgroups::default(),
            values: Mutex::default(),
            commons: None,
            job: self.shared.job.clone(),
        };
        Self { shared: Arc::new(shared), timeout: self.timeout }
    }
}

/// Nobody is waited for.
const TIMEOUT: Duration = Duration::from_secs(600);
