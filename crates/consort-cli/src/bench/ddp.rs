//! `consort bench ddp`: what communication adds to a step of data-parallel training.
//!
//! Whoever can train a [`Shape`](shape::Shape) is a [`Trainer`]: our own ranks, which are processes of
//! this program (`rank`) that learn in two ways (`learner`), or a peer's in `bench/peers/ddp`. A [`Race`]
//! asks them in turn; what each has done is its [`Course`](course::Course), of which a
//! [`Record`] is made, shown as a line of JSON or a row of a `table`.

mod args;
mod course;
mod learner;
mod network;
mod progress;
mod race;
pub(crate) mod rank;
mod record;
mod shape;
mod share;
mod table;
mod trainer;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use consort_sys::hop::cache_line_latency;

pub(crate) use args::Args;

use super::agenda::must_exist;
use super::measurer::Refusal;
use super::report::show;
use super::{ours, peer};
use crate::colour;
use args::Model;
use progress::Progress;
use race::Race;
use record::Record;
use table::Comparison;
use trainer::{Ours, Peer, Task, Trainer};

/// Exit code 1 when something could not be measured, 2 when it made no sense to begin.
pub(crate) fn main(args: &Args) -> ExitCode {
    let peers = match find_peers(args) {
        Ok(peers) => peers,
        Err(error) => {
            eprintln!("consort: {error}");
            return ExitCode::from(2);
        }
    };
    let mut complete = true;
    for (model, task) in args.tasks() {
        match measure(args, &peers, model, &task) {
            Ok(is_complete) => complete &= is_complete,
            Err(error) => {
                eprintln!("consort: {}: {error}", model.name());
                return ExitCode::FAILURE;
            }
        }
    }
    if complete { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Where the peers are, if there are some.
fn find_peers(args: &Args) -> Result<PathBuf, String> {
    if args.against.is_empty() {
        return Ok(PathBuf::new());
    }
    let folder = match &args.peers {
        Some(folder) => folder.clone(),
        None => peer::folder()?.join("ddp"),
    };
    args.against.iter().try_for_each(|name| must_exist(name, &folder))?;
    Ok(folder)
}

/// Trains one model with everyone, each in processes of its own. Says whether all reached the end.
fn measure(args: &Args, peers: &Path, model: Model, task: &Task) -> Result<bool, String> {
    let mut progress = Progress::new(model.name());
    let trainers = start(args, peers, task, &mut progress)?;
    let race = Race {
        trainers,
        rounds: args.rounds as usize,
        steps: args.steps as usize,
        hop: &mut || cache_line_latency().map(|latency| latency.as_secs_f64() * 1e6),
        progress: &mut progress,
    };
    let mut records = Vec::new();
    for (name, course) in race.run()? {
        let figures = course.and_then(|course| course.figures());
        let transport = (name == ours::NAME).then(|| task.setting.transport_in_use());
        let record = |it| Record::new(&name, transport, model.name(), task, &it);
        records.extend(figures.map(record));
    }
    tell(args.json, Comparison { records })?;
    Ok(progress.complete)
}

/// Ours first, then whatever they are compared with. A peer that cannot be started is left out.
fn start(
    args: &Args,
    peers: &Path,
    task: &Task,
    progress: &mut Progress,
) -> Result<Vec<Box<dyn Trainer>>, String> {
    progress.show("starting");
    let ours = Ours::start(task).map_err(|refusal: Refusal| refusal.to_string())?;
    let mut trainers: Vec<Box<dyn Trainer>> = vec![Box::new(ours)];
    for name in &args.against {
        match Peer::start(peers, name, task) {
            Ok(peer) => trainers.push(Box::new(peer)),
            Err(refusal) => progress.note(&format!("{refusal}\n    it is left out")),
        }
    }
    Ok(trainers)
}

fn tell(json: bool, comparison: Comparison) -> Result<(), String> {
    if !json {
        return show(&comparison.table(colour::shows_on(&io::stdout())));
    }
    for record in &comparison.records {
        show(&(serde_json::to_string(record).expect("a record is plain data") + "\n"))?;
    }
    Ok(())
}
