//! A process's hold on the group it belongs to.

mod among;
mod devices;
mod fake;
mod formation;
mod grow;
mod monitored;
mod presence;
mod shrink;
mod split;
mod subgroup;

use std::fmt;
use std::net::IpAddr;
use std::panic::Location;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use consort_store::Store;
use consort_sys::host::HostId;
use consort_sys::origin::Own;

use self::devices::Devices;
pub use self::presence::Presence;
use self::shrink::Succession;
use self::subgroup::Subgroups;
use crate::backend::{Backend, Capabilities, Terms};
use crate::builder::Invitation;
use crate::call::{Call, Description, Purpose};
use crate::engine::{Lookout, waits_for_itself};
use crate::error::{Error, Result};
use crate::home::Home;
use crate::meeting::{Exit, Lobby};
use crate::mpi::Hold;
use crate::neighbourhood::{Neighbourhood, Places};
use crate::options::Options;
use crate::recorder::Recorder;
use crate::symm::Commons;
use crate::trace::RankTrace;
use crate::traffic::Ledger;
use crate::wire::Wire;

/// A process's number in its group: from 0 up to the world.
///
/// ```
/// let right_of = |rank: consort::Rank, world: u32| consort::Rank::from((rank.get() + 1) % world);
/// assert_eq!(right_of(3.into(), 4).index(), 0);
/// assert!(right_of(0.into(), 4) == 1);
/// ```
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

impl PartialEq<u32> for Rank {
    fn eq(&self, number: &u32) -> bool {
        self.0 == *number
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One process of a group, as all know it.
///
/// ```
/// let group = consort::Builder::new().rank(0).world(1).init()?;
/// let me = &group.members()[group.rank().index()];
/// assert_eq!((me.rank, me.process), (group.rank(), std::process::id()));
/// let here = group.members().iter().filter(|member| member.host == me.host);
/// assert_eq!(here.count(), group.local_world());
/// # Ok::<(), consort::Error>(())
/// ```
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
/// It is this process's alone. A child that is forked from it cannot use it: whatever it asks of
/// the group gives [`Error::Forked`], and when it drops the group nobody hears of that. What cannot
/// give an error it must leave alone: the slice of a [window](crate::symm::Window) is its parent's
/// memory, a [work](crate::Work) or a [scope](Self::scope) is never done. It can call
/// [`init`](crate::init) by itself.
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
    members: Arc<[Member]>,
    /// The ranks of the members in the world.
    world_ranks: Arc<[u32]>,
    backend: Arc<dyn Backend>,
    /// Who carries out those on the memory of devices.
    devices: Devices,
    /// What carries its data, and that of the groups of its ranks.
    carrier: Carrier,
    /// What its threads know of the ranks, unless somebody else carries out its calls.
    lookout: Option<Lookout>,
    /// How many monitored barriers there were.
    monitored: Mutex<u64>,
    /// How far this rank has come with a smaller one.
    succession: Mutex<Succession>,
    /// Groups of some of its ranks that were asked for by their list.
    subgroups: Subgroups,
    /// How many calls were made on [values](crate::functional).
    values: Mutex<u64>,
    /// If all members share memory.
    pub(crate) commons: Option<Arc<Commons>>,
    pub(crate) job: Arc<Job>,
}

/// What carries the data of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// The ranks themselves, in whatever way they can.
    Host,
    /// MPI.
    Mpi,
}

/// What all groups of a process share.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) name: String,
    pub(crate) epoch: u64,
    pub(crate) home: Home,
    pub(crate) store: Arc<dyn Store>,
    /// Where ranks settle things among themselves. It does not wait long for a store that is gone.
    pub(crate) registry: Arc<dyn Store>,
    pub(crate) options: Options,
    /// How long a rank waits for others before it says so, if it ever does.
    pub(crate) warn_after: Option<Duration>,
    pub(crate) recorder: Own<Recorder>,
    /// `None` if this process only pretends to be a rank.
    pub(crate) neighbourhood: Option<Own<Neighbourhood>>,
    /// What was asked for, if this process only pretends to be a rank.
    pub(crate) ledger: Option<Arc<Ledger>>,
    /// If there are ranks that this one shares no memory with.
    pub(crate) wire: Option<Own<Wire>>,
    /// If this process has begun MPI, for its data or to meet the others.
    pub(crate) mpi: Option<Hold>,
    /// Where others wait who want to join, and how it was invited itself; `None` for one who only
    /// pretends.
    pub(crate) lobby: Option<(Lobby, Invitation)>,
    /// How it leaves the meetings that it has been to: when the last hold on them is let go.
    pub(crate) exits: Vec<Arc<Own<Exit>>>,
}

impl Job {
    /// The ranks of this host.
    ///
    /// # Errors
    /// When this process only pretends to be a rank, or is a forked child of one.
    pub(crate) fn neighbourhood(&self) -> Result<&Neighbourhood> {
        self.home.check()?;
        self.neighbourhood.as_deref().ok_or(Error::Fake)
    }
}

