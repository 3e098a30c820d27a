//! `consort doctor`: what a user needs to know before a job.
//!
//! Facts are gathered first (`facts`), then judged by small functions that see nothing but facts
//! (`check`), then shown (`report`). Talking to a meeting place is the one part that depends on
//! others (`meeting`).

mod check;
mod facts;
mod finding;
mod meeting;
mod report;
mod words;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use consort_store::Place;

use crate::run::meeting_place;
pub(crate) use facts::reach;

use facts::Facts;
use finding::{Finding, Verdict};
use report::Style;

/// Look at this machine: what a job would find here, what is missing and how to get it.
///
/// Each line is good, note, warning or bad, with what to do about it. With --rdzv it also tests that the
/// meeting place can be reached, and measures it.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Test this meeting place too: tcp://HOST:PORT or file://PATH.
    #[arg(long = "rdzv", value_name = "URL", value_parser = meeting_place)]
    meeting: Option<Place>,

    /// The job's secret, needed to measure a meeting place that uses TCP.
    #[arg(long, value_name = "FILE", env = "CONSORT_SECRET_FILE")]
    secret_file: Option<PathBuf>,

    /// Print one JSON object a line: area, verdict, what, todo.
    #[arg(long)]
    json: bool,
}

/// Exit code 1 when something is bad or the report cannot be written.
pub(crate) fn main(args: &Args) -> ExitCode {
    let findings = examine(args);
    let mut stdout = io::stdout().lock();
    let shown = if args.json {
        report::json(&mut stdout, &findings)
    } else {
        report::text(&mut stdout, &findings, Style::of_stdout())
    };
    match shown.and_then(|()| stdout.flush()) {
        // Whoever closed the pipe has seen enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("consort: cannot write the report: {error}");
            return ExitCode::FAILURE;
        }
        _ => {}
    }
    match finding::worst(&findings) {
        Verdict::Bad => ExitCode::FAILURE,
        Verdict::Good | Verdict::Note | Verdict::Warning => ExitCode::SUCCESS,
    }
}

fn examine(args: &Args) -> Vec<Finding> {
    let mut facts = Facts::gather(args.secret_file.as_deref());
    let Some(place) = &args.meeting else {
        return check::all(&facts);
    };
    let visit = meeting::visit(place, args.secret_file.as_deref());
    if let Some(peer) = visit.peer() {
        facts.toward(peer);
    }
    let mut findings = check::all(&facts);
    findings.extend(meeting::check(place, &visit));
    findings
}

const EXAMPLES: &str = "\
Examples:
  This machine:
      consort doctor
  Can this machine take part in a job that meets at host0? Run it while the job waits there:
      consort doctor --rdzv tcp://host0:29400 --secret-file job.secret
  Can jobs meet through this folder?
      consort doctor --rdzv file:///shared/jobs/meet
  For a script: everything that is not good
      consort doctor --json | grep -v '\"verdict\":\"good\"'

What the verdicts mean:
  good     nothing to do
  note     nothing is wrong; something to know, or to have if you need it
  warning  jobs run, but slower or with less than they could have
  bad      jobs fail, or cannot do what was asked for

Exit code: 0 unless something is bad, 1 if so or if the report cannot be written, 2 for wrong usage.";
