//! A launcher's part in its job: joins a round, runs this host's ranks in it, and goes on to the
//! next until the job is over. A job on one host is a round of one.

use std::io;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use consort_store::{Deadline, Ending, News, Node, NodeId, Rendezvous, Round, RoundOptions};

use super::attempt::{AttemptOutcome, FirstWord, run_attempt};
use super::conclusion::{End, interrupted, say_next_round};
use super::error::RunError;
use super::event::{Event, Inbox};
use super::gathering::{Gathered, gather};
use super::job::Job;
use super::placement::Placement;
use super::pmi::Pmi;
use super::port::ReservedPort;
use super::report::Failure;
use super::settings::Settings;
use super::signals::{self, asked_by, asks_to_end};
use super::venue::{Arrival, Venue};

/// Runs the job. Ranks live and die with the calling thread, which has to be the main one.
pub(crate) fn run(job: &mut Job) -> Result<ExitCode, RunError> {
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
    let ended = rounds(job, &venue, &mut seat, &mut inbox);
    let went_well = ended.as_ref().is_ok_and(End::is_good);
    let concluded = ended.map(|end| end.conclude(&mut inbox));
    job.records.close(went_well, &mut inbox);
    match concluded {
        Ok(code) => {
            part(&mut seat, &venue, &mut inbox);
            Ok(code)
        }
        // Nobody can be told.
        Err(error @ RunError::Store(_)) => Err(error.at(&venue.url())),
        Err(error) => {
            withdraw(&mut seat, &venue, &error.to_string());
            part(&mut seat, &venue, &mut inbox);
            Err(error)
        }
    }
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
            Gathered::Interrupted(signal) => return Ok(leave(seat, venue, signal)),
        };
        watch(seat, &round, inbox)?;
        let place = Placement::of(&round, venue);
        job.records.open(&place.job);
        job.note_round(&place);
        let mut store_lost = None;
        let pmi = job.is_for_mpi.then(|| Pmi::new(&place, &venue.store, inbox.sender()));
        let outcome = run_attempt(job, &place, pmi.as_ref(), inbox, |word| {
            let told = match word {
                FirstWord::Failing => seat.failing(&round),
                FirstWord::Failed(failure) => seat.failed(&round, &account(failure)),
                FirstWord::Leaving(why) => return withdraw(seat, venue, why),
            };
            store_lost = store_lost.take().or(told.err());
        })?;
        drop(pmi);
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
                let end = leave(seat, venue, signal);
                let Some(own) = own else { return Ok(end) };
                // A failure is not forgotten because somebody did not wait for the restart.
                return Ok(End::Over(Ending::Failed(Vec::new()), Some(own)));
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
                // Whoever hears it may be about to end, and is to be the last to hold the store.
                drop(seat);
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

fn leave(seat: &mut Rendezvous, venue: &Venue, signal: i32) -> End {
    withdraw(seat, venue, &asked_by(signal));
    End::Interrupted(signal)
}

/// Tells the others that this host goes, if they can be reached. Nobody can go on without the one
/// that holds the store.
fn withdraw(seat: &mut Rendezvous, venue: &Venue, why: &str) {
    let until = Deadline::after(FAREWELL);
    let told = if venue.holds_store() { seat.close(why, until) } else { seat.leave(until) };
    if let Err(error) = told {
        tracing::info!(%error, "the other hosts do not know that this one goes");
    }
}

/// The last thing. Whoever holds the store goes last, so that the others hear how the job ended;
/// but it does not wait long for launchers that may have died.
fn part(seat: &mut Rendezvous, venue: &Venue, inbox: &mut Inbox) {
    if seat.depart().is_err() || !venue.is_needed() {
        return;
    }
    let until = Deadline::after(LINGER);
    while !until.has_passed() && !inbox.take_signal().is_some_and(asks_to_end) {
        if seat.see_off(Deadline::after(STEP)).unwrap_or(true) {
            return;
        }
    }
}

fn account(failure: &Failure) -> Vec<u8> {
    serde_json::to_vec(failure).expect("a failure can be written down")
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
/// How long telling the others that this host goes may take.
const FAREWELL: Duration = Duration::from_secs(2);
/// How long whoever holds the store waits for the others to hear of the end.
const LINGER: Duration = Duration::from_secs(5);
/// How long one look at who has gone may keep a signal waiting.
const STEP: Duration = Duration::from_millis(200);
