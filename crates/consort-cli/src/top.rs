//! `consort top`: the ranks of a job while it runs.
//!
//! Records are read again and again; what is shown follows from two readings (`rows`) and is drawn
//! (`screen`) or printed once (`table`).

mod rows;
mod screen;
mod table;

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use consort::duration;

use self::rows::{Row, rows};
use crate::trace::{JobTrace, find};

/// Watch the ranks of a job: what each does, for whom it waits, how much it moves, who keeps the others
/// waiting.
///
/// Those for whom others wait most come first. `q` ends it. Where the output is no terminal, one table
/// is printed.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The job's name or how it begins, or a folder of records; `consort trace` lists what there is.
    #[arg(value_name = "JOB|FOLDER")]
    job: String,

    /// Print one table and end.
    #[arg(long)]
    once: bool,

    /// How long to look before something is shown.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration::parse)]
    interval: Duration,
}

/// Exit code 1 when there is nothing to be seen.
pub(crate) fn main(args: &Args) -> ExitCode {
    let watch = Watch::begin(args);
    let shown = watch.and_then(|watch| match args.once || !io::stdout().is_terminal() {
        true => print(watch),
        false => screen::run(watch).map_err(|error| format!("the terminal fails: {error}")),
    });
    match shown {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("consort: {why}");
            ExitCode::FAILURE
        }
    }
}

/// A job that is looked at again and again.
#[derive(Debug)]
struct Watch {
    path: PathBuf,
    interval: Duration,
    last: JobTrace,
}

/// What was seen between two looks.
#[derive(Debug)]
struct Seen {
    title: String,
    rows: Vec<Row>,
}

impl Watch {
    fn begin(args: &Args) -> Result<Self, String> {
        let path = find(&args.job)?;
        let last = JobTrace::read(&path)?;
        Ok(Self { path, interval: args.interval, last })
    }

    /// What has happened since the last look. When the job is gone, its last state stays.
    fn look(&mut self) -> Seen {
        let now = read_again(&self.path).unwrap_or_else(|| self.last.clone());
        let rows = rows(&self.last, &now);
        let title = table::title(&now);
        self.last = now;
        Seen { title, rows }
    }
}

fn read_again(path: &Path) -> Option<JobTrace> {
    JobTrace::read(path).ok()
}

fn print(mut watch: Watch) -> Result<(), String> {
    thread::sleep(watch.interval);
    let Seen { title, rows } = watch.look();
    let text = format!("{title}\n\n{}", table::write(&rows));
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        // Whoever closed the pipe has seen enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("cannot write: {error}"))
        }
        _ => Ok(()),
    }
}
