//! Everything that a meeting needs, said in the program or found in the environment.

use std::path::PathBuf;
use std::time::Duration;

use consort_store::{Address, Place, Secret};

use crate::environment::{Said, Variables};
use crate::error::{Error, Result};
use crate::group::Group;
use crate::meeting;

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
///             group.barrier("both are here")
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
    secret: Option<Secret>,
    secret_file: Option<PathBuf>,
    job: Option<String>,
    epoch: Option<u64>,
    timeout: Option<Duration>,
    liveness: Option<Duration>,
    interface: Option<String>,
    /// What the environment says, for all that the program does not.
    environment: Said,
    found: Option<String>,
}

impl Builder {
    /// Knows nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Knows what the environment says, as [`init`](crate::init) lists it.
    ///
    /// # Errors
    /// One error lists every variable that is malformed, unknown or contradicts another.
    pub fn from_environment() -> Result<Self> {
        Self::from_variables(&Variables::of_this_process())
    }

    /// This process's rank.
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
    /// # Errors
    /// When it is neither. If it says something else than [`rank`](Self::rank) or
    /// [`world`](Self::world), [`init`](Self::init) fails.
    pub fn address(mut self, address: &str) -> Result<Self> {
        self.address = Some(address.parse()?);
        Ok(self)
    }

    /// The job's secret.
    #[must_use]
    pub fn secret(mut self, secret: Secret) -> Self {
        self.secret = Some(secret);
        self
    }

    /// A file that holds the job's secret.
    #[must_use]
    pub fn secret_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.secret_file = Some(path.into());
        self
    }

    /// The job's name, which keeps its keys apart from others' in one store.
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
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How long a host may be silent before it counts as gone; ten seconds if it is not said.
    #[must_use]
    pub fn liveness(mut self, liveness: Duration) -> Self {
        self.liveness = Some(liveness);
        self
    }

    /// The network interface to use, by its name or address; if it is not said, the one that
    /// leads to the store.
    #[must_use]
    pub fn interface(mut self, interface: impl Into<String>) -> Self {
        self.interface = Some(interface.into());
        self
    }

    /// Meets the other ranks.
    ///
    /// # Errors
    /// [`Error::Environment`] when something is missing or contradicts itself;
    /// [`Error::Missing`] when some ranks did not come; [`Error::Differs`] when they were set up
    /// differently.
    pub fn init(self) -> Result<Group> {
        meeting::hold(&self.complete()?)
    }

    pub(crate) fn from_variables(variables: &Variables) -> Result<Self> {
        let found = variables.found();
        let said = variables.read().map_err(|wrong| incomplete(&found, &wrong))?;
        Ok(Self { environment: said, found: Some(found), ..Self::default() })
    }

    /// All that a meeting needs, or one error that lists all that is missing.
    fn complete(self) -> Result<Invitation> {
        let mut wrong = Vec::new();
        let (rank, world) = self.rank_and_world(&mut wrong);
        let place = self.place(world, &mut wrong);
        let secret = self.find_secret(place.as_ref(), &mut wrong)?;
        let (Some(rank), Some(world), true) = (rank, world, wrong.is_empty()) else {
            return Err(incomplete(self.found.as_deref().unwrap_or("found: nothing"), &wrong));
        };
        let environment = self.environment;
        Ok(Invitation {
            rank,
            world,
            place,
            secret,
            job: self.job.or(environment.job).unwrap_or_else(|| "job".to_owned()),
            epoch: self.epoch.or(environment.epoch).unwrap_or(0),
            timeout: self.timeout.or(environment.timeout).unwrap_or(DEFAULT_TIMEOUT),
            liveness: self.liveness.or(environment.liveness).unwrap_or(DEFAULT_LIVENESS),
            interface: self.interface.or(environment.interface),
        })
    }

    fn rank_and_world(&self, wrong: &mut Vec<String>) -> (Option<u32>, Option<u32>) {
        let (rank, world) = self.address.as_ref().map_or((None, None), |it| (it.rank, it.world));
        let rank = said_once("rank", self.rank, rank, wrong).or(self.environment.rank);
        let world = said_once("world", self.world, world, wrong).or(self.environment.world);
        if rank.is_none() {
            wrong.push("the rank is missing: RANK, ?rank= or Builder::rank".to_owned());
        }
        if world.is_none() {
            wrong.push("the world is missing: WORLD_SIZE, ?world= or Builder::world".to_owned());
        }
        if let (Some(rank), Some(world)) = (rank, world)
            && rank >= world
        {
            wrong.push(format!("rank {rank} is not below the world of {world}"));
        }
        (rank, world)
    }

    fn place(&self, world: Option<u32>, wrong: &mut Vec<String>) -> Option<Place> {
        let said = self.address.as_ref().map(|address| address.place.clone());
        let place = said.or_else(|| self.environment.place.clone());
        match &place {
            None if world != Some(1) => wrong.push(
                "the place is missing: CONSORT_RDZV, MASTER_ADDR with MASTER_PORT, or \
                 Builder::address"
                    .to_owned(),
            ),
            Some(Place::Tcp { host, port: 0 }) => wrong.push(format!(
                "port 0 of {host} is no place to meet: name one from 1 to 65535 that is free there"
            )),
            _ => {}
        }
        place
    }

    fn find_secret(
        &self,
        place: Option<&Place>,
        wrong: &mut Vec<String>,
    ) -> Result<Option<Secret>> {
        if let Some(secret) = &self.secret {
            return Ok(Some(secret.clone()));
        }
        if !matches!(place, Some(Place::Tcp { .. })) {
            return Ok(None);
        }
        let from_environment = self.environment.secret_file.as_ref().map(PathBuf::from);
        match self.secret_file.clone().or(from_environment) {
            Some(path) => Ok(Some(Secret::from_file(path)?)),
            None => {
                wrong.push(
                    "the job's secret is missing: `consort secret FILE` makes one; name it on \
                     every host in CONSORT_SECRET_FILE or Builder::secret_file"
                        .to_owned(),
                );
                Ok(None)
            }
        }
    }
}

/// All that a meeting needs.
#[derive(Clone, Debug)]
pub(crate) struct Invitation {
    pub(crate) rank: u32,
    pub(crate) world: u32,
    /// None for a world of one, which meets nobody.
    pub(crate) place: Option<Place>,
    pub(crate) secret: Option<Secret>,
    pub(crate) job: String,
    pub(crate) epoch: u64,
    pub(crate) timeout: Duration,
    pub(crate) liveness: Duration,
    pub(crate) interface: Option<String>,
}

/// What the program said by itself or in the address, which have to be the same.
fn said_once(
    name: &str,
    itself: Option<u32>,
    address: Option<u32>,
    wrong: &mut Vec<String>,
) -> Option<u32> {
    if let (Some(itself), Some(address)) = (itself, address)
        && itself != address
    {
        wrong.push(format!("{name} is {address} in the address, {itself} in Builder::{name}"));
    }
    itself.or(address)
}

fn incomplete(found: &str, wrong: &[String]) -> Error {
    let mut text = format!("  {found}");
    for line in wrong {
        text.push_str("\n  ");
        text.push_str(line);
    }
    text.push_str("\n  `consort run -n N -- PROGRAM` sets all of it");
    Error::Environment(text)
}

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);
const DEFAULT_LIVENESS: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
