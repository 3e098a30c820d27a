//! What can be typed after `consort run`.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use consort::{DebugLevel, duration};
use consort_store::{Address, Place};

use super::data_plane::DataPlane;
use super::metrics::MetricsAddress;

/// Start the ranks of a program, watch them, and report the first failure.
///
/// Every rank runs PROGRAM with its place in the job in the environment (RANK, WORLD_SIZE,
/// LOCAL_RANK, MASTER_ADDR, MASTER_PORT and the others that torchrun sets). When one fails, the
/// others are ended and the exit code is the failed rank's.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Ranks on each host; `auto` is one for each core that this process may use.
    #[arg(short = 'n', long = "nproc-per-node", value_name = "N", default_value = "1")]
    pub(crate) ranks: RankCount,

    /// Hosts in the job: a number, or the fewest and the most that may take part.
    #[arg(long = "nnodes", value_name = "A[:B]", default_value = "1")]
    pub(crate) nodes: NodeCount,

    /// Where the hosts of the job meet: tcp://HOST:PORT or file://PATH.
    #[arg(long = "rdzv", value_name = "URL", value_parser = meeting_place)]
    pub(crate) meeting: Option<Place>,

    /// This host's place among the hosts, from 0. Given out at the meeting unless set.
    #[arg(long, value_name = "R")]
    pub(crate) node_rank: Option<u32>,

    /// How many times to start all ranks again after a failure.
    #[arg(long, value_name = "K", default_value_t = 0)]
    pub(crate) max_restarts: u32,

    /// How many ranks of each host may fail while the others go on, which have to be able to: their
    /// programs `shrink` their groups.
    #[arg(long, value_name = "K", default_value_t = 0)]
    pub(crate) tolerate: u32,

    /// Start a rank that has failed and is tolerated again, to join the others (its CONSORT_JOIN is
    /// on), whose programs `grow` their groups.
    #[arg(long)]
    pub(crate) replace: bool,

    /// How long ranks wait for each other, ten minutes unless given (their CONSORT_TIMEOUT).
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) timeout: Option<Duration>,

    /// Write each rank's output to DIR/JOB/attempt_K/RANK/ instead of the terminal.
    #[arg(long, value_name = "DIR")]
    pub(crate) log_dir: Option<PathBuf>,

    /// The job's secret, the same file on every host, readable by its owner alone. On one host
    /// it is made for this job unless given; of several, the one that holds the meeting makes it
    /// if the file is not there.
    #[arg(long, value_name = "FILE")]
    pub(crate) secret_file: Option<PathBuf>,

    /// How long ranks may take to end after being asked to, before they are killed.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration::parse)]
    pub(crate) grace: Duration,

    /// How long to wait for the other hosts to come.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration::parse)]
    pub(crate) join_timeout: Duration,

    /// How long to wait for more hosts once the fewest are there.
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = duration::parse)]
    pub(crate) last_call: Duration,

    /// How long a silent host counts as alive, ten seconds unless given (CONSORT_LIVENESS for the
    /// ranks).
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) liveness: Option<Duration>,

    /// Keep a second copy of the job's store on another host, which takes over if the host that
    /// holds the meeting is lost. Give it on all hosts.
    #[arg(long)]
    pub(crate) standby: bool,

    /// Answer who asks for metrics at http://ADDR:PORT/metrics, in the text format of Prometheus: how the
    /// job goes, and what each rank of this host has done. Only on this host unless an address is given;
    /// port 0 lets the system choose.
    #[arg(long, value_name = "[ADDR:]PORT")]
    pub(crate) metrics: Option<MetricsAddress>,

    /// How much ranks tell: off, info (how groups are formed) or detail (also where in the program calls
    /// are made, which `consort trace` and errors show). Their CONSORT_DEBUG.
    #[arg(long, value_name = "off|info|detail")]
    pub(crate) debug: Option<DebugLevel>,

    #[command(flatten)]
    pub(crate) data_plane: DataPlane,

    /// The program and its arguments. Everything from here on is the program's.
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub(crate) command: Vec<OsString>,
}

/// How many ranks a host runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RankCount {
    /// One for each usable core.
    Auto,
    /// This many.
    Exactly(NonZeroU32),
}

impl FromStr for RankCount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            _ => whole_number(text).map(Self::Exactly).map_err(|why| format!("{why}, or auto")),
        }
    }
}

/// How many hosts take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeCount {
    /// Fewer do not start.
    pub(crate) min: NonZeroU32,
    /// More do not get in.
    pub(crate) max: NonZeroU32,
}

impl FromStr for NodeCount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (min, max) = text.split_once(':').unwrap_or((text, text));
        let (min, max) = (whole_number(min)?, whole_number(max)?);
        if min > max {
            return Err(format!("the fewest hosts ({min}) are more than the most ({max})"));
        }
        Ok(Self { min, max })
    }
}

fn whole_number(text: &str) -> Result<NonZeroU32, String> {
    text.parse().map_err(|_| "give a whole number from 1 upwards".to_owned())
}

