//! `consort run`: starts the ranks of any program, watches them and reports the first failure.

use std::process::ExitCode;

/// Start the ranks of a program and watch them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<std::ffi::OsString>,
}

pub(crate) fn main(args: Args) -> ExitCode {
    tracing::debug!(?args.program, "run");
    ExitCode::SUCCESS
}
