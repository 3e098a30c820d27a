//! What was typed, checked as a whole.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use consort::DebugLevel;
use consort_store::Place;

use super::args::{Args, NodeCount, RankCount};
use super::data_plane::DataPlane;
use super::metrics::MetricsAddress;

/// What `consort run` was asked to do.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The program and its arguments; never empty.
    pub(crate) command: Vec<OsString>,
    /// Ranks on this host.
    pub(crate) local_world: u32,
    /// How many hosts.
    pub(crate) nodes: NodeCount,
    /// How the hosts meet; `None` for a job on this host alone.
    pub(crate) meeting: Option<Meeting>,
    /// How long to wait for the other hosts.
    pub(crate) join_timeout: Duration,
    /// How long to wait for more hosts once the fewest are there.
    pub(crate) last_call: Duration,
    /// How often all ranks may be started again.
    pub(crate) max_restarts: u32,
    /// How many ranks of this host may fail while the others go on.
    pub(crate) tolerate: u32,
    /// Whether those are started again.
    pub(crate) replace: bool,
    /// The ranks' limit for collectives.
    pub(crate) timeout: Option<Duration>,
    /// The ranks' limit for a silent host.
    pub(crate) liveness: Option<Duration>,
    /// Whether the store is to outlive the host that holds it.
    pub(crate) standby: bool,
    /// Where metrics can be had.
    pub(crate) metrics: Option<MetricsAddress>,
    /// How much ranks tell.
    pub(crate) debug: Option<DebugLevel>,
    /// How the ranks' data travels.
    pub(crate) data_plane: DataPlane,
    /// Between asking a rank to end and killing it.
    pub(crate) grace: Duration,
    /// Where output goes instead of the terminal.
    pub(crate) log_dir: Option<PathBuf>,
    /// The job's secret, if it was given.
    pub(crate) secret_file: Option<PathBuf>,
}

/// How several hosts come together.
#[derive(Clone, Debug)]
pub(crate) struct Meeting {
    /// Where.
    pub(crate) place: Place,
    /// This host's place among the hosts, if it was given.
    pub(crate) node_rank: Option<u32>,
}

impl Settings {
    /// Checks the options against each other. `cores` is what `auto` stands for.
    ///
    /// # Errors
    /// Says which options do not go together, and what to give instead.
    pub(crate) fn from_args(args: Args, cores: u32) -> Result<Self, String> {
        let most = args.nodes.max.get();
        if most > 1 && args.meeting.is_none() {
            return Err(format!(
                "--nnodes {most} needs --rdzv tcp://HOST:PORT or --rdzv file://PATH, \
                 so that the hosts can find each other"
            ));
        }
        if most > 1 && matches!(args.meeting, Some(Place::Tcp { .. })) && args.secret_file.is_none()
        {
            return Err(
                "a job on several hosts needs --secret-file FILE, the same on all of them: \
                        `consort secret FILE` makes one, or the host that holds the meeting does \
                        if FILE is not there yet"
                    .to_owned(),
            );
        }
        for (option, time) in [("--timeout", args.timeout), ("--liveness", args.liveness)] {
            if time.is_some_and(|time| time.is_zero()) {
                return Err(format!("{option} 0 would give up before anything can happen"));
            }
        }
        if args.standby && (most == 1 || !matches!(args.meeting, Some(Place::Tcp { .. }))) {
            return Err("--standby is for several hosts that meet at --rdzv tcp://HOST:PORT".into());
        }
        if let Some(rank) = args.node_rank
            && rank >= most
        {
            let last = most - 1;
            return Err(format!("--node-rank {rank} is beyond the last host, which is {last}"));
        }
        if args.replace && args.tolerate == 0 {
            return Err(
                "--replace starts ranks again whose failure is tolerated: say how many may fail \
                        with --tolerate"
                    .to_owned(),
            );
        }
        Ok(Self {
            command: args.command,
            local_world: match args.ranks {
                RankCount::Auto => cores,
                RankCount::Exactly(ranks) => ranks.get(),
            },
            nodes: args.nodes,
            meeting: args.meeting.map(|place| Meeting { place, node_rank: args.node_rank }),
            join_timeout: args.join_timeout,
            last_call: args.last_call,
            max_restarts: args.max_restarts,
            tolerate: args.tolerate,
            replace: args.replace,
            timeout: args.timeout,
            liveness: args.liveness,
            standby: args.standby,
            metrics: args.metrics,
            debug: args.debug,
            data_plane: args.data_plane,
            grace: args.grace,
            log_dir: args.log_dir,
            secret_file: args.secret_file,
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    /// The settings of a command line, on a machine with six cores.
    pub(crate) fn settings(line: &str) -> Result<Settings, String> {
        let words = ["run"].into_iter().chain(line.split(' '));
        Settings::from_args(Line::try_parse_from(words).unwrap().args, 6)
    }

    #[test]
    fn one_host_needs_nothing_but_a_program() {
        let settings = settings("prog").unwrap();
        assert_eq!(settings.local_world, 1);
        assert!(settings.meeting.is_none());
    }

    #[test]
    fn auto_is_one_rank_per_core() {
        assert_eq!(settings("-n auto prog").unwrap().local_world, 6);
    }

    #[test]
    fn several_hosts_need_a_meeting_place() {
        assert!(settings("--nnodes 2 prog").unwrap_err().contains("--rdzv"));
        assert!(settings("--nnodes 1:2 prog").unwrap_err().contains("--rdzv"));
        assert!(settings("--nnodes 2 --rdzv file:///f prog").is_ok());
    }

    #[test]
    fn several_hosts_over_tcp_need_a_secret_that_all_can_have() {
        let error = settings("--nnodes 2 --rdzv tcp://h:1 prog").unwrap_err();
        assert!(error.contains("consort secret FILE"), "{error}");
        assert!(settings("--nnodes 2 --rdzv tcp://h:1 --secret-file s prog").is_ok());
    }

    #[test]
    fn only_a_failure_that_is_tolerated_can_be_made_good() {
        assert!(settings("--replace prog").unwrap_err().contains("--tolerate"));
        let settings = settings("--replace --tolerate 2 prog").unwrap();
        assert_eq!((settings.tolerate, settings.replace), (2, true));
    }

    #[test]
    fn no_time_at_all_is_refused() {
        assert!(settings("--liveness 0s prog").unwrap_err().contains("--liveness"));
        assert!(settings("--timeout 0ms prog").unwrap_err().contains("--timeout"));
    }

    #[test]
    fn a_standby_needs_another_host_and_a_store_that_is_in_one() {
        for wrong in ["--standby prog", "--standby --nnodes 2 --rdzv file:///f prog"] {
            assert!(settings(wrong).unwrap_err().contains("--standby is for several hosts"));
        }
        let right = "--standby --nnodes 2 --rdzv tcp://h:1 --secret-file s prog";
        assert!(settings(right).unwrap().standby);
    }

    #[test]
    fn a_host_beyond_the_last_is_refused() {
        assert!(settings("--nnodes 2 --rdzv file:///f --node-rank 2 prog").is_err());
        assert!(settings("--nnodes 2 --rdzv file:///f --node-rank 1 prog").is_ok());
        assert!(settings("--node-rank 0 prog").is_ok());
    }
}