impl Group {
    /// The group of all.
    ///
    /// # Errors
    /// When there are too many on this host.
    pub(crate) fn of_all(
        name: String,
        rank: u32,
        members: Vec<Member>,
        places: Places,
        job: Job,
        timeout: Duration,
        carrier: Carrier,
    ) -> Result<Self> {
        let job = Arc::new(job);
        let world_ranks = (0..members.len() as u32).collect();
        let (rank, places) = (Rank(rank), Some(places));
        let shared = job.form(name, rank, members, world_ranks, places, (carrier, timeout))?;
        Ok(Self { shared: Arc::new(shared), timeout }.recorded())
    }

    /// This process's number.
    pub fn rank(&self) -> Rank {
        self.shared.rank
    }

    /// How many processes there are.
    pub fn world(&self) -> usize {
        self.shared.members.len()
    }

    /// The group's name: `world` for all ranks, `world+1` and so on when others have
    /// [joined](Self::grow), `world~1` when some are [gone](Self::shrink); others are named after the
    /// group they are part of.
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

    /// The rank that a process has here which has this one in the group of all, if it is a member.
    ///
    /// ```
    /// let group = consort::Group::fake(0, 4)?;
    /// assert_eq!(group.rank_of(3), Some(3.into()));
    /// assert_eq!(group.rank_of(4), None);
    /// # Ok::<(), consort::Error>(())
    /// ```
    pub fn rank_of(&self, world_rank: u32) -> Option<Rank> {
        let at = self.shared.world_ranks.iter().position(|&rank| rank == world_rank)?;
        Some(Rank(at as u32))
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
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// group.store().set("learning rate", b"0.1")?;
    /// assert!(group.store().check(&["learning rate"])?);
    /// # Ok::<(), consort::Error>(())
    /// ```
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.shared.job.store
    }

