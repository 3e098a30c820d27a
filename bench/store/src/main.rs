//! Measures consort's store, handshake and encryption on, against PyTorch's TCPStore: set+get
//! round trips per second with 1, 16 and 256 clients, and the time for all clients to meet.
//!
//! Both sides do the same: the server in one process, every client a process of its own, all
//! on the loopback interface. Runs alternate, and what is reported is the ratio of medians.
#![forbid(unsafe_code)]

mod job;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(about = "Measures consort's store against PyTorch's TCPStore")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run both, alternating, and print a table of medians and ratios.
    Compare {
        /// The Python that has torch.
        #[arg(long)]
        python: PathBuf,
        /// The peer's script.
        #[arg(long, default_value = "bench/store/torch_store.py")]
        script: PathBuf,
        /// Numbers of clients.
        #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 256])]
        clients: Vec<usize>,
        /// Runs of each.
        #[arg(long, default_value_t = 5)]
        rounds: usize,
        /// Seconds of set+get in each run.
        #[arg(long, default_value_t = 2.0)]
        seconds: f64,
    },
    /// One run of consort's store; prints one line of JSON.
    Serve {
        /// How many clients.
        #[arg(long)]
        clients: usize,
        /// Seconds of set+get.
        #[arg(long, default_value_t = 2.0)]
        seconds: f64,
    },
    /// One client of a run.
    #[command(hide = true)]
    Client {
        #[arg(long)]
        index: usize,
        #[arg(long)]
        clients: usize,
        #[arg(long)]
        seconds: f64,
        #[arg(long)]
        address: String,
        #[arg(long)]
        secret_file: PathBuf,
    },
}

fn main() -> ExitCode {
    let outcome = match Args::parse().command {
        Command::Compare { python, script, clients, rounds, seconds } => {
            report::compare(&python, &script, &clients, rounds, seconds)
        }
        Command::Serve { clients, seconds } => report::one(clients, seconds),
        Command::Client { index, clients, seconds, address, secret_file } => {
            job::client(index, clients, seconds, &address, &secret_file)
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench/store: {error}");
            ExitCode::FAILURE
        }
    }
}
