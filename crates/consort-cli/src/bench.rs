//! `consort bench`: how fast collectives are, and whose.
//!
//! A [`Point`](point::Point) is one question: an operation and a size. Whoever can answer it is a
//! [`Measurer`]: our own ranks (`ours`) or another implementation's (`peer`). All
//! of them are processes that stay alive and sleep between points, so that a [`Contest`] can ask them
//! in turn and everyone meets the same machine. Every rank times itself in the same way (`timing`) on
//! the same numbers (`data`); what comes of it is a [`Record`](record::Record), shown as a line of
//! JSON, a row of a `table`, a `sketch` for the terminal or a `plot`.

mod against;
mod agenda;
mod args;
pub(crate) mod bytes;
mod data;
mod measurer;
mod memory;
mod op;
mod ours;
mod peer;
mod plot;
mod point;
mod process;
pub(crate) mod rank;
mod record;
mod report;
mod samples;
mod setting;
mod sketch;
mod table;
mod timing;
mod work;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use consort_sys::hop::cache_line_latency;

use against::Contest;
use agenda::Agenda;
pub(crate) use args::Args;
use measurer::Measurer;
use ours::Ours;
use peer::Peer;
use report::Report;

/// Exit code 1 when something could not be measured, 2 when it made no sense to begin.
pub(crate) fn main(args: &Args) -> ExitCode {
    let agenda = match Agenda::of(args) {
        Ok(agenda) => agenda,
        Err(error) => {
            eprintln!("consort: {error}");
            return ExitCode::from(2);
        }
    };
    match measure(args, &agenda) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("consort: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether everyone answered everything.
fn measure(args: &Args, agenda: &Agenda) -> Result<bool, String> {
    agenda.remarks.iter().for_each(|remark| eprintln!("consort: {remark}"));
    let mut complete = true;
    let mut note = |line: &str| {
        complete = false;
        eprintln!("consort: {line}");
    };
    agenda.omissions.iter().for_each(|omission| note(omission));
    let setting = args.setting();
    let ours = Ours::start(&setting).map_err(|refusal| refusal.to_string())?;
    let mut measurers: Vec<Box<dyn Measurer>> = vec![Box::new(ours)];
    for peer in start_peers(args, &agenda.peers, &mut note) {
        measurers.push(Box::new(peer));
    }
    let mut hop = || cache_line_latency().map(|latency| latency.as_secs_f64() * 1e6);
    let mut contest = Contest::new(measurers, args.rounds(), &mut hop, &mut note);
    let mut report = Report::new(contest.names(), args.json);
    for point in &agenda.points {
        report.add(contest.measure(point)?)?;
    }
    report.end()?;
    if let Some(path) = &args.plot {
        let cannot = |error| format!("cannot write {}: {error}", path.display());
        fs::write(path, report.plot()?).map_err(cannot)?;
    }
    drop(contest);
    Ok(complete)
}

/// A peer that cannot be started is left out, and said so.
fn start_peers(args: &Args, folder: &Path, note: &mut dyn FnMut(&str)) -> Vec<Peer> {
    let mut peers = Vec::new();
    for name in &args.against {
        match Peer::start(folder, name, &args.setting()) {
            Ok(peer) => {
                tracing::info!(version = peer.version, "{} is ready", name.as_str());
                peers.push(peer);
            }
            Err(refusal) => note(&format!("{refusal}\n    it is left out")),
        }
    }
    peers
}
