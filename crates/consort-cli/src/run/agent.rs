//! A launcher's part in its job: joins a round, runs this host's ranks in it, and goes on to the
//! next until the job is over. A job on one host is a round of one.

use std::io;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use consort_store::{
    Cause, Deadline, Ending, Error as StoreError, News, Node, NodeId, Rendezvous, Round,
    RoundOptions,
};

use super::attempt::{AttemptOutcome, run_attempt};
use super::error::RunError;
use super::event::{Event, Inbox};
use super::gathering::{Gathered, gather};
use super::job::Job;
use super::notice::{notice, report};
use super::placement::Placement;
use super::port::ReservedPort;
use super::report::Failure;
use super::settings::Settings;
use super::signals::{self, asks_to_end};
use super::status::exit_code_of_signal;
use super::venue::{Arrival, Venue};

/// Runs the job. Ranks live and die with the calling thread, which has to be the main one.
pub(crate) fn run(job: &Job) -> Result<ExitCode, RunError> {
    let mut inbox = Inbox::new();
    signals::watch(inbox.sender())
        .map_err(|error| RunError::System { doing: "watch for signals", error })?;
    let venue = match Venue::reach(job, &mut inbox)? {
        Arrival::There(venue) => venue,
        Arrival::Interrupted(signal) => return Ok(interrupted(signal)),
    };
    let port = ReservedPort::on(venue.address)
        .map_err(|error| RunError::System { doing: "find a free port", error })?;
    let mut seat =
        Rendezvous::new(&venue.store, node(job, &venue, &port)?, round_options(&job.settings))?;
    let end = rounds(job, &venue, &mut seat, &mut inbox)?;
    let nodes = seat.state().map_or(1, |state| state.nodes.len());
    venue.leave(nodes);
    Ok(conclude(end))
}

/// How the job ended for this launcher.
enum End {
    /// As it did for all.
    Over(Ending, Option<Box<Failure>>),
    /// A signal asked this launcher to end.
    Interrupted(i32),
}

fn rounds(
    job: &Job,
    venue: &Venue,
    seat: &mut Rendezvous,
    inbox: &mut Inbox,
) -> Result<End, RunError> {
    let name = new_job_name()?;
    loop {
        let round = match gather(&job.settings, &name, seat, inbox)? {
            Gathered::Round(round) => round,
            Gathered::Over(ending) => return Ok(End::Over(ending, None)),
            Gathered::Interrupted(signal) => return leave(seat, signal),
        };
        watch(seat, &round, inbox)?;
        let place = Placement::of(&round, venue);
        let mut store_lost = None;
        let outcome = run_attempt(job, &place, inbox, |failure| {
            store_lost = seat.failed(&round, &account(failure)).err();
        })?;
        if let Some(error) = store_lost {
            return Err(error.into());
        }
        let (news, own) = match outcome {
            AttemptOutcome::AllDone => {
                seat.finished(&round)?;
                (next_news(&round, inbox)?, None)
            }
            AttemptOutcome::Failed(failure) => (next_news(&round, inbox)?, Some(failure)),
            AttemptOutcome::Called(news) => (Heard::News(news), None),
            AttemptOutcome::Interrupted(signal) => (Heard::Signal(signal), None),
        };
        match news {
            Heard::Signal(signal) => {
                let end = leave(seat, signal)?;
                // A failure is not forgotten because somebody did not wait for the restart.
                return Ok(own.map_or(end, |own| End::Over(Ending::Failed(Vec::new()), Some(own))));
            }
            Heard::News(News::Over(ending)) => return Ok(End::Over(ending, own)),
            Heard::News(News::Round(cause)) => say_next_round(&cause, own.as_deref(), &round, job),
            Heard::News(News::Nothing) => {}
        }
    }
}

