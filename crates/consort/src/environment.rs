//! Who this process is and where to meet, as launchers say it in the environment. Pure: variables
//! come in as a map.

mod slurm;

use std::collections::BTreeMap;
use std::time::Duration;

use consort_store::{Address, Place};

use crate::debug::DebugLevel;
use crate::mpi;
use crate::options::{OPTIONS, Wishes};

/// The variables that matter, out of an environment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Variables(BTreeMap<String, String>);

/// What a launcher says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) rank: Option<u32>,
    pub(crate) world: Option<u32>,
    /// Whether a launcher says these that starts programs of MPI, and nobody says where to meet.
    pub(crate) knows_mpi: bool,
    pub(crate) place: Option<Place>,
    pub(crate) secret_file: Option<String>,
    pub(crate) job: Option<String>,
    pub(crate) epoch: Option<u64>,
    /// Whether it is to join a job that runs.
    pub(crate) joins: bool,
    pub(crate) timeout: Option<Duration>,
    pub(crate) liveness: Option<Duration>,
    /// `Some(None)` if it is not to warn at all.
    pub(crate) warn_after: Option<Option<Duration>>,
    pub(crate) interface: Option<String>,
    pub(crate) trace_dir: Option<String>,
    pub(crate) debug: Option<DebugLevel>,
    /// Where the launcher says that the first rank is.
    pub(crate) leader: Option<(String, u16)>,
    pub(crate) wishes: Wishes,
}

