//! The `consort` program.
//!
//! One subcommand, one module. A subcommand reads its arguments, does its job and returns the exit
//! code of the process: 0 good, 1 failed, 2 wrong usage (`consort run` returns the failed rank's own).

#![forbid(unsafe_code)]

mod bench;
mod chart;
mod colour;
mod demo;
mod doctor;
mod files;
mod plan;
mod records;
mod run;
mod secret;
mod soak;
mod top;
mod trace;

use std::io;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Run(args) => logged(|| run::main(args)),
        Command::Doctor(args) => logged(|| doctor::main(&args)),
        Command::Secret(args) => secret::main(&args),
        Command::Demo(args) => logged(|| demo::main(&args)),
        Command::DemoRank => demo::rank::main(),
        Command::Bench(args) => logged(|| bench::main(&args)),
        Command::Plan(args) => plan::main(&args),
        Command::Soak(args) => logged(|| soak::main(&args)),
        Command::SoakRank => soak::rank::main(),
        Command::Trace(args) => logged(|| trace::main(&args)),
        Command::Top(args) => logged(|| top::main(&args)),
        Command::BenchRank => bench::rank::main(),
        Command::BenchDdpRank => bench::ddp::rank::main(),
        Command::BenchRaw => bench::raw::end::main(),
        Command::Reach(args) => doctor::reach::main(args),
        Command::Rank(args) => run::shim::main(args),
        Command::Guard => run::guard::main(),
    }
}

/// Collective communication between processes: start them, measure them, look at the machine.
#[derive(Debug, Parser)]
#[command(name = "consort", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Args),
    Doctor(doctor::Args),
    Secret(secret::Args),

    Demo(demo::Args),
    Bench(bench::Args),
    Plan(plan::Args),
    Trace(trace::Args),
    Top(top::Args),
    Soak(soak::Args),

    /// What `demo` starts for each rank.
    #[command(name = "__demo_rank", hide = true)]
    DemoRank,

    /// What `soak` starts for each rank.
    #[command(name = "__soak_rank", hide = true)]
    SoakRank,

    /// What `bench` starts for each rank.
    #[command(name = "__bench_rank", hide = true)]
    BenchRank,

    /// What `bench ddp` starts for each rank.
    #[command(name = "__bench_ddp_rank", hide = true)]
    BenchDdpRank,

    /// What `bench` starts to see what sockets can do.
    #[command(name = "__bench_raw", hide = true)]
    BenchRaw,

    /// What `doctor` starts to look back at it.
    #[command(name = "__reach", hide = true)]
    Reach(doctor::reach::Args),

    /// What `run` starts for each rank; it becomes the rank's program.
    #[command(name = "__rank", hide = true)]
    Rank(run::shim::Args),

    /// What `run` starts to clean up after it.
    #[command(name = "__guard", hide = true)]
    Guard,
}

/// Runs a subcommand whose log lines go to standard error, filtered by `CONSORT_LOG`.
fn logged(subcommand: impl FnOnce() -> ExitCode) -> ExitCode {
    let wanted = std::env::var(LOG_VARIABLE).unwrap_or_else(|_| "warn".to_owned());
    match EnvFilter::try_new(&wanted) {
        Ok(filter) => {
            let coloured = colour::shows_on(&io::stderr());
            let lines = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(coloured);
            lines.with_writer(io::stderr).init();
            subcommand()
        }
        Err(error) => {
            eprintln!(
                "consort: {LOG_VARIABLE}={wanted:?} is not a log filter ({error}); give error, \
                 warn, info, debug or trace, or a list such as warn,consort_store=debug"
            );
            ExitCode::from(2)
        }
    }
}

const LOG_VARIABLE: &str = "CONSORT_LOG";