/// Listens to the other hosts in a thread of its own for as long as the round lasts.
fn watch(seat: &Rendezvous, round: &Round, inbox: &Inbox) -> Result<(), RunError> {
    let (mut seat, round, events) = (seat.clone(), round.clone(), inbox.sender());
    let listen = move || loop {
        match seat.watch(&round, Deadline::never()) {
            Ok(News::Nothing) => {}
            news => {
                // If nobody receives it, the launcher has ended.
                let _ = events.send(Event::News(round.epoch, news));
                return;
            }
        }
    };
    thread::Builder::new()
        .name("rounds".to_owned())
        .spawn(listen)
        .map_err(|error| RunError::System { doing: "listen to the other hosts", error })?;
    Ok(())
}

enum Heard {
    News(News),
    Signal(i32),
}

/// What comes next, now that this host's ranks have ended.
fn next_news(round: &Round, inbox: &mut Inbox) -> Result<Heard, RunError> {
    loop {
        match inbox.next() {
            Event::News(of, news) if of == round.epoch => return Ok(Heard::News(news?)),
            Event::Signal(signal) if asks_to_end(signal) => return Ok(Heard::Signal(signal)),
            _ => {}
        }
    }
}

fn leave(seat: &mut Rendezvous, signal: i32) -> Result<End, RunError> {
    match seat.leave() {
        // We are going anyway; that the others are gone already changes nothing.
        Ok(()) | Err(StoreError::Lost { .. }) => Ok(End::Interrupted(signal)),
        Err(other) => Err(other.into()),
    }
}

fn conclude(end: End) -> ExitCode {
    match end {
        End::Interrupted(signal) => interrupted(signal),
        End::Over(Ending::Finished, _) => ExitCode::SUCCESS,
        End::Over(Ending::Failed(account), own) => {
            let told: Option<Failure> = serde_json::from_slice(&account).ok();
            // This host's own account of the same failure says more: what became of the others.
            let own = own.filter(|own| told.as_ref().is_none_or(|told| told.rank == own.rank));
            let Some(failure) = own.map(|own| *own).or(told) else {
                notice("a rank failed on another host, whose account cannot be read here");
                return ExitCode::FAILURE;
            };
            report(&failure);
            ExitCode::from(failure.status.exit_code())
        }
        End::Over(Ending::TooFew(cause), _) => {
            notice(format_args!("{cause}, and too few hosts are left to go on"));
            ExitCode::FAILURE
        }
    }
}

fn say_next_round(cause: &Cause, own: Option<&Failure>, round: &Round, job: &Job) {
    match own {
        Some(Failure { rank, status, .. }) => {
            let (count, most) = (round.restarts + 1, job.settings.max_restarts);
            notice(format_args!(
                "rank {rank} failed: {status}; starting again ({count} of {most})"
            ));
        }
        None => notice(format_args!("{cause}; starting again")),
    }
}

fn account(failure: &Failure) -> Vec<u8> {
    serde_json::to_vec(failure).expect("a failure can be written down")
}

fn interrupted(signal: i32) -> ExitCode {
    ExitCode::from(exit_code_of_signal(signal))
}

fn node(job: &Job, venue: &Venue, port: &ReservedPort) -> Result<Node, RunError> {
    Ok(Node {
        id: NodeId::generate()?,
        host: job.host.clone(),
        address: venue.address.to_string(),
        slots: job.settings.local_world,
        port: port.port(),
        rank: job.settings.meeting.as_ref().and_then(|meeting| meeting.node_rank),
    })
}

fn round_options(settings: &Settings) -> RoundOptions {
    RoundOptions {
        min: settings.nodes.min.get(),
        max: settings.nodes.max.get(),
        max_restarts: settings.max_restarts,
        last_call: settings.last_call,
        liveness: settings.liveness.unwrap_or(LIVENESS),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// A name that no other job has: it names log directories and keeps store keys apart.
fn new_job_name() -> Result<String, RunError> {
    let number = getrandom::u64().map_err(|error| RunError::System {
        doing: "name the job",
        error: io::Error::other(error),
    })?;
    Ok(format!("{number:016x}"))
}

const LIVENESS: Duration = Duration::from_secs(10);
