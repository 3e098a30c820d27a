//! A process's hold on the group it belongs to.

mod subgroup;

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use consort_store::{Deadline, Store};
use consort_sys::host::HostId;

use crate::call::Call;
use crate::engine::{Lane, Post};
use crate::error::{Error, Result};
use crate::meeting::Exit;
use crate::neighbourhood::Neighbourhood;
use crate::symm::Commons;

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

    /// The number, to compute with.
    pub const fn as_f32(self) -> f32 {
        self.0 as f32
    }
}

impl From<u32> for Rank {
    fn from(number: u32) -> Self {
        Self(number)
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

/// A process's hold on its group: who it is, who the others are, and what they do together.
///
/// Clones are the same group. It can be used by several threads: calls are carried out one after
/// the other, and every rank has to make the same calls in the same order.
///
/// ```
/// let group = consort::Builder::new().rank(0).world(1).init()?;
/// assert_eq!((group.rank().get(), group.world()), (0, 1));
/// let mut numbers = [1.0_f32, 2.0];
/// group.all_reduce(&mut numbers, consort::ReduceOp::Sum)?;
/// # Ok::<(), consort::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Group {
    pub(crate) shared: Arc<Shared>,
    timeout: Duration,
}

/// What all clones of a group share.
#[derive(Debug)]
pub(crate) struct Shared {
    name: String,
    rank: Rank,
    members: Vec<Member>,
    /// The ranks of the members in the world.
    world_ranks: Vec<u32>,
    lane: Option<Mutex<Lane>>,
    /// If all members are on one host.
    pub(crate) commons: Option<Commons>,
    post: Option<Arc<Post>>,
    pub(crate) job: Arc<Job>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(lane) = self.lane.take() {
            let lane = lane.into_inner().unwrap_or_else(PoisonError::into_inner);
            self.job.neighbourhood.take_back(lane);
        }
    }
}

/// What all groups of a process share.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) name: String,
    pub(crate) epoch: u64,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) neighbourhood: Neighbourhood,
    #[expect(dead_code, reason = "leaving is what it does when it is dropped")]
    pub(crate) exit: Option<Exit>,
}

impl Group {
    /// The group of all.
    pub(crate) fn of_all(
        rank: u32,
        members: Vec<Member>,
        lane: Option<Lane>,
        job: Job,
        timeout: Duration,
    ) -> Self {
        let shared = Shared {
            name: "world".to_owned(),
            rank: Rank(rank),
            world_ranks: (0..members.len() as u32).collect(),
            members,
            commons: lane.as_ref().map(|lane| Commons::new(lane.lookout())),
            post: lane.as_ref().map(|lane| lane.post().clone()),
            lane: lane.map(Mutex::new),
            job: Arc::new(job),
        };
        Self { shared: Arc::new(shared), timeout }
    }

    /// This process's number.
    pub fn rank(&self) -> Rank {
        self.shared.rank
    }

    /// How many processes there are.
    pub fn world(&self) -> usize {
        self.shared.members.len()
    }

    /// The group's name: `world` for all ranks; others are named after the group they are part of.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// This process's number among those on its host.
    pub fn local_rank(&self) -> usize {
        self.here().take_while(|member| member.rank != self.rank()).count()
    }

    /// How many processes of the group are on this one's host.
    pub fn local_world(&self) -> usize {
        self.here().count()
    }

    /// All processes, in the order of ranks.
    pub fn members(&self) -> &[Member] {
        &self.shared.members
    }

    /// The ranks that the members have in the group of all, in the order of their ranks here.
    pub fn world_ranks(&self) -> &[u32] {
        &self.shared.world_ranks
    }

    /// The job's name.
    pub fn job(&self) -> &str {
        &self.shared.job.name
    }

    /// The round of the job: it grows each time the launcher starts the ranks anew.
    pub fn epoch(&self) -> u64 {
        self.shared.job.epoch
    }

    /// The store that all ranks of this round share, for small things: keys written here are
    /// the program's own.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.shared.job.store
    }

    /// How long this group's calls wait for the other ranks.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The same group, whose calls wait so long for the other ranks.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// group.within(std::time::Duration::from_secs(5)).barrier()?;
    /// # Ok::<(), consort::Error>(())
    /// ```
    #[must_use]
    pub fn within(&self, timeout: Duration) -> Self {
        Self { shared: self.shared.clone(), timeout }
    }

    /// How many calls this rank has made in this group.
    pub fn calls(&self) -> u64 {
        self.shared.lane.as_ref().map_or(0, |lane| lock(lane).number())
    }

    /// Makes a call whose types are known only at run time. It is carried out on this thread.
    ///
    /// # Errors
    /// [`Error::Argument`] or [`Error::Unsupported`] before anything moves; any other error ends
    /// the group on all ranks.
    #[inline]
    pub fn call(&self, call: &Call<'_>) -> Result<()> {
        call.check(self.rank(), self.world())?;
        self.lane()?.run(call, self.timeout, false)
    }

    /// Makes a call whose operand lies in symmetric memory on every rank, and is worked on there.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub(crate) fn call_in_windows(&self, call: &Call<'_>) -> Result<()> {
        call.check(self.rank(), self.world())?;
        self.lane()?.run(call, self.timeout, true)
    }

    /// Ends the group, here and for all other ranks: whoever waits in it, or calls it later, gets
    /// an error that names this rank and the reason.
    pub fn abort(&self, reason: &str) {
        if let Ok(mut lane) = self.lane() {
            lane.abort(reason);
        }
    }

    #[inline]
    pub(crate) fn is_on_one_host(&self) -> bool {
        self.shared.lane.is_some()
    }

    /// Hosts that share no memory share the store.
    pub(crate) fn barrier_in_store(&self) -> Result<()> {
        let world = u32::try_from(self.world()).expect("ranks are 32-bit numbers");
        let until = Deadline::after(self.timeout);
        let name = format!("barrier/{}", self.name());
        Ok(self.store().barrier(&name, self.rank().0, world, until)?)
    }

    #[inline]
    fn lane(&self) -> Result<MutexGuard<'_, Lane>> {
        match &self.shared.lane {
            Some(lane) => Ok(lock(lane)),
            None => Err(self.several_hosts()),
        }
    }

    #[inline]
    pub(crate) fn post(&self) -> Result<&Post> {
        self.shared.post.as_deref().ok_or_else(|| self.several_hosts())
    }

    fn several_hosts(&self) -> Error {
        Error::SeveralHosts { group: self.name().to_owned() }
    }

    fn here(&self) -> impl Iterator<Item = &Member> {
        let members = &self.shared.members;
        let host = &members[self.rank().index()].host;
        members.iter().filter(move |member| member.host == *host)
    }
}

#[inline]
fn lock(lane: &Mutex<Lane>) -> MutexGuard<'_, Lane> {
    lane.lock().unwrap_or_else(PoisonError::into_inner)
}
