//! What the program and the environment say, put together.

use std::path::PathBuf;
use std::time::Duration;

use consort_store::{Place, Secret};

use super::{Builder, Introduction, Listening};
use crate::debug::DebugLevel;
use crate::error::{Error, Result};
use crate::options::{Engine, Options};

/// All that a meeting needs.
#[derive(Clone, Debug)]
pub(crate) struct Invitation {
    pub(crate) rank: u32,
    pub(crate) world: u32,
    /// None for a world of one, which meets nobody.
    pub(crate) place: Option<Place>,
    /// Where rank 0 holds the store, if that listens already.
    pub(crate) listener: Option<Listening>,
    pub(crate) secret: Option<Secret>,
    pub(crate) job: String,
    pub(crate) epoch: u64,
    /// How often others have joined since the round began.
    pub(crate) growth: u32,
    pub(crate) timeout: Duration,
    pub(crate) liveness: Duration,
    /// How long this rank waits for others before it says so, if it ever does.
    pub(crate) warn_after: Option<Duration>,
    pub(crate) interface: Option<String>,
    /// Where this rank leaves a record of what it does.
    pub(crate) trace_dir: Option<PathBuf>,
    pub(crate) debug: DebugLevel,
    /// Whether MPI has told the ranks where to meet.
    pub(crate) is_by_mpi: bool,
    /// Somebody whom the others of a job can reach, if the launcher names one.
    pub(crate) leader: Option<(String, u16)>,
    pub(crate) options: Options,
}

impl Builder {
    /// All that a meeting needs, or one error that lists all that is missing.
    pub(crate) fn complete(self) -> Result<Invitation> {
        let mut wrong = Vec::new();
        let (rank, world) = self.rank_and_world(&mut wrong);
        let place = self.place(world, &mut wrong);
        if let (Some(0), Some(Place::File(path)), Some(_)) = (rank, &place, &self.listener) {
            let path = path.display();
            wrong.push(format!("Builder::listener is of no use for a meeting in a file, {path}"));
        }
        self.wishes.check(&mut wrong);
        let secret = self.find_secret(place.as_ref(), &mut wrong)?;
        if let (Introduction::Failed(why), false) = (&self.introduction, wrong.is_empty()) {
            wrong.push(format!("the launcher knows MPI, which could say where to meet, but {why}"));
        }
        let timeout = self.patience();
        let (Some(rank), Some(world), true) = (rank, world, wrong.is_empty()) else {
            return Err(incomplete(self.found.as_deref().unwrap_or("found: nothing"), &wrong));
        };
        let environment = self.environment;
        Ok(Invitation {
            rank,
            world,
            place,
            listener: self.listener,
            secret,
            job: self.job.or(environment.job).unwrap_or_else(|| "job".to_owned()),
            epoch: self.epoch.or(environment.epoch).unwrap_or(0),
            growth: 0,
            timeout,
            liveness: self.liveness.or(environment.liveness).unwrap_or(DEFAULT_LIVENESS),
            warn_after: self.warn_after.or(environment.warn_after).unwrap_or(DEFAULT_WARN_AFTER),
            interface: self.interface.or(environment.interface),
            trace_dir: self.trace_dir.unwrap_or_else(|| environment.trace_dir.map(PathBuf::from)),
            debug: self.debug.or(environment.debug).unwrap_or_default(),
            is_by_mpi: matches!(self.introduction, Introduction::ByMpi),
            leader: environment.leader,
            options: self.wishes.or(environment.wishes).settle(),
        })
    }

    /// Who this process is, for one that meets nobody.
    pub(super) fn who(&self) -> Result<(u32, u32)> {
        let mut wrong = Vec::new();
        match (self.rank_and_world(&mut wrong), wrong.is_empty()) {
            ((Some(rank), Some(world)), true) => Ok((rank, world)),
            _ => Err(incomplete(self.found.as_deref().unwrap_or("found: nothing"), &wrong)),
        }
    }

    /// How long the others are waited for.
    pub(super) fn patience(&self) -> Duration {
        self.timeout.or(self.environment.timeout).unwrap_or(DEFAULT_TIMEOUT)
    }

    /// Who is to carry out calls.
    pub(super) fn chosen_engine(&self) -> Engine {
        self.wishes.engine.or(self.environment.wishes.engine).unwrap_or_default()
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
            None if world != Some(1) => wrong.push(format!("{NO_PLACE}{}", self.without_mpi())),
            Some(Place::Tcp { host, port: 0 }) => wrong.push(format!(
                "port 0 of {host} is no place to meet: name one from 1 to 65535 that is free there"
            )),
            _ => {}
        }
        place
    }

    /// Why MPI was not asked where to meet, if it could have been.
    fn without_mpi(&self) -> &'static str {
        match (self.environment.knows_mpi, self.chosen_engine()) {
            (true, Engine::Host) => "; MPI is not asked for it with the engine host",
            _ => "",
        }
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

/// What was found is not enough to know who this process is and where ranks meet.
fn incomplete(found: &str, wrong: &[String]) -> Error {
    let wrong = wrong.join("\n  ");
    Error::Environment(format!(
        "cannot tell who this process is and where to meet\n  {wrong}\n  {found}\n  \
         `consort run -n N -- PROGRAM` sets all of it"
    ))
}

/// What was found cannot be right. A launcher would not help: it hands on what is set.
pub(super) fn malformed(found: &str, wrong: &[String]) -> Error {
    Error::Environment(format!("{}\n  {found}", wrong.join("\n  ")))
}

const NO_PLACE: &str =
    "the place is missing: CONSORT_RDZV, MASTER_ADDR with MASTER_PORT, or Builder::address";
pub(super) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);
const DEFAULT_LIVENESS: Duration = Duration::from_secs(10);
const DEFAULT_WARN_AFTER: Option<Duration> = Some(Duration::from_secs(30));