/// Where launchers meet, as it is typed.
pub(crate) fn meeting_place(text: &str) -> Result<Place, String> {
    match text.parse::<Address>() {
        Ok(Address { place: Place::Tcp { port: 0, .. }, .. }) => {
            Err("the other hosts cannot know which port 0 becomes: give one".to_owned())
        }
        Ok(Address { place, rank: None, world: None }) => Ok(place),
        Ok(_) => Err("rank and world are given out at the meeting".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

const EXAMPLES: &str = "\
Examples:
  Four ranks on this machine:
      consort run -n 4 -- python train.py --epochs 3
  The others go on when up to two ranks fail, and take in those that are started in their stead:
      consort run -n 4 --tolerate 2 --replace -- ./train
  One rank per core, started again up to twice, output in files:
      consort run -n auto --max-restarts 2 --log-dir logs -- ./train
  With metrics for Prometheus at port 9400 of this host:
      consort run -n 4 --metrics 9400 -- ./train
  Two hosts with eight ranks each; the same line on both:
      consort run --nnodes 2 -n 8 --rdzv tcp://host0:29400 --secret-file job.secret -- ./train
  Between two and four hosts, as they come and go:
      consort run --nnodes 2:4 -n 8 --rdzv tcp://host0:29400 --secret-file job.secret -- ./train
  The same, and the job outlives the host that holds the meeting:
      consort run --nnodes 2:4 -n 8 --rdzv tcp://host0:29400 --secret-file job.secret --standby -- ./train
  Two hosts with encrypted data, and port 29401 open for it:
      consort run --nnodes 2 -n 8 --rdzv tcp://host0:29400 --secret-file job.secret --encrypt --data-port 29401 -- ./train

Exit code: 0 when all ranks ended well; the failed rank's code, or 128 + the signal that killed it;
130 after an interrupt; 2 for wrong usage.";

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn read(line: &str) -> Result<Args, clap::Error> {
        Line::try_parse_from(["run"].into_iter().chain(line.split(' '))).map(|line| line.args)
    }

    #[test]
    fn everything_after_the_program_is_the_programs() {
        let args = read("-n 4 python train.py -n 9 --grace -- x").unwrap();
        assert_eq!(args.ranks, RankCount::Exactly(NonZeroU32::new(4).unwrap()));
        assert_eq!(args.command, ["python", "train.py", "-n", "9", "--grace", "--", "x"]);
        assert_eq!(read("-- prog -x").unwrap().command, ["prog", "-x"]);
    }

    #[test]
    fn a_misspelt_option_is_not_taken_for_the_program() {
        assert!(read("--max-restart 3 prog").is_err());
        assert!(read("-n 2").is_err());
    }

    #[test]
    fn counts_are_checked() {
        assert_eq!(read("-n auto p").unwrap().ranks, RankCount::Auto);
        assert!(read("-n 0 p").is_err());
        assert!(read("-n -1 p").is_err());
        let nodes = read("--nnodes 2:4 p").unwrap().nodes;
        assert_eq!((nodes.min.get(), nodes.max.get()), (2, 4));
        for wrong in ["0", "4:2", "2:", ":2", "two"] {
            assert!(read(&format!("--nnodes {wrong} p")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn options_of_the_data_become_variables() {
        let line = "--backend host --transport tcp --encrypt --integrity --verify 100 --algorithm ring \
                    --streams 2 --data-port 29600 p";
        let given: Vec<_> = read(line).unwrap().data_plane.variables().collect();
        let expected = [
            ("CONSORT_BACKEND", "host"),
            ("CONSORT_TRANSPORT", "tcp"),
            ("CONSORT_ENCRYPT", "on"),
            ("CONSORT_INTEGRITY", "on"),
            ("CONSORT_VERIFY", "100"),
            ("CONSORT_ALGORITHM", "ring"),
            ("CONSORT_STREAMS", "2"),
            ("CONSORT_PORT", "29600"),
        ];
        assert_eq!(given, expected.map(|(name, value)| (name, value.to_owned())));
        assert_eq!(read("p").unwrap().data_plane.variables().count(), 0);
    }

    #[test]
    fn options_of_the_data_that_ranks_would_refuse_are_refused() {
        for (wrong, words) in [
            ("--backend gloo", "choose auto, host, mpi, nccl or fake"),
            ("--transport udp", "choose auto, shm or tcp"),
            ("--verify often", "0 for never"),
            ("--algorithm rings", "choose auto, flat, ring"),
            ("--streams 9", "1 to 8"),
            ("--data-port 65536", "1 to 65535"),
        ] {
            let error = read(&format!("{wrong} p")).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn a_meeting_place_has_a_scheme_a_host_and_a_port() {
        assert!(read("--rdzv tcp://host0:29400 p").is_ok());
        assert!(read("--rdzv tcp://[::1]:1 p").is_ok());
        assert!(read("--rdzv file:///tmp/meet p").is_ok());
        for wrong in ["host0:29400", "tcp://host0", "tcp://:1", "tcp://h:70000", "file://"] {
            assert!(read(&format!("--rdzv {wrong} p")).is_err(), "{wrong}");
        }
    }
}
