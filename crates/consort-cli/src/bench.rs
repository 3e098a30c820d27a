//! `consort bench`: how fast collectives are, and whose.
//!
//! A [`Point`](point::Point) is one question: an operation and a size. Whoever can answer it is a
//! [`Measurer`]: our own ranks (`ours`), another implementation's (`peer`), or bare sockets (`raw`).
//! All of them are processes that stay alive and sleep between points, so that a [`Contest`] can ask them
//! in turn and everyone meets the same machine. Every rank times itself in the same way (`timing`) on
//! the same numbers (`data`); what comes of it is a [`Record`](record::Record), shown as a line of
//! JSON, a row of a `table`, a `sketch` for the terminal or a `plot`. What collectives are for is measured
//! by `ddp`: steps of training.

mod against;
mod agenda;
mod args;
pub(crate) mod asker;
pub(crate) mod bytes;
mod data;
pub(crate) mod ddp;
mod hosts;
mod measurer;
mod memory;
mod op;
mod ours;
mod peer;
mod plot;
mod point;
mod process;
pub(crate) mod rank;
mod ranks;
pub(crate) mod raw;
mod record;
mod report;
mod samples;
mod seat;
mod setting;
mod sketch;
mod table;
pub(crate) mod timing;
mod witness;
mod work;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use consort_sys::hop::cache_line_latency;

use against::Contest;
use agenda::Agenda;
pub(crate) use agenda::can_be_written;
pub(crate) use args::Args;
use args::Other;
use hosts::Hosts;
use measurer::{Measurer, Refusal};
use ours::Ours;
use peer::Peer;
use raw::Raw;
use report::Report;
use setting::{Setting, Transport};
use witness::Witnessed;

/// Exit code 1 when something could not be measured, 2 when it made no sense to begin.
pub(crate) fn main(args: &Args) -> ExitCode {
    if let Some(Other::Ddp(args)) = &args.other {
        return ddp::main(args);
    }
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
    let count = args.setting().hosts;
    // Their cables are gone with them: they outlive whoever measures.
    let hosts = (count > 1).then(|| Hosts::new(count)).transpose()?;
    let measurers = start(args, &agenda.peers, hosts.as_ref(), &mut note)?;
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

/// Ours first, then whatever they are compared with.
fn start(
    args: &Args,
    peers: &Path,
    hosts: Option<&Hosts>,
    note: &mut dyn FnMut(&str),
) -> Result<Vec<Box<dyn Measurer>>, String> {
    let setting = args.setting();
    let in_words = |refusal: Refusal| refusal.to_string();
    let ours = Ours::start(ours::NAME, &setting, hosts).map_err(in_words)?;
    let mut measurers: Vec<Box<dyn Measurer>> = vec![Box::new(ours)];
    for peer in start_peers(args, peers, note) {
        measurers.push(Box::new(peer));
    }
    if setting.is_mixed() {
        let flat = Setting { transport: Transport::Tcp, ..setting.clone() };
        let flat = Ours::start(ours::FLAT, &flat, hosts).map_err(in_words)?;
        measurers.push(Box::new(flat));
    }
    if !setting.is_loopback_alone() {
        return Ok(measurers);
    }
    match Raw::start(&setting) {
        Ok(raw) => measurers.push(Box::new(raw)),
        Err(refusal) => note(&format!("{refusal}\n    bare sockets are left out")),
    }
    Ok(measurers.into_iter().map(|it| Box::new(Witnessed(it)) as Box<dyn Measurer>).collect())
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
