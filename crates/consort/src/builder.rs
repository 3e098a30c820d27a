//! Everything that a meeting needs, said in the program or found in the environment.

mod invitation;
mod listening;
mod options;

use std::net::TcpListener;
use std::path::PathBuf;
use std::time::Duration;

use consort_store::{Address, Deadline, Secret};

pub(crate) use self::invitation::Invitation;
use self::invitation::malformed;
pub(crate) use self::listening::Listening;
use crate::debug::DebugLevel;
use crate::environment::{Said, Variables};
use crate::error::Result;
use crate::group::Group;
use crate::meeting;
use crate::mpi::{self, Introduced};
use crate::options::{Engine, Wishes};

/// Says who this process is and where to meet the others.
///
/// What the program says here counts more than what the environment says; what it says twice it
/// has to say alike, in whatever order. Nothing is looked up in the environment by a builder that
/// starts with [`new`](Self::new).
///
/// ```
/// use consort::Builder;
///
/// // Two ranks in two threads; real ones are processes.
/// let place = std::env::temp_dir().join(format!("meeting-{}", std::process::id()));
/// let ranks: Vec<_> = (0..2)
///     .map(|rank| {
///         let address = format!("file://{}?rank={rank}&world=2", place.display());
///         std::thread::spawn(move || {
///             let group = Builder::new().address(&address)?.init()?;
///             group.barrier()
///         })
///     })
///     .collect();
/// for rank in ranks {
///     rank.join().unwrap()?;
/// }
/// # Ok::<(), consort::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Builder {
    rank: Option<u32>,
    world: Option<u32>,
    address: Option<Address>,
    listener: Option<Listening>,
    secret: Option<Secret>,
    secret_file: Option<PathBuf>,
    job: Option<String>,
    epoch: Option<u64>,
    timeout: Option<Duration>,
    liveness: Option<Duration>,
    /// Whether it is to warn at all, if that was said.
    warn_after: Option<Option<Duration>>,
    interface: Option<String>,
    /// Whether it is to be in a folder, if that was said.
    trace_dir: Option<Option<PathBuf>>,
    debug: Option<DebugLevel>,
    wishes: Wishes,
    /// What the environment says, for all that the program does not.
    environment: Said,
    found: Option<String>,
    /// How ranks came to know where to meet, if MPI was asked.
    introduction: Introduction,
}

/// What MPI has to do with a meeting.
#[derive(Clone, Debug, Default)]
enum Introduction {
    /// Nothing.
    #[default]
    None,
    /// It has told the ranks where to meet.
    ByMpi,
    /// It could have, but for this.
    Failed(String),
}

impl Builder {
    /// Knows nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Knows what the environment says, as [`init`](crate::init) lists it.
    ///
    /// ```no_run
    /// use std::time::Duration;
    ///
    /// // As `consort::init()`, but more patient.
    /// let group = consort::Builder::from_environment()?.timeout(Duration::from_secs(3600)).init()?;
    /// # drop(group);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// One error lists every variable that is malformed, unknown or contradicts another.
    pub fn from_environment() -> Result<Self> {
        Self::from_variables(&Variables::of_this_process())
    }

    /// Knows who this process is, because somebody else has told the program: a framework that has its
    /// own launcher. Of the environment only variables of consort's own are looked at, so that what
    /// that launcher says of ranks and places does not matter; and for a world of one none that says
    /// where to meet.
    ///
    /// ```
    /// let group = consort::Builder::for_rank(0, 1)?.init()?;
    /// assert_eq!(group.world(), 1);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`from_environment`](Self::from_environment).
    pub fn for_rank(rank: u32, world: u32) -> Result<Self> {
        let mut builder = Self::from_variables(&Variables::of_this_process().own())?;
        builder.environment.joins = false;
        if world == 1 {
            builder.environment.place = None;
        }
        Ok(builder.rank(rank).world(world))
    }