impl Variables {
    /// Those of this process. What is not text in a value is replaced by a sign that is in none that
    /// is right.
    pub(crate) fn of_this_process() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
        };
        Self::of(std::env::vars_os().filter_map(text))
    }

    /// Those of a list. Empty values count as not set.
    pub(crate) fn of(variables: impl Iterator<Item = (String, String)>) -> Self {
        let matters = |name: &str| name.starts_with(OURS) || known().any(|it| it == name);
        Self(variables.filter(|(name, value)| matters(name) && !value.is_empty()).collect())
    }

    /// Only those of consort's own.
    pub(crate) fn own(mut self) -> Self {
        self.0.retain(|name, _| name.starts_with(OURS));
        self
    }

    /// What they say, or a list of what is wrong with them.
    pub(crate) fn read(&self) -> Result<Said, Vec<String>> {
        let mut wrong = Vec::new();
        self.check_names(&mut wrong);
        let (rank, world) = self.rank_and_world(&mut wrong);
        let said = Said {
            rank,
            world,
            knows_mpi: self.knows_mpi(),
            place: self.place(&mut wrong),
            secret_file: self.text("CONSORT_SECRET_FILE"),
            job: self.text("CONSORT_JOB"),
            epoch: self.number("CONSORT_EPOCH", &mut wrong),
            joins: self.is_on("CONSORT_JOIN", &mut wrong),
            timeout: self.duration("CONSORT_TIMEOUT", &mut wrong),
            liveness: self.duration("CONSORT_LIVENESS", &mut wrong),
            warn_after: self.duration_or_off("CONSORT_WARN_AFTER", &mut wrong),
            interface: self.text("CONSORT_INTERFACE"),
            trace_dir: self.text("CONSORT_TRACE_DIR"),
            debug: self.debug(&mut wrong),
            leader: self.text("MASTER_ADDR").zip(self.number("MASTER_PORT", &mut Vec::new())),
            wishes: self.wishes(&mut wrong),
        };
        if wrong.is_empty() { Ok(said) } else { Err(wrong) }
    }

    /// Everything that was found, one line each, for an error that shows it. No value of ours is
    /// a secret: the secret itself is never in the environment.
    pub(crate) fn found(&self) -> String {
        if self.0.is_empty() {
            return "found: nothing".to_owned();
        }
        let lines: Vec<String> =
            self.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("found: {}", lines.join(" "))
    }

    fn check_names(&self, wrong: &mut Vec<String>) {
        for name in self.0.keys().filter(|name| name.starts_with(OURS)) {
            if !VARIABLES.contains(&name.as_str()) {
                wrong.push(format!("{name} is not known; there are {}", VARIABLES.join(", ")));
            }
        }
    }

    fn is_on(&self, name: &str, wrong: &mut Vec<String>) -> bool {
        match self.0.get(name).map(String::as_str) {
            None | Some("off") => false,
            Some("on") => true,
            Some(other) => {
                wrong.push(format!("{name}={other}: give on or off"));
                false
            }
        }
    }

    /// Whether MPI may connect the ranks, and nothing else is said to.
    fn knows_mpi(&self) -> bool {
        self.launcher().is_some_and(|launcher| launcher.starts_mpi)
            && !["CONSORT_RDZV", "MASTER_ADDR"].into_iter().any(|name| self.has(name))
    }

    /// As the launcher says it.
    fn rank_and_world(&self, wrong: &mut Vec<String>) -> (Option<u32>, Option<u32>) {
        let Some(Launcher { rank, world, .. }) = self.launcher() else { return (None, None) };
        let world = world.iter().find(|world| self.has(world)).unwrap_or(&world[0]);
        let found = (self.number(rank, wrong), self.number(world, wrong));
        for name in [rank, world].into_iter().filter(|name| !self.has(name)) {
            let other = if name == rank { world } else { rank };
            wrong.push(format!("{name} is missing, though {other} is set"));
        }
        if let (Some(rank_number), Some(world_number)) = found
            && rank_number >= world_number
        {
            wrong.push(format!("{rank}={rank_number} is not below {world}={world_number}"));
        }
        found
    }

    /// The first launcher that says a rank or a world.
    fn launcher(&self) -> Option<&'static Launcher> {
        LAUNCHERS.iter().find(|launcher| launcher.names().any(|name| self.has(name)))
    }

    fn place(&self, wrong: &mut Vec<String>) -> Option<Place> {
        if let Some(text) = self.0.get("CONSORT_RDZV") {
            return match text.parse::<Address>() {
                Ok(Address { place, rank: None, world: None }) => Some(place),
                Ok(_) => {
                    wrong.push(
                        "CONSORT_RDZV says a rank or a world, which is the same for all".to_owned(),
                    );
                    None
                }
                Err(error) => {
                    wrong.push(format!("CONSORT_RDZV: {error}"));
                    None
                }
            };
        }
        match (self.text("MASTER_ADDR"), self.number::<u16>("MASTER_PORT", wrong)) {
            (Some(host), Some(port)) => {
                Some(Place::Tcp { host, port: self.beside_torchruns(port) })
            }
            (Some(_), None) if !self.has("MASTER_PORT") => {
                wrong.push("MASTER_PORT is missing, though MASTER_ADDR is set".to_owned());
                None
            }
            (None, Some(_)) => {
                wrong.push("MASTER_ADDR is missing, though MASTER_PORT is set".to_owned());
                None
            }
            _ => self.slurms_place(),
        }
    }

    /// Where torchrun keeps a store of its own at the port, ours is at the next.
    fn beside_torchruns(&self, port: u16) -> u16 {
        match self.0.get("TORCHELASTIC_USE_AGENT_STORE").map(String::as_str) {
            Some("True") if port > 0 => port.checked_add(1).unwrap_or(port - 1),
            _ => port,
        }
    }

    fn wishes(&self, wrong: &mut Vec<String>) -> Wishes {
        let mut wishes = Wishes::default();
        for name in OPTIONS {
            if let Some(text) = self.0.get(name)
                && let Err(reason) = wishes.take(name, text)
            {
                wrong.push(format!("{name}={text}: {reason}"));
            }
        }
        wishes
    }

    fn debug(&self, wrong: &mut Vec<String>) -> Option<DebugLevel> {
        let text = self.0.get(DEBUG)?;
        let level = text.parse().map_err(|reason| wrong.push(format!("{DEBUG}={text}: {reason}")));
        level.ok()
    }

    fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    fn text(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned()
    }

    fn number<T: std::str::FromStr>(&self, name: &str, wrong: &mut Vec<String>) -> Option<T> {
        let text = self.0.get(name)?;
        match text.parse() {
            Ok(number) => Some(number),
            Err(_) => {
                wrong.push(format!("{name}={text} is not a number that fits"));
                None
            }
        }
    }

    fn duration(&self, name: &str, wrong: &mut Vec<String>) -> Option<Duration> {
        self.checked(name, positive, wrong)
    }

    fn duration_or_off(&self, name: &str, wrong: &mut Vec<String>) -> Option<Option<Duration>> {
        self.checked(name, positive_or_off, wrong)
    }

    fn checked<T>(
        &self,
        name: &str,
        read: impl FnOnce(&str) -> Result<T, String>,
        wrong: &mut Vec<String>,
    ) -> Option<T> {
        let text = self.0.get(name)?;
        match read(text) {
            Ok(value) => Some(value),
            Err(reason) => {
                wrong.push(format!("{name}={text}: {reason}"));
                None
            }
        }
    }
}

