//! A process's hold on the group it belongs to.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use consort_store::{Deadline, Store};
use consort_sys::host::HostId;

use crate::error::Result;
use crate::meeting::Exit;

/// A process's number in its group: from 0 up to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank(pub(crate) u32);

impl Rank {
    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The number, to index with.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One process of a group, as all know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its number.
    pub rank: Rank,
    /// The host it runs on. Members with equal hosts can share memory.
    pub host: HostId,
    /// The address under which its host can be reached.
    pub address: IpAddr,
    /// Its process number on that host.
    pub process: u32,
}

/// A process's hold on its group: who it is, who the others are, and the store they share.
///
/// ```
/// let group = consort::Builder::new().rank(0).world(1).init()?;
/// assert_eq!((group.rank().get(), group.world()), (0, 1));
/// group.store().set("phase", b"training")?;
/// # Ok::<(), consort::Error>(())
/// ```
#[derive(Debug)]
pub struct Group {
    pub(crate) rank: Rank,
    pub(crate) job: String,
    pub(crate) epoch: u64,
    pub(crate) members: Vec<Member>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) timeout: Duration,
    #[expect(dead_code, reason = "leaving is what it does when it is dropped")]
    pub(crate) exit: Option<Exit>,
}

impl Group {
    /// This process's number.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// How many processes there are.
    pub fn world(&self) -> usize {
        self.members.len()
    }

    /// This process's number among those on its host.
    pub fn local_rank(&self) -> usize {
        self.here().take_while(|member| member.rank != self.rank).count()
    }

    /// How many processes of the group are on this one's host.
    pub fn local_world(&self) -> usize {
        self.here().count()
    }

    /// All processes, in the order of ranks.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The job's name.
    pub fn job(&self) -> &str {
        &self.job
    }

    /// The round of the job: it grows each time the launcher starts the ranks anew.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The store that all ranks of this round share, for small things: keys written here are
    /// the program's own.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// How long this group's calls wait for the other ranks.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Waits until every rank has come to the barrier of this name. It can be used again and
    /// again.
    ///
    /// # Errors
    /// After the group's timeout, an error that names the ranks which did not come.
    pub fn barrier(&self, name: &str) -> Result<()> {
        let world = u32::try_from(self.world()).expect("ranks are 32-bit numbers");
        let until = Deadline::after(self.timeout);
        Ok(self.store.barrier(&format!("barrier/{name}"), self.rank.0, world, until)?)
    }

    fn here(&self) -> impl Iterator<Item = &Member> {
        let host = &self.members[self.rank.index()].host;
        self.members.iter().filter(move |member| member.host == *host)
    }
}