    /// This process's rank.
    ///
    /// ```
    /// let group = consort::Builder::new().rank(0).world(1).init()?;
    /// assert_eq!(group.rank().get(), 0);
    /// # Ok::<(), consort::Error>(())
    /// ```
    #[must_use]
    pub fn rank(mut self, rank: u32) -> Self {
        self.rank = Some(rank);
        self
    }

    /// How many ranks there are.
    #[must_use]
    pub fn world(mut self, world: u32) -> Self {
        self.world = Some(world);
        self
    }

    /// Where to meet: `tcp://host:port` or `file:///path`, with `?rank=R&world=N` if they are to
    /// be said here too.
    ///
    /// ```
    /// use consort::Builder;
    ///
    /// let builder = Builder::new().address("tcp://10.0.0.1:29500?rank=3&world=8")?;
    /// assert!(Builder::new().address("10.0.0.1").is_err());
    /// # drop(builder);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When it is neither. If it says something else than [`rank`](Self::rank) or
    /// [`world`](Self::world), [`init`](Self::init) fails.
    pub fn address(mut self, address: &str) -> Result<Self> {
        self.address = Some(address.parse()?);
        Ok(self)
    }

    /// A socket that listens already, on which rank 0 holds the store; if it is not said, rank 0 opens one
    /// at the [address](Self::address). Other ranks do not look at it.
    ///
    /// So the system can choose a port, which nobody else can take before the ranks meet there; and they
    /// may come before rank 0 does. Of a builder's clones the first that [meets](Self::init) takes it. The
    /// socket is closed when rank 0 has left the job.
    ///
    /// ```
    /// use std::net::TcpListener;
    ///
    /// use consort::{Builder, Secret};
    ///
    /// // Two ranks in two threads; real ones are processes, and are told the address.
    /// let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    /// let address = format!("tcp://{}", listener.local_addr().unwrap());
    /// let builder = Builder::new().world(2).address(&address)?.secret(Secret::generate()?);
    /// let other = builder.clone().rank(1);
    /// let other = std::thread::spawn(move || other.init()?.barrier());
    /// builder.rank(0).listener(listener).init()?.barrier()?;
    /// other.join().unwrap()?;
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// [`init`](Self::init) fails on rank 0 when the address leads somewhere else, or to a file.
    #[must_use]
    pub fn listener(mut self, listener: TcpListener) -> Self {
        self.listener = Some(Listening::on(listener));
        self
    }

    /// The job's secret.
    ///
    /// ```
    /// use consort::{Builder, Secret};
    ///
    /// # fn to_all_ranks(_: String) {}
    /// let secret = Secret::generate()?;
    /// to_all_ranks(secret.to_hex());
    /// let builder = Builder::new().rank(0).world(2).address("tcp://10.0.0.1:29500")?.secret(secret);
    /// # drop(builder);
    /// # Ok::<(), consort::Error>(())
    /// ```
    #[must_use]
    pub fn secret(mut self, secret: Secret) -> Self {
        self.secret = Some(secret);
        self
    }

