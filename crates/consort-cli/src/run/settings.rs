//! What was typed, checked as a whole.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::args::{Args, NodeCount, RankCount};

/// What `consort run` was asked to do.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The program and its arguments; never empty.
    pub(crate) command: Vec<OsString>,
    /// Ranks on this host.
    pub(crate) local_world: u32,
    /// How the hosts meet; `None` for a job on this host alone.
    pub(crate) meeting: Option<Meeting>,
    /// How often all ranks may be started again.
    pub(crate) max_restarts: u32,
    /// The ranks' limit for collectives.
    pub(crate) timeout: Option<Duration>,
    /// The ranks' limit for a silent host.
    pub(crate) liveness: Option<Duration>,
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
    /// Where: `tcp://HOST:PORT` or `file://PATH`.
    pub(crate) url: String,
    /// How many hosts.
    #[expect(dead_code, reason = "read by the meeting")]
    pub(crate) nodes: NodeCount,
    /// This host's place among them, if it was given.
    #[expect(dead_code, reason = "read by the meeting")]
    pub(crate) node_rank: Option<u32>,
    /// How long to wait for the others.
    #[expect(dead_code, reason = "read by the meeting")]
    pub(crate) join_timeout: Duration,
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
        if let Some(rank) = args.node_rank
            && rank >= most
        {
            let last = most - 1;
            return Err(format!("--node-rank {rank} is beyond the last host, which is {last}"));
        }
        Ok(Self {
            command: args.command,
            local_world: match args.ranks {
                RankCount::Auto => cores,
                RankCount::Exactly(ranks) => ranks.get(),
            },
            meeting: args.meeting.map(|url| Meeting {
                url,
                nodes: args.nodes,
                node_rank: args.node_rank,
                join_timeout: args.join_timeout,
            }),
            max_restarts: args.max_restarts,
            timeout: args.timeout,
            liveness: args.liveness,
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
        assert!(settings("--nnodes 2 --rdzv tcp://h:1 prog").is_ok());
    }

    #[test]
    fn a_host_beyond_the_last_is_refused() {
        assert!(settings("--nnodes 2 --rdzv tcp://h:1 --node-rank 2 prog").is_err());
        assert!(settings("--nnodes 2 --rdzv tcp://h:1 --node-rank 1 prog").is_ok());
        assert!(settings("--node-rank 0 prog").is_ok());
    }
}
