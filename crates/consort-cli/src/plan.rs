//! `consort plan`: what collectives move, whether that is right, and what it would cost.
//!
//! Nothing here talks to anyone: programs are written, checked, drawn and timed on a model, for any
//! number of ranks. One subcommand, one module.

mod case;
mod check;
mod choose;
mod plot;
mod record;
mod show;
mod simulate;
mod table;
mod units;

use std::fmt;
use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Subcommand;

/// Draw, prove and cost the schedules of collectives, without running any.
///
/// A schedule is a program for each rank: rounds of sends, receives and copies of chunks. An
/// algorithm writes them for any number of ranks: flat, ring, pairwise, binomial, double_tree,
/// halving, doubling, bruck; hierarchical and shares also know which ranks share a host.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Show(show::Args),
    Check(check::Args),
    Simulate(Box<simulate::Args>),
    Choose(choose::Args),
}

/// Exit code 1 when a schedule is wrong or something cannot be written, 2 for wrong usage.
pub(crate) fn main(args: &Args) -> ExitCode {
    let result = match &args.command {
        Command::Show(args) => show::main(args),
        Command::Check(args) => check::main(args),
        Command::Simulate(args) => simulate::main(args),
        Command::Choose(args) => choose::main(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { code, message }) => {
            eprintln!("consort: {message}");
            ExitCode::from(code)
        }
    }
}

/// Prints. Who does not read on has seen enough.
fn say(text: fmt::Arguments<'_>) -> Result<(), Failure> {
    let mut screen = io::stdout().lock();
    match screen.write_fmt(text).and_then(|()| screen.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("cannot print: {error}")))
        }
        _ => Ok(()),
    }
}

/// Why a subcommand ends badly.
#[derive(Debug)]
struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    /// What was asked for makes no sense.
    fn usage(message: impl Into<String>) -> Self {
        Self { code: 2, message: message.into() }
    }

    /// It made sense, but went wrong.
    fn failed(message: impl Into<String>) -> Self {
        Self { code: 1, message: message.into() }
    }
}

const EXAMPLES: &str = "\
Examples:
  Look at a ring of four, and draw it:
      consort plan show all_reduce --algorithm ring -n 4
      consort plan show all_reduce --algorithm ring -n 4 --svg ring.svg
  Prove all schedules of up to 64 ranks:
      consort plan check --all
  What would 4096 ranks on 512 hosts take?
      consort plan simulate all_reduce --ranks 4096 --hosts 512 --network 100g
  What would be used, and why?
      consort plan choose all_reduce --bytes 1MiB -n 16 --hosts 4

Exit code: 0, 1 if a schedule is wrong or a file cannot be written, 2 for wrong usage.";