    /// A file that holds the job's secret.
    ///
    /// ```
    /// use consort::{Builder, Secret};
    ///
    /// let file = std::env::temp_dir().join(format!("secret-{}", std::process::id()));
    /// Secret::generate()?.write_new(&file)?;
    /// let builder = Builder::new().rank(0).world(1).secret_file(&file);
    /// builder.init()?;
    /// # std::fs::remove_file(file).unwrap();
    /// # Ok::<(), consort::Error>(())
    /// ```
    #[must_use]
    pub fn secret_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.secret_file = Some(path.into());
        self
    }

    /// The job's name, which keeps its keys apart from others' in one store.
    ///
    /// ```
    /// let builder = consort::Builder::new().rank(0).world(1).job("fine-tuning").epoch(2);
    /// let group = builder.init()?;
    /// assert_eq!((group.job(), group.epoch()), ("fine-tuning", 2));
    /// # Ok::<(), consort::Error>(())
    /// ```
    #[must_use]
    pub fn job(mut self, job: impl Into<String>) -> Self {
        self.job = Some(job.into());
        self
    }

    /// The round of the job; each one meets anew.
    #[must_use]
    pub fn epoch(mut self, epoch: u64) -> Self {
        self.epoch = Some(epoch);
        self
    }

    /// How long to wait for the other ranks; ten minutes if it is not said.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let patient = consort::Builder::new().rank(0).world(1).timeout(Duration::from_secs(3600));
    /// assert_eq!(patient.init()?.timeout(), Duration::from_secs(3600));
    /// # Ok::<(), consort::Error>(())
    /// ```
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How long a host may be silent before it counts as gone; ten seconds if it is not said.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let builder = consort::Builder::new().rank(0).world(1);
    /// let group = builder.liveness(Duration::from_secs(30)).init()?;
    /// # drop(group);
    /// # Ok::<(), consort::Error>(())
    /// ```
    #[must_use]
    pub fn liveness(mut self, liveness: Duration) -> Self {
        self.liveness = Some(liveness);
        self
    }

    /// How long this rank waits for others that are alive before it says so, in a warning that names
    /// them and what they do instead; 30 seconds if it is not said, never with `None`. It is repeated
    /// after twice that time, after four times, and so on, until the call ends.
    ///
    /// It goes to the program's log ([`tracing`](https://docs.rs/tracing)) at the level `WARN`; if the
    /// program keeps none, to standard error.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let builder = consort::Builder::new().rank(0).world(1);
    /// let impatient = builder.clone().warn_after(Duration::from_secs(5)).init()?;
    /// # drop(impatient);
    /// let silent = builder.epoch(1).warn_after(None).init()?;
    /// # drop(silent);
    /// # Ok::<(), consort::Error>(())
    /// ```
    #[must_use]
    pub fn warn_after(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.warn_after = Some(time.into());
        self
    }

    /// The network interface to use, by its name or address; if it is not said, the one that
    /// leads to the store.
    ///
    /// ```
    /// let builder = consort::Builder::new().rank(0).world(1).interface("lo");
    /// assert!(builder.init()?.members()[0].address.is_loopback());
    /// # Ok::<(), consort::Error>(())
    /// ```
    #[must_use]
    pub fn interface(mut self, interface: impl Into<String>) -> Self {
        self.interface = Some(interface.into());
        self
    }

    /// The folder in which this rank leaves a record of its last calls, for `consort trace`; if it is
    /// not said, it has one in its memory ([`Group::trace`]). The folder has to be there.
    ///
    /// ```
    /// let folder = std::env::temp_dir().join(format!("trace-{}", std::process::id()));
    /// std::fs::create_dir(&folder).unwrap();
    /// let group = consort::Builder::new().rank(0).world(1).trace_dir(&folder).init()?;
    /// group.barrier()?;
    /// drop(group);
    /// assert_eq!(consort::trace::read(&folder.join("rank-0")).unwrap().groups[0].made, 1);
    /// # std::fs::remove_dir_all(folder).unwrap();
    /// # Ok::<(), consort::Error>(())
    /// ```
    #[must_use]
    pub fn trace_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.trace_dir = Some(Some(folder.into()));
        self
    }

    /// Leaves no record in a folder, even if `CONSORT_TRACE_DIR` names one: for a group that a process has beside
    /// its first one, whose record is there under the same name.
    ///
    /// ```
    /// let group = consort::Builder::new().rank(0).world(1).trace_in_memory().init()?;
    /// group.barrier()?;
    /// assert_eq!(group.trace().unwrap().groups[0].made, 1);
    /// # Ok::<(), consort::Error>(())
    /// ```
    #[must_use]
    pub fn trace_in_memory(mut self) -> Self {
        self.trace_dir = Some(None);
        self
    }

    /// How much this rank tells of what it does; [`Off`](DebugLevel::Off) if it is not said.
    ///
    /// ```
    /// use consort::{Builder, DebugLevel};
    ///
    /// let group = Builder::new().rank(0).world(1).debug(DebugLevel::Detail).init()?;
    /// group.barrier()?;
    /// let trace = group.trace().expect("there is memory");
    /// let call = &trace.groups[0].calls[0];
    /// assert!(trace.site(call).is_some_and(|site| site.contains(".rs:")));
    /// # Ok::<(), consort::Error>(())
    /// ```
    #[must_use]
    pub fn debug(mut self, level: DebugLevel) -> Self {
        self.debug = Some(level);
        self
    }

    /// Meets the other ranks, or [joins](Self::join) them if the environment says so. A process comes to
    /// each round of a job once: to meet again, all ranks give another [`epoch`](Self::epoch).
    ///
    /// # Errors
    /// [`Environment`](crate::Error::Environment) when something is missing or contradicts itself;
    /// [`Missing`](crate::Error::Missing) when some ranks did not come;
    /// [`Differs`](crate::Error::Differs) when they were set up differently;
    /// [`Twice`](crate::Error::Twice) when this process has come to this round before;
    /// [`PeerUnable`](crate::Error::PeerUnable) on every rank when [NCCL](crate::Engine::Nccl) was chosen and one
    /// has none, or no device.
    pub fn init(self) -> Result<Group> {
        if self.environment.joins {
            return self.join();
        }
        if self.chosen_engine() == Engine::Fake {
            return self.pretend();
        }
        meeting::hold(&self.introduced()?.complete()?, Vec::new())
    }

    /// Joins a job that runs: waits until its ranks [take this process in](Group::grow), which gives it
    /// its rank. Place, secret, job, epoch and options are as for [`init`](Self::init), and the same as
    /// theirs; [`rank`](Self::rank) and [`world`](Self::world) are not looked at.
    ///
    /// ```no_run
    /// // A process that was started again after it had failed.
    /// let group = consort::Builder::from_environment()?.join()?;
    /// # drop(group);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When nobody takes it in within the [timeout](Self::timeout); otherwise as [`init`](Self::init).
    pub fn join(mut self) -> Result<Group> {
        if let Some(address) = &mut self.address {
            (address.rank, address.world) = (None, None);
        }
        // Not the first, who would hold the store, and one of several.
        (self.rank, self.world) = (Some(1), Some(2));
        meeting::join(&self.complete()?)
    }

    /// Has MPI tell the ranks where to meet, if nobody else does.
    fn introduced(mut self) -> Result<Self> {
        let (Some(rank), Some(world), true) =
            (self.environment.rank, self.environment.world, self.is_for_mpi())
        else {
            return Ok(self);
        };
        let until = Deadline::after(self.patience());
        let interface = self.interface.as_deref().or(self.environment.interface.as_deref());
        match mpi::introduce(rank, world, interface, until) {
            Ok(Introduced { address, secret, listener }) => {
                self.address = Some(format!("tcp://{address}").parse()?);
                self.secret = Some(secret);
                self.listener = listener.map(Listening::on);
                self.introduction = Introduction::ByMpi;
            }
            Err(error) if self.chosen_engine() == Engine::Mpi => return Err(error),
            Err(error) => self.introduction = Introduction::Failed(error.to_string()),
        }
        Ok(self)
    }

    /// Whether MPI is the one that can tell where to meet.
    fn is_for_mpi(&self) -> bool {
        let says_itself = self.rank.is_some() || self.world.is_some() || self.address.is_some();
        let has_secret = self.secret.is_some()
            || self.secret_file.is_some()
            || self.environment.secret_file.is_some();
        self.environment.knows_mpi
            && self.environment.world > Some(1)
            && !says_itself
            && !has_secret
            && matches!(self.chosen_engine(), Engine::Auto | Engine::Nccl | Engine::Mpi)
    }

    /// One of so many ranks that are not there.
    fn pretend(self) -> Result<Group> {
        let timeout = self.patience();
        let (rank, world) = self.who()?;
        Ok(Group::fake(rank, world)?.within(timeout))
    }

    pub(crate) fn from_variables(variables: &Variables) -> Result<Self> {
        let found = variables.found();
        let said = variables.read().map_err(|wrong| malformed(&found, &wrong))?;
        Ok(Self { environment: said, found: Some(found), ..Self::default() })
    }
}

#[cfg(test)]
mod tests;