/// A length of time that is not nothing, or `off`.
fn positive_or_off(text: &str) -> Result<Option<Duration>, String> {
    match text {
        "off" => Ok(None),
        _ => positive(text).map(Some).map_err(|reason| format!("{reason}, or off")),
    }
}

/// Says why ranks would refuse this value of a variable that sets an option, a level or a length of
/// time; of other variables nothing.
///
/// # Errors
/// What is wrong with the value, and which there are.
///
/// ```
/// use consort::check_variable;
///
/// assert_eq!(check_variable("CONSORT_TRANSPORT", "tcp"), Ok(()));
/// assert!(check_variable("CONSORT_TRANSPORT", "udp").unwrap_err().contains("auto, shm or tcp"));
/// ```
pub fn check_variable(name: &str, value: &str) -> Result<(), String> {
    match name {
        "CONSORT_TIMEOUT" | "CONSORT_LIVENESS" => positive(value).map(drop),
        DEBUG => value.parse::<DebugLevel>().map(drop).map_err(|error| error.to_string()),
        "CONSORT_WARN_AFTER" => positive_or_off(value).map(drop),
        _ => Wishes::default().take(name, value),
    }
}

/// A length of time that is not nothing.
fn positive(text: &str) -> Result<std::time::Duration, String> {
    match crate::duration::parse(text)? {
        Duration::ZERO => Err("give a time above 0".to_owned()),
        time => Ok(time),
    }
}

/// A launcher's names for rank and world; of several names for the world the first that is set.
struct Launcher {
    rank: &'static str,
    world: &'static [&'static str],
    /// Whether what it starts may be a program of MPI.
    starts_mpi: bool,
}

impl Launcher {
    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.world.iter().copied().chain([self.rank])
    }
}

/// The variables that matter and are not consort's own.
fn known() -> impl Iterator<Item = &'static str> {
    LAUNCHERS.iter().flat_map(Launcher::names).chain(PLACES).chain(slurm::VARIABLES)
}

const OURS: &str = "CONSORT_";
const DEBUG: &str = "CONSORT_DEBUG";
/// The variables of consort's own. `CONSORT_LOG` is the `consort` program's, `CONSORT_CUDA_LIBRARY` is for
/// [`device`](crate::device), `CONSORT_NCCL_LIBRARY` for [`nccl`](crate::nccl), the others are for
/// [`init`](crate::init), which explains them.
pub const VARIABLES: [&str; 23] = [
    "CONSORT_RDZV",
    "CONSORT_SECRET_FILE",
    "CONSORT_JOB",
    "CONSORT_EPOCH",
    "CONSORT_JOIN",
    "CONSORT_TIMEOUT",
    "CONSORT_LIVENESS",
    "CONSORT_WARN_AFTER",
    "CONSORT_INTERFACE",
    "CONSORT_BACKEND",
    mpi::LIBRARY,
    "CONSORT_TRANSPORT",
    "CONSORT_ENCRYPT",
    "CONSORT_INTEGRITY",
    "CONSORT_VERIFY",
    "CONSORT_ALGORITHM",
    "CONSORT_STREAMS",
    "CONSORT_PORT",
    "CONSORT_CUDA_LIBRARY",
    "CONSORT_TRACE_DIR",
    DEBUG,
    "CONSORT_NCCL_LIBRARY",
    "CONSORT_LOG",
];
/// The innermost first: in a Slurm job everything has Slurm's variables, those of the batch script at least,
/// also what an `mpiexec` starts there.
static LAUNCHERS: [Launcher; 4] = [
    Launcher { rank: "RANK", world: &["WORLD_SIZE"], starts_mpi: false },
    Launcher { rank: "OMPI_COMM_WORLD_RANK", world: &["OMPI_COMM_WORLD_SIZE"], starts_mpi: true },
    Launcher { rank: "PMI_RANK", world: &["PMI_SIZE"], starts_mpi: true },
    Launcher {
        rank: "SLURM_PROCID",
        world: &["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"],
        starts_mpi: true,
    },
];
/// Where to meet.
const PLACES: [&str; 3] = ["MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE"];

#[cfg(test)]
mod tests;
