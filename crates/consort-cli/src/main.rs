//! The `consort` program.
//!
//! One subcommand, one module. A subcommand reads its arguments, does its job and returns the exit
//! code of the process: 0 good, 1 failed, 2 wrong usage (`consort run` returns the failed rank's own).

#![forbid(unsafe_code)]

mod run;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let cli = Cli::parse();
    start_logging();
    match cli.command {
        Command::Run(args) => run::main(args),
    }
}

/// Collective communication and data-parallel training.
#[derive(Debug, Parser)]
#[command(name = "consort", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Args),
}

/// Sends our own log lines to standard error, filtered by `CONSORT_LOG` (`warn` unless set).
fn start_logging() {
    let filter = EnvFilter::try_from_env(LOG_VARIABLE).unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
}

const LOG_VARIABLE: &str = "CONSORT_LOG";
