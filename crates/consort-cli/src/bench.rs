//! `consort bench`: how fast collectives are, and whose.
//!
//! A [`Point`](point::Point) is one question: an operation and a size. Whoever can answer it is a
//! [`Measurer`]: our own ranks (`ours`) or another implementation's (`peer`). All
//! of them are processes that stay alive and sleep between points, so that a [`Contest`] can ask them
//! in turn and everyone meets the same machine. Every rank times itself in the same way (`timing`) on
//! the same numbers (`data`); what comes of it is a [`Record`](record::Record), shown as a line of
//! JSON, a row of a `table`, a `sketch` for the terminal or a `plot`.

mod against;
mod args;
mod bytes;
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
use std::process::ExitCode;

use consort_sys::hop::cache_line_latency;

use against::Contest;
pub(crate) use args::Args;
use measurer::Measurer;
use ours::Ours;
use peer::Peer;
use report::Report;

/// Exit code 1 when something could not be measured.
pub(crate) fn main(args: &Args) -> ExitCode {
    match measure(args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("consort: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether everyone answered everything.
fn measure(args: &Args) -> Result<bool, String> {
    let mut complete = true;
    let mut note = |line: &str| {
        complete = false;
        eprintln!("consort: {line}");
    };
    let setting = args.setting();
    let ours = Ours::start(&setting).map_err(|refusal| refusal.to_string())?;
    let mut measurers: Vec<Box<dyn Measurer>> = vec![Box::new(ours)];
    for peer in start_peers(args, &mut note)? {
        measurers.push(Box::new(peer));
    }
    let mut hop = || cache_line_latency().map(|latency| latency.as_secs_f64() * 1e6);
    let mut contest = Contest::new(measurers, args.rounds(), &mut hop, &mut note);
    let mut report = Report::new(contest.names(), args.json);
    for point in args.points() {
        report.add(contest.measure(&point)?);
    }
    report.end();
    if let Some(path) = &args.plot {
        let cannot = |error| format!("cannot write {}: {error}", path.display());
        fs::write(path, report.plot()?).map_err(cannot)?;
    }
    drop(contest);
    Ok(complete)
}

/// A peer that cannot be started is left out, and said so.
fn start_peers(args: &Args, note: &mut dyn FnMut(&str)) -> Result<Vec<Peer>, String> {
    if args.against.is_empty() {
        return Ok(Vec::new());
    }
    let folder = args.peers.clone().map_or_else(peer::folder, Ok)?;
    let mut peers = Vec::new();
    for name in &args.against {
        match Peer::start(&folder, name, &args.setting()) {
            Ok(peer) => {
                tracing::info!(version = peer.version, "{} is ready", name.as_str());
                peers.push(peer);
            }
            Err(refusal) => note(&format!("{refusal}\n    it is left out")),
        }
    }
    Ok(peers)
}
