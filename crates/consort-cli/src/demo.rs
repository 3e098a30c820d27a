//! `consort demo`: several ranks learn to read digits, and one process for comparison.
//!
//! What is decided: the pictures ([`digits`]), who learns from which ([`batches`]), what the processes have
//! said so far ([`history`]), what comes of it ([`summary`], [`traffic`], [`failure`]), and how that looks
//! ([`progress`], [`text`], [`report`]). What is done: processes are started and heard ([`crew`], [`conduct`]),
//! a line is drawn ([`screen`]), and each process learns ([`rank`]: [`pupil`] with others, [`alone`] without).

mod alone;
mod args;
mod batches;
mod conduct;
mod crew;
mod digits;
mod failure;
mod figures;
mod history;
mod lesson;
mod model;
mod progress;
mod pupil;
mod random;
pub(crate) mod rank;
mod report;
mod rows;
mod screen;
mod strokes;
mod summary;
mod text;
mod traffic;
mod words;

use std::fs;
use std::io::{self, Write};
use std::process::ExitCode;

use consort_sys::topo::Topology;

pub(crate) use args::Args;
use args::Setting;
use conduct::{Run, Sentence, Stop};
use crew::{Crew, Inbox};
use failure::Killed;
use history::History;
use random::Random;
use screen::Screen;
use summary::Summary;
use traffic::Timeline;

use crate::colour;
use crate::run::status::exit_code_of_signal;

/// Exit code 1 when a check or a rank fails, 2 when it made no sense to begin, 128 and more after a signal.
pub(crate) fn main(args: &Args) -> ExitCode {
    let setting = args.setting(Topology::here().effective_cores());
    if let Err(wrong) = args.check(setting) {
        eprintln!("consort: {wrong}");
        return ExitCode::from(2);
    }
    match show(args, setting) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(Stop::Signal(signal)) => ExitCode::from(exit_code_of_signal(signal)),
        Err(Stop::Failed(why)) => {
            eprintln!("consort: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all is as it should be.
fn show(args: &Args, setting: Setting) -> Result<bool, Stop> {
    let task = args.task();
    let inbox = Inbox::new()?;
    let mut screen = Screen::new();
    screen.say(&text::introduction(setting, task.seed));
    let (ranks, killed) = together(args, setting, &inbox, &mut screen)?;
    let alone = match args.no_compare {
        true => None,
        false => Some(alone(args, setting, &inbox, &mut screen)?),
    };
    let summary = Summary::new(setting, task, &ranks, alone.as_ref(), killed)?;
    if let Some(path) = &args.report {
        let page = report::page(&summary, Timeline::of(&ranks).as_ref(), &args.command());
        let cannot = |error| format!("cannot write {}: {error}", path.display());
        fs::write(path, page).map_err(cannot)?;
    }
    print(args, &summary)?;
    Ok(summary.is_good())
}

fn together(
    args: &Args,
    setting: Setting,
    inbox: &Inbox,
    screen: &mut Screen,
) -> Result<(History, Option<Killed>), Stop> {
    let task = args.task();
    let sentence = args.kill_a_rank.then(|| Sentence {
        rank: Random::of(&[task.seed, KILL]).below(setting.ranks),
        after: (task.steps * 2 / 5).max(1),
    });
    let crew = Crew::ranks(setting, task, sentence.map(|it| it.rank), inbox)?;
    let run = Run::new((text::ranks(setting.ranks), setting.ranks), task, crew, screen);
    run.killing(sentence).conduct(inbox)
}

fn alone(
    args: &Args,
    setting: Setting,
    inbox: &Inbox,
    screen: &mut Screen,
) -> Result<History, Stop> {
    let crew = Crew::alone(setting, args.task(), inbox)?;
    let run = Run::new(("one process".to_owned(), 1), args.task(), crew, screen);
    Ok(run.conduct(inbox)?.0)
}

fn print(args: &Args, summary: &Summary) -> Result<(), String> {
    let mut text = if args.json {
        serde_json::to_string(summary).expect("a summary is plain data") + "\n"
    } else {
        format!("\n{}", text::summary(summary, colour::shows_on(&io::stdout())))
    };
    if let (Some(path), false) = (&args.report, args.json) {
        text += &format!("report: {}\n", path.display());
    }
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        // Whoever closed the pipe has seen enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("cannot write what was found: {error}"))
        }
        _ => Ok(()),
    }
}

/// Keeps the choice of who is killed apart from the other numbers of a seed.
const KILL: u64 = 3 << 40;
