//! One start of the ranks of this host, until all have ended.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use consort_store::{Error as StoreError, News};
use signal_hook::consts::{SIGPIPE, SIGTERM};

use super::crew::{Crew, CrewEnd};
use super::error::RunError;
use super::event::{Event, Exit, Inbox};
use super::job::Job;
use super::notice::notice;
use super::output::Output;
use super::placement::Placement;
use super::pmi::Pmi;
use super::report::{Failure, Others, reason_in};
use super::signals::{asked_by, asks_to_end};

/// How an attempt went.
#[derive(Debug)]
pub(crate) enum AttemptOutcome {
    /// All ranks ended well.
    AllDone,
    /// A rank failed; the others were ended.
    Failed(Box<Failure>),
    /// A signal asked the launcher to end; the ranks got it too.
    Interrupted(i32),
    /// The other hosts called for an end of this attempt.
    Called(News),
}

/// What the other hosts have to know before the ranks of this one are ended, since theirs may fail
/// in turn.
#[derive(Debug)]
pub(crate) enum FirstWord<'a> {
    /// A rank has failed; how follows.
    Failing,
    /// This is how, but for what will become of this host's other ranks.
    Failed(&'a Failure),
    /// This host goes.
    Leaving(&'a str),
}

/// Starts the ranks of this host, watches them, and ends all when one fails. MPI, if they use it, is served by `pmi`.
///
/// Whatever the outcome, no process of this attempt is left and all its output is passed on.
/// Events that are for others stay in the inbox; so does a signal that came after the failure.
pub(crate) fn run_attempt(
    job: &Job,
    place: &Placement,
    pmi: Option<&Pmi>,
    inbox: &mut Inbox,
    mut tell: impl FnMut(FirstWord<'_>),
) -> Result<AttemptOutcome, RunError> {
    let mut output = open_output(job, place)?;
    let mut crew = Crew::start(job, place, pmi, &mut output, inbox)?;
    job.tally.note(|facts| facts.alive = crew.alive());
    tracing::info!(job = place.job, epoch = place.epoch, world = place.world, "ranks started");
    let watch = Watch { crew: &mut crew, job, place, pmi, output: &output, failed: 0 };
    let verdict = watch.until_the_end(inbox)?;
    match &verdict {
        Verdict::Failed(local_rank, exit) => {
            if place.nodes > 1 {
                tell(FirstWord::Failing);
                // What it wrote last is still on its way, and other hosts' users want to see it.
                thread::sleep(LAST_WORDS);
            }
            let failure = failure(job, place, &output, crew.began(), *local_rank, *exit);
            tell(FirstWord::Failed(&failure));
        }
        Verdict::Signalled(signal) => tell(FirstWord::Leaving(&asked_by(*signal))),
        Verdict::OutputClosed(_) => tell(FirstWord::Leaving("its output cannot be written")),
        Verdict::AllDone | Verdict::Called(_) | Verdict::StoreLost(_) => {}
    }
    let end = crew.end(verdict.signal(), job.settings.grace, inbox);
    job.tally.note(|facts| facts.alive = 0);
    let written = output.finish(verdict.patience(), inbox);
    if let Some(signal) = end.asked_by {
        inbox.put_back(vec![Event::Signal(signal)]);
    }
    match (verdict, written) {
        (Verdict::AllDone, Ok(())) => Ok(AttemptOutcome::AllDone),
        (Verdict::Failed(local_rank, exit), _) => {
            let mut failure = failure(job, place, &output, end.began, local_rank, exit);
            failure.others = others(job, place, &end, (local_rank, exit));
            Ok(AttemptOutcome::Failed(Box::new(failure)))
        }
        (Verdict::Signalled(signal), _) => Ok(AttemptOutcome::Interrupted(signal)),
        (Verdict::Called(news), _) => Ok(AttemptOutcome::Called(news)),
        (Verdict::StoreLost(error), _) => Err(error.into()),
        (Verdict::AllDone, Err(error)) | (Verdict::OutputClosed(error), _) => match error.kind() {
            // As for any program whose reader has left.
            io::ErrorKind::BrokenPipe => Ok(AttemptOutcome::Interrupted(SIGPIPE)),
            _ => Err(RunError::Output(error)),
        },
    }
}

fn open_output(job: &Job, place: &Placement) -> Result<Output, RunError> {
    let log_dir = job.settings.log_dir.as_deref();
    let output = Output::new(log_dir, place).map_err(|error| RunError::LogDir {
        path: log_dir.unwrap_or("".as_ref()).to_owned(),
        error,
    })?;
    if let Some(directory) = output.directory() {
        notice(format_args!("the ranks' output is in {}", directory.display()));
    }
    Ok(output)
}

/// What brought an attempt to its end.
#[derive(Debug)]
enum Verdict {
    AllDone,
    Failed(u32, Exit),
    Signalled(i32),
    OutputClosed(io::Error),
    Called(News),
    StoreLost(StoreError),
}

impl Verdict {
    /// What the ranks that still run are told to end with.
    fn signal(&self) -> i32 {
        match self {
            Self::Signalled(signal) => *signal,
            _ => SIGTERM,
        }
    }

    /// How long whoever reads our output may take. A pager that waits for its user holds up a
    /// job that is done, but not one that was asked to end.
    fn patience(&self) -> Option<Duration> {
        match self {
            Self::AllDone | Self::Failed(..) => None,
            _ => Some(Duration::from_secs(2)),
        }
    }
}

/// A watch over the ranks of this host until something ends the attempt.
struct Watch<'a, 'job> {
    crew: &'a mut Crew<'job>,
    job: &'a Job,
    place: &'a Placement,
    pmi: Option<&'a Pmi>,
    output: &'a Output,
    /// How many ranks have failed so far.
    failed: u32,
}

impl Watch<'_, '_> {
    fn until_the_end(mut self, inbox: &mut Inbox) -> Result<Verdict, RunError> {
        let epoch = self.place.epoch;
        loop {
            match inbox.next() {
                Event::Exited(exit) => {
                    if let Some(verdict) = self.take_note(exit, inbox)? {
                        return Ok(verdict);
                    }
                }
                Event::EndedByMpi(of, local_rank) if of == epoch => self.crew.kill(local_rank),
                Event::Signal(signal) if asks_to_end(signal) => {
                    return Ok(Verdict::Signalled(signal));
                }
                Event::Signal(signal) => self.crew.signal_all(signal),
                Event::OutputClosed(error) => return Ok(Verdict::OutputClosed(error)),
                Event::News(of, Ok(news)) if of == epoch => return Ok(Verdict::Called(news)),
                Event::News(of, Err(error)) if of == epoch => return Ok(Verdict::StoreLost(error)),
                Event::OutputDone | Event::EndedByMpi(..) | Event::News(..) => {}
            }
        }
    }

    fn take_note(&mut self, exit: Exit, inbox: &Inbox) -> Result<Option<Verdict>, RunError> {
        let exit = self.judge(exit);
        let Some(local_rank) = self.crew.note(exit) else { return Ok(None) };
        let has_failed = !exit.status.is_success();
        self.job.tally.note(|facts| {
            facts.alive = self.crew.alive();
            facts.failures += u64::from(has_failed);
        });
        if has_failed {
            self.failed += 1;
            if self.failed > self.job.settings.tolerate {
                return Ok(Some(Verdict::Failed(local_rank, exit)));
            }
            self.tolerate(local_rank, exit, inbox)?;
        }
        Ok(match (self.crew.all_exited(), self.crew.any_succeeded()) {
            (false, _) => None,
            (true, true) => Some(Verdict::AllDone),
            (true, false) => Some(Verdict::Failed(local_rank, exit)),
        })
    }

    /// What MPI makes of the end of a rank.
    fn judge(&self, exit: Exit) -> Exit {
        let Some(local_rank) = self.crew.local_rank(exit.process) else { return exit };
        let Some(pmi) = self.pmi else { return exit };
        // Who was left by one that failed cannot end MPI. Of those on other hosts only they know.
        let could_finalize =
            self.failed == 0 && (self.place.nodes == 1 || self.job.settings.tolerate == 0);
        Exit { status: pmi.ended(local_rank, exit.status, could_finalize), ..exit }
    }

    /// Lets the others go on, perhaps with another in its stead.
    fn tolerate(&mut self, local_rank: u32, exit: Exit, inbox: &Inbox) -> Result<(), RunError> {
        let Self { crew, job, place, output, failed, .. } = self;
        let (rank, after) = (place.rank(local_rank), exit.at - crew.began());
        let (status, most) = (exit.status, job.settings.tolerate);
        let next = match job.settings.replace {
            true => "it is started again, to join the others",
            false => "the others go on",
        };
        notice(format_args!(
            "rank {rank} failed after {after:.1?}: {status}; {next} (failure {failed} of {most} that \
             are tolerated)"
        ));
        if job.settings.replace {
            crew.replace(place, local_rank, output, inbox)?;
        }
        job.tally.note(|facts| {
            facts.alive = crew.alive();
            facts.tolerated += 1;
        });
        Ok(())
    }
}

fn failure(
    job: &Job,
    place: &Placement,
    output: &Output,
    began: Instant,
    local_rank: u32,
    exit: Exit,
) -> Failure {
    let rank = place.rank(local_rank);
    Failure {
        rank,
        local_rank,
        host: job.host.clone(),
        status: exit.status,
        after: exit.at - began,
        restarts: place.restarts,
        reason: output.error_file(rank).and_then(|file| reason_in(&file)),
        tail: output.tail(rank, local_rank),
        others: Others::default(),
    }
}

/// What became of all but the first that was too many.
fn others(job: &Job, place: &Placement, end: &CrewEnd, (first, its): (u32, Exit)) -> Others {
    let mut others = Others::default();
    let was_tolerated = |exit: &Exit| job.settings.tolerate > 0 && exit.at < its.at;
    for (local_rank, exit) in (0..).zip(&end.exits).filter(|(local_rank, _)| *local_rank != first) {
        let rank = place.rank(local_rank);
        match exit {
            Some(exit) if exit.at >= end.ending_since => others.ended.push(rank),
            Some(exit) if exit.status.is_success() => others.finished.push(rank),
            Some(exit) if was_tolerated(exit) => others.tolerated.push((rank, exit.status)),
            Some(exit) => others.failed.push((rank, exit.status)),
            None => others.ended.push(rank),
        }
    }
    others
}

const LAST_WORDS: Duration = Duration::from_millis(50);
