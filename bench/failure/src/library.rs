//! Who is put to the test, and how its ranks are started.

use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::fmt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use clap::ValueEnum;

use crate::scenario::{Scenario, WORLD, host_of};
use crate::stage::Stage;

/// A library, and how it is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Library {
    /// consort as it is: shared memory on a host, TCP between hosts.
    Consort,
    /// consort over TCP, also on one host.
    ConsortTcp,
    /// PyTorch's Gloo.
    Gloo,
    /// Open MPI.
    Openmpi,
    /// Open MPI in its fault-tolerant mode.
    OpenmpiFt,
    /// The same with heartbeats.
    OpenmpiHeartbeat,
}

impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Consort => "consort",
            Self::ConsortTcp => "consort, TCP",
            Self::Gloo => "Gloo",
            Self::Openmpi => "Open MPI",
            Self::OpenmpiFt => "Open MPI, ULFM",
            Self::OpenmpiHeartbeat => "Open MPI, ULFM, heartbeats",
        })
    }
}

impl Library {
    pub(crate) fn is_consort(self) -> bool {
        matches!(self, Self::Consort | Self::ConsortTcp)
    }

    /// Why it cannot take part, if it cannot.
    pub(crate) fn missing(self) -> Option<&'static str> {
        let needed = match self {
            Self::Consort | Self::ConsortTcp => return None,
            Self::Gloo => GLOO_READY,
            Self::Openmpi | Self::OpenmpiFt | Self::OpenmpiHeartbeat => MPI_RANK,
        };
        (!Path::new(needed).exists()).then_some("it is not set up: run bench/failure/run")
    }

    /// Starts all ranks of a scenario.
    pub(crate) fn start(
        self,
        stage: &Stage,
        scenario: &Scenario,
    ) -> Result<Vec<Child>, Box<dyn Error>> {
        match self {
            Self::Consort => start_consort(stage, scenario, "auto"),
            Self::ConsortTcp => start_consort(stage, scenario, "tcp"),
            Self::Gloo => start_gloo(stage, scenario),
            Self::Openmpi => Ok(vec![start_mpi(stage, &[], "fatal")?]),
            Self::OpenmpiFt => Ok(vec![start_mpi(stage, &TOLERANT, "ft")?]),
            Self::OpenmpiHeartbeat => {
                Ok(vec![start_mpi(stage, &[&TOLERANT[..], &HEARTBEAT].concat(), "ft")?])
            }
        }
    }
}

fn start_consort(
    stage: &Stage,
    scenario: &Scenario,
    transport: &str,
) -> Result<Vec<Child>, Box<dyn Error>> {
    let program = env::current_exe()?;
    let start = |rank: u32| {
        let mut command = stage.command(host_of(rank), &program);
        command
            .arg("rank")
            .arg("--socket")
            .arg(stage.socket())
            .arg("--secret-file")
            .arg(stage.secret_file())
            .args(["--store", &format!("tcp://{}", stage.store())])
            .args(["--transport", transport])
            .args(["--rank", &rank.to_string(), "--world", &WORLD.to_string()])
            .args(["--timeout", &scenario.timeout.as_secs().to_string()]);
        spawn(stage, command)
    };
    (0..WORLD).map(start).collect()
}

/// One process on each host, which becomes its ranks: to load PyTorch takes long.
fn start_gloo(stage: &Stage, scenario: &Scenario) -> Result<Vec<Child>, Box<dyn Error>> {
    let here = WORLD / stage.hosts();
    let start = |host: u32| {
        let mut command = stage.command(host as usize, Path::new(PYTHON));
        command
            .arg("bench/failure/gloo_rank.py")
            .arg(stage.socket())
            .arg(stage.store().to_string())
            .arg(scenario.timeout.as_secs().to_string())
            .args([WORLD, host * here, here].map(|number| number.to_string()))
            .env("GLOO_SOCKET_IFNAME", stage.interface())
            .env("OMP_NUM_THREADS", "1")
            .env("OPENBLAS_NUM_THREADS", "1");
        spawn(stage, command)
    };
    (0..stage.hosts()).map(start).collect()
}

fn start_mpi(stage: &Stage, options: &[&str], errors: &str) -> Result<Child, Box<dyn Error>> {
    let mut command = stage.command(0, Path::new(MPIRUN));
    let here = WORLD / stage.hosts();
    command
        .args(["--mca", "pml", "ob1", "--mca", "mpi_yield_when_idle", "1"])
        .args(["--map-by", &format!("ppr:{here}:node:OVERSUBSCRIBE"), "--timeout", "120"])
        .args(options);
    if stage.hosts() > 1 {
        let map = stage.map();
        let hosts = map.lines().filter_map(|line| line.split_once(' '));
        let slots: Vec<_> = hosts.map(|(address, _)| format!("{address}:{here}")).collect();
        command
            .args(["--host", &slots.join(","), "--prtemca", "plm_ssh_agent", MPI_AGENT])
            .env("FAILURE_HOSTS", &map);
    }
    if rustix::process::getuid().is_root() {
        command.arg("--allow-run-as-root");
    }
    command.args(["-n", &WORLD.to_string(), MPI_RANK]).arg(stage.socket()).arg(errors);
    spawn(stage, command)
}

/// In a process group of its own, which can be ended whole; what it says goes into a file, and what it
/// leaves behind into a folder, which are gone with the stage.
fn spawn(stage: &Stage, mut command: Command) -> Result<Child, Box<dyn Error>> {
    let output = stage.output()?;
    let program = PathBuf::from(OsString::from(command.get_program()));
    command
        .process_group(0)
        .env("TMPDIR", stage.folder())
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .spawn()
        .map_err(|error| format!("cannot start {}: {error}", program.display()).into())
}

const GLOO_READY: &str = "target/venv-torch/complete";
const PYTHON: &str = "target/venv-torch/bin/python";
const MPIRUN: &str = "target/venv-openmpi/bin/mpirun";
const TOLERANT: [&str; 2] = ["--with-ft", "ulfm"];
/// From a thread, so that a rank which computes is not taken for dead.
const HEARTBEAT: [&str; 6] =
    ["--mca", "mpi_ft_detector", "true", "--mca", "mpi_ft_detector_thread", "true"];
/// A path of its own, for mpirun looks for it itself.
const MPI_AGENT: &str = "bench/failure/mpi_agent";
const MPI_RANK: &str = "target/peers/failure-openmpi";
