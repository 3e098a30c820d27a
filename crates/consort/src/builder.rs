//! Everything that a meeting needs, said in the program or found in the environment.

use std::path::PathBuf;
use std::time::Duration;

use consort_store::{Address, Place, Secret};

use crate::environment::Variables;
use crate::error::{Error, Result};
use crate::group::Group;
use crate::meeting;

/// Says who this process is and where to meet the others.
///
/// What is said here counts more than what the environment says. Nothing is looked up in the
/// environment by a builder that starts with [`new`](Self::new).
///
/// ```
/// use consort::{Builder, Secret};
///
/// // Two ranks in two threads; real ones are processes.
/// let secret = Secret::generate()?;
/// let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
/// let ranks: Vec<_> = (0..2)
///     .map(|rank| {
///         let builder = Builder::new()
///             .address(&format!("tcp://127.0.0.1:{port}?rank={rank}&world=2"))
///             .unwrap()
///             .secret(secret.clone());
///         std::thread::spawn(move || builder.init()?.barrier("both are here"))
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
    place: Option<Place>,
    secret: Option<Secret>,
    secret_file: Option<PathBuf>,
    job: Option<String>,
    epoch: Option<u64>,
    timeout: Option<Duration>,
    liveness: Option<Duration>,
    interface: Option<String>,
    wrong: Vec<String>,
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
    /// When it is neither, or says something else than [`rank`](Self::rank) or
    /// [`world`](Self::world) did.
    pub fn address(mut self, address: &str) -> Result<Self> {
        let address: Address = address.parse()?;
        for (name, said, slot) in
            [("rank", address.rank, &mut self.rank), ("world", address.world, &mut self.world)]
        {
            match (*slot, said) {
                (Some(before), Some(now)) if before != now => {
                    self.wrong.push(format!("{name} is {now} in the address, {before} elsewhere"));
                }
                (_, Some(now)) => *slot = Some(now),
                (_, None) => {}
            }
        }
        self.place = Some(address.place);
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
        Ok(Self {
            rank: said.rank,
            world: said.world,
            place: said.place,
            secret: None,
            secret_file: said.secret_file.map(PathBuf::from),
            job: said.job,
            epoch: said.epoch,
            timeout: said.timeout,
            liveness: said.liveness,
            interface: said.interface,
            wrong: Vec::new(),
            found: Some(found),
        })
    }

    /// All that a meeting needs, or one error that lists all that is missing.
    fn complete(mut self) -> Result<Invitation> {
        let mut wrong = std::mem::take(&mut self.wrong);
        if self.rank.is_none() {
            wrong.push("the rank is missing: RANK, ?rank= or Builder::rank".to_owned());
        }
        if self.world.is_none() {
            wrong.push("the world is missing: WORLD_SIZE, ?world= or Builder::world".to_owned());
        }
        if let (Some(rank), Some(world)) = (self.rank, self.world)
            && rank >= world
        {
            wrong.push(format!("rank {rank} is not below the world of {world}"));
        }
        let alone = self.world == Some(1) && self.place.is_none();
        if self.place.is_none() && !alone {
            wrong.push("the place is missing: CONSORT_RDZV, MASTER_ADDR with MASTER_PORT, or Builder::address".to_owned());
        }
        let secret = self.find_secret(&mut wrong)?;
        let (Some(rank), Some(world), true) = (self.rank, self.world, wrong.is_empty()) else {
            return Err(incomplete(self.found.as_deref().unwrap_or("found: nothing"), &wrong));
        };
        Ok(Invitation {
            rank,
            world,
            place: self.place,
            secret,
            job: self.job.unwrap_or_else(|| "job".to_owned()),
            epoch: self.epoch.unwrap_or(0),
            timeout: self.timeout.unwrap_or(DEFAULT_TIMEOUT),
            liveness: self.liveness.unwrap_or(DEFAULT_LIVENESS),
            interface: self.interface,
        })
    }

    fn find_secret(&self, wrong: &mut Vec<String>) -> Result<Option<Secret>> {
        if let Some(secret) = &self.secret {
            return Ok(Some(secret.clone()));
        }
        if !matches!(self.place, Some(Place::Tcp { .. })) {
            return Ok(None);
        }
        match &self.secret_file {
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
mod tests {
    use super::*;

    fn complete(builder: Builder) -> Result<Invitation, String> {
        builder.complete().map_err(|error| error.to_string())
    }

    #[test]
    fn everything_that_is_missing_is_listed_at_once() {
        let error = complete(Builder::new()).unwrap_err();
        for part in [
            "found: nothing",
            "rank is missing",
            "world is missing",
            "place is missing",
            "consort run",
        ] {
            assert!(error.contains(part), "{part} in\n{error}");
        }
    }

    #[test]
    fn what_was_found_is_shown_beside_what_is_missing() {
        let variables = [("RANK", "1"), ("WORLD_SIZE", "2")];
        let variables = variables.map(|(a, b)| (a.to_owned(), b.to_owned())).into_iter();
        let builder = Builder::from_variables(&Variables::of(variables)).unwrap();
        let error = complete(builder).unwrap_err();
        assert!(error.contains("found: RANK=1 WORLD_SIZE=2"), "{error}");
        assert!(error.contains("the place is missing"), "{error}");
    }

    #[test]
    fn an_address_that_contradicts_the_rest_is_refused() {
        let builder = Builder::new().rank(0).world(2).address("tcp://a:1?rank=1&world=2").unwrap();
        let error = complete(builder).unwrap_err();
        assert!(error.contains("rank is 1 in the address, 0 elsewhere"), "{error}");
        assert!(!error.contains("world is"), "{error}");
    }

    #[test]
    fn a_meeting_over_tcp_needs_a_secret_and_one_over_a_file_does_not() {
        let tcp = Builder::new().address("tcp://a:1?rank=0&world=2").unwrap();
        assert!(complete(tcp.clone()).unwrap_err().contains("the job's secret is missing"));
        assert!(complete(tcp.secret(Secret::generate().unwrap())).is_ok());
        assert!(complete(Builder::new().address("file:///x?rank=0&world=2").unwrap()).is_ok());
    }

    #[test]
    fn a_world_of_one_needs_no_place() {
        assert!(complete(Builder::new().rank(0).world(1)).unwrap().place.is_none());
    }

    #[test]
    fn a_rank_beyond_the_world_is_refused() {
        let error = complete(Builder::new().rank(1).world(1)).unwrap_err();
        assert!(error.contains("rank 1 is not below the world of 1"), "{error}");
    }
}
