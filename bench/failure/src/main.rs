//! Does the same harm to consort, PyTorch's Gloo and Open MPI, and says what the ranks that are left
//! get: an error, wrong data, the end of their process or nothing at all; after how long; and whether
//! they can go on. `README.md` says how.
#![forbid(unsafe_code)]

mod answer;
mod clock;
mod crew;
mod finding;
mod library;
mod order;
mod rank;
mod scenario;
mod stage;
mod table;
mod trial;

use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::finding::Finding;
use crate::library::Library;
use crate::scenario::Scenario;
use crate::trial::{End, Trial};

/// Does the same harm to consort, Gloo and Open MPI, and says what the survivors get.
#[derive(Debug, Parser)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run scenarios, and print a table.
    Compare {
        /// Which libraries; all that are set up if none is named.
        #[arg(long, value_delimiter = ',')]
        libraries: Vec<Library>,
        /// Which scenarios, by name; all if none is named.
        #[arg(long, value_delimiter = ',')]
        scenarios: Vec<String>,
        /// Runs of each scenario.
        #[arg(long, default_value_t = 10)]
        runs: usize,
        /// Print one object a line instead of a table.
        #[arg(long)]
        json: bool,
    },
    /// Print the table of what was measured before with --json.
    Table { files: Vec<PathBuf> },
    /// One of consort's ranks.
    #[command(hide = true)]
    Rank(rank::Place),
}

fn main() -> ExitCode {
    let outcome = match Args::parse().command {
        Command::Compare { libraries, scenarios, runs, json } => {
            compare(&libraries, &scenarios, runs, json)
        }
        Command::Table { files } => print_table(&files),
        Command::Rank(place) => rank::serve(&place),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench/failure: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(
    libraries: &[Library],
    names: &[String],
    runs: usize,
    json: bool,
) -> Result<(), Box<dyn Error>> {
    let scenarios = choose_scenarios(names)?;
    let libraries = choose_libraries(libraries)?;
    let mut findings = Vec::new();
    for scenario in &scenarios {
        for &library in &libraries {
            eprintln!("bench/failure: {library}: {}", scenario.title);
            let finding = find_out(library, scenario, runs)?;
            if json {
                println!("{}", serde_json::to_string(&finding)?);
            }
            findings.push(finding);
        }
    }
    if !json {
        print!("{}", table::draw(&findings));
    }
    Ok(())
}

fn find_out(library: Library, scenario: &Scenario, runs: usize) -> Result<Finding, Box<dyn Error>> {
    let (before, mut trials, mut hung) = (load(), Vec::new(), 0);
    let mut spoilt = 0;
    while trials.len() < runs && hung < ENOUGH {
        let trial = match Trial::run(library, scenario) {
            Ok(trial) => trial,
            // A library that crashes at the start now and then can still be measured.
            Err(why) if spoilt < ENOUGH => {
                eprintln!("bench/failure: a run that does not count: {why}");
                spoilt += 1;
                continue;
            }
            Err(why) => return Err(why),
        };
        hung += usize::from(trial.ends.values().any(|end| *end == End::Hung));
        trials.push(trial);
    }
    Ok(Finding::of(library, scenario, &trials, [before, load()]))
}

fn print_table(files: &[PathBuf]) -> Result<(), Box<dyn Error>> {
    let mut findings: Vec<Finding> = Vec::new();
    for file in files {
        for line in fs::read_to_string(file)?.lines() {
            findings.push(serde_json::from_str(line)?);
        }
    }
    print!("{}", table::draw(&findings));
    Ok(())
}

fn choose_scenarios(names: &[String]) -> Result<Vec<Scenario>, String> {
    if names.is_empty() {
        return Ok(Scenario::all());
    }
    let all: Vec<_> = Scenario::all().iter().map(|scenario| scenario.name).collect();
    let choose = |name: &String| {
        let missing = || format!("there is no scenario {name:?}; choose {}", all.join(", "));
        Scenario::called(name).ok_or_else(missing)
    };
    names.iter().map(choose).collect()
}

/// Those that were asked for, all of which must be there; or all that are there.
fn choose_libraries(asked: &[Library]) -> Result<Vec<Library>, String> {
    if let Some((library, why)) = asked.iter().find_map(|it| Some((it, it.missing()?))) {
        return Err(format!("{library}: {why}"));
    }
    let is_here = |library: &Library| match library.missing() {
        Some(why) => {
            eprintln!("bench/failure: without {library}: {why}");
            false
        }
        None => true,
    };
    match asked {
        [] => Ok(LIBRARIES.into_iter().filter(is_here).collect()),
        asked => Ok(asked.to_vec()),
    }
}

/// The machine's load over a minute, 0 if it does not say.
fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or_default()
}

const LIBRARIES: [Library; 6] = [
    Library::Consort,
    Library::ConsortTcp,
    Library::Gloo,
    Library::Openmpi,
    Library::OpenmpiFt,
    Library::OpenmpiHeartbeat,
];

/// How often somebody may hang until it is believed, for it takes long and will be so again; and how
/// often a run of a scenario may go wrong.
const ENOUGH: usize = 3;