    /// How long this group's calls wait for the other ranks.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The same group, whose calls wait so long for the other ranks.
    ///
    /// The time counts from when a call is made, even if other threads or asynchronous calls are
    /// before it. When it has passed, the group ends for all ranks, with the calls before it that
    /// were kept waiting: no rank can leave out a call that others make.
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
        self.shared.backend.calls() + self.shared.devices.calls()
    }

    /// What carries out the group's calls can do.
    ///
    /// # Errors
    /// In a forked child.
    pub fn capabilities(&self) -> Result<&Capabilities> {
        Ok(self.backend()?.capabilities())
    }

    /// The name of what carries out the group's calls: `shm` if it is this host's shared memory, `tcp`
    /// if it is connections between all ranks, `mixed` if it is both.
    ///
    /// # Errors
    /// In a forked child.
    pub fn backend_name(&self) -> Result<&'static str> {
        Ok(self.backend()?.name())
    }

    /// The same ranks, with somebody else to carry out their calls. Every rank has to do the same.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use consort::{Backend, Group};
    ///
    /// /// What a program is given that does not care who carries out its calls.
    /// fn group_with(backend: Arc<dyn Backend>) -> consort::Result<Group> {
    ///     Ok(consort::init()?.with_backend(backend))
    /// }
    /// ```
    #[must_use]
    pub fn with_backend(&self, backend: Arc<dyn Backend>) -> Self {
        let Shared { name, rank, members, world_ranks, carrier, commons, job, .. } = &*self.shared;
        let shared = Shared {
            name: name.clone(),
            rank: *rank,
            members: members.clone(),
            world_ranks: world_ranks.clone(),
            backend,
            devices: self.shared.devices.as_it_is(),
            carrier: *carrier,
            lookout: None,
            monitored: Mutex::default(),
            succession: Mutex::default(),
            subgroups: Subgroups::default(),
            values: Mutex::default(),
            commons: commons.clone(),
            job: job.clone(),
        };
        Self { shared: Arc::new(shared), timeout: self.timeout }
    }

    /// Makes a call whose types are known only at run time. It is carried out on this thread.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// use consort::{Call, Dtype, ReduceOp, Target};
    ///
    /// // What a binding knows of somebody's tensor: where its bytes are, and what they mean.
    /// let mut tensor = 1.5_f32.to_ne_bytes();
    /// let output = Target::from(&mut tensor[..]);
    /// let (dtype, op) = (Dtype::F32, ReduceOp::Sum);
    /// group.call(&Call::AllReduce { dtype, op, input: output.into(), output })?;
    /// assert_eq!(f32::from_ne_bytes(tensor), 1.5);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Argument`] or [`Error::Unsupported`] before anything moves: this rank has not made
    /// the call, and may make another. If the others have made it, they wait for this one: a rank
    /// that will not make it after all should [`abort`](Self::abort) the group, or they wait until
    /// their timeout. Any other error ends the group on all ranks.
    #[inline]
    #[track_caller]
    pub fn call(&self, call: &Call<'_>) -> Result<()> {
        self.admit(call)?.run(call, self.terms(Location::caller())).map(drop)
    }

    /// Makes a call that the program has not asked for by itself. Says which of the group's calls it
    /// was.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    #[track_caller]
    pub(crate) fn call_for(&self, purpose: Purpose, call: &Call<'_>) -> Result<u64> {
        self.admit(call)?.run(call, Terms { purpose, ..self.terms(Location::caller()) })
    }

    /// Makes a call whose operand lies in symmetric memory on every rank, and is worked on there.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    #[track_caller]
    pub(crate) fn call_in_windows(&self, call: &Call<'_>) -> Result<()> {
        self.admit(call)?
            .run(call, Terms { in_windows: true, ..self.terms(Location::caller()) })?;
        Ok(())
    }

    /// Makes a call in which buffers of these sizes travel together.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    #[track_caller]
    pub(crate) fn call_together(
        &self,
        call: &Call<'_>,
        sizes: impl Iterator<Item = usize>,
    ) -> Result<()> {
        let sizes = Description::digest_of(sizes);
        self.admit(call)?.run(call, Terms { sizes, ..self.terms(Location::caller()) }).map(drop)
    }

    /// Ends the group, here and for all other ranks: whoever waits in it, or calls it later, gets
    /// an error that names this rank and the reason. Never waits for long, even while another thread
    /// is in a call.
    ///
    /// ```
    /// use consort::Error;
    ///
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// group.abort("the disk is full");
    /// let Err(Error::Aborted { by, reason, .. }) = group.barrier() else { unreachable!() };
    /// assert_eq!((by, &reason[..]), (0, "the disk is full"));
    /// # Ok::<(), consort::Error>(())
    /// ```
    pub fn abort(&self, reason: &str) {
        match self.shared.job.home.check() {
            Ok(()) => {
                self.shared.backend.abort(reason);
                self.shared.devices.abort(reason);
            }
            Err(forked) => tracing::error!("the group is not ended: {forked}"),
        }
    }

    /// Why the group has failed, if it has: the error that its next call would give. Never waits
    /// for other ranks, even while another thread is in a call. Where not all of them share memory it may
    /// wait two seconds for a store that does not answer.
    ///
    /// It is what this rank knows. That another rank has given the group up it knows at once, and so it
    /// does that the process of one on its host, or of one that it has a connection to, has ended though
    /// that rank has not left the group: then the group ends here, with an error that names that rank,
    /// and on all other ranks. Of a death elsewhere it hears when another rank has found it.
    ///
    /// ```
    /// let group = consort::Builder::new().rank(0).world(1).init()?;
    /// assert!(group.error().is_none());
    /// group.abort("the data has run out");
    /// let failure = group.error().expect("it was given up");
    /// assert_eq!(failure.to_string(), group.barrier().unwrap_err().to_string());
    /// # Ok::<(), consort::Error>(())
    /// ```
    pub fn error(&self) -> Option<Error> {
        let forked = self.shared.job.home.check().err();
        forked.or_else(|| self.shared.backend.error()).or_else(|| self.shared.devices.error())
    }

    /// What this rank has recorded of its last calls, in all its groups; `None` if there was no memory
    /// for that. `consort trace` reads the same from outside, even when the rank is gone.
    ///
    /// ```
    /// let group = consort::Builder::new().rank(0).world(1).init()?;
    /// group.barrier()?;
    /// let trace = group.trace().expect("there is memory");
    /// assert_eq!(trace.groups[0].calls[0].to_string(), "barrier");
    /// # Ok::<(), consort::Error>(())
    /// ```
    pub fn trace(&self) -> Option<RankTrace> {
        self.shared.job.recorder.snapshot().map(RankTrace::from)
    }

    /// How calls are carried out that are made here.
    #[inline]
    fn terms(&self, site: &'static Location<'static>) -> Terms {
        Terms { site: Some(site), ..Terms::within(self.timeout) }
    }

    #[inline]
    pub(crate) fn backend(&self) -> Result<&Arc<dyn Backend>> {
        self.shared.job.home.check()?;
        Ok(&self.shared.backend)
    }

    /// Checks a call. Says who carries it out.
    #[inline]
    pub(crate) fn admit(&self, call: &Call<'_>) -> Result<&Arc<dyn Backend>> {
        self.backend_for(call.check(self.rank(), self.world())?)
    }

    /// Whether data gets to the other ranks at all.
    pub(crate) fn moves_data(&self) -> Result<bool> {
        Ok(self.capabilities()?.moves_data)
    }

    /// Counts a call on a value. Says which it is: for those who take gradients back through it, which have
    /// to be of the same call on all ranks.
    #[doc(hidden)]
    pub fn count_value(&self) -> u64 {
        let mut count =
            self.shared.values.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *count += 1;
        *count
    }

    /// Whether this thread can wait for calls that it has begun.
    ///
    /// # Errors
    /// In a forked child, and in a hook of a call of this group.
    pub(crate) fn check_can_wait(&self, call: &str) -> Result<()> {
        self.shared.job.home.check()?;
        match self.shared.backend.is_carried_here() {
            true => Err(waits_for_itself(call)),
            false => Ok(()),
        }
    }

    fn here(&self) -> impl Iterator<Item = &Member> {
        let members = &self.shared.members;
        let host = &members[self.rank().index()].host;
        members.iter().filter(move |member| member.host == *host)
    }
}
