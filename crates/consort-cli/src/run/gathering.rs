//! Waiting for the other hosts, and saying so.

use std::time::{Duration, Instant};

use consort_store::{Deadline, Ending, Error as StoreError, JoinError, Rendezvous, Round};

use super::error::RunError;
use super::event::Inbox;
use super::notice::notice;
use super::settings::Settings;
use super::signals::asks_to_end;

/// What came of waiting.
#[derive(Debug)]
pub(crate) enum Gathered {
    /// A round with this host in it.
    Round(Round),
    /// The job is over.
    Over(Ending),
    /// A signal asked us to end.
    Interrupted(i32),
}

/// Joins the next round and waits until it closes.
pub(crate) fn gather(
    settings: &Settings,
    job: &str,
    seat: &mut Rendezvous,
    inbox: &mut Inbox,
) -> Result<Gathered, RunError> {
    let started = Instant::now();
    let mut news = Progress { next: started + FIRST_WORD, said: String::new() };
    loop {
        if let Some(signal) = inbox.take_signal().filter(|signal| asks_to_end(*signal)) {
            return Ok(Gathered::Interrupted(signal));
        }
        let is_new = seat.state().is_none();
        match seat.join(job, Deadline::after(STEP)) {
            Ok(Some(round)) => return Ok(Gathered::Round(round)),
            Ok(None) => {}
            // Who comes only then has missed the job, however well it ended.
            Err(StoreError::Join(JoinError::Over(ending))) if !is_new || seat.is_seated() => {
                return Ok(Gathered::Over(ending));
            }
            Err(other) => return Err(other.into()),
        }
        news.say(settings, seat);
        if started.elapsed() > settings.join_timeout && !is_spare(seat) {
            return Err(too_few(settings, seat, started.elapsed()));
        }
    }
}

/// What has been said about who is here; said again when it changes, and now and then.
struct Progress {
    next: Instant,
    said: String,
}

impl Progress {
    fn say(&mut self, settings: &Settings, seat: &Rendezvous) {
        if Instant::now() < self.next {
            return;
        }
        let text = if is_spare(seat) {
            "this host is a spare: it waits until one of the others goes".to_owned()
        } else {
            let names = names(seat);
            let (min, max) = (settings.nodes.min, settings.nodes.max);
            let wanted = if min == max { min.to_string() } else { format!("{min} to {max}") };
            format!("waiting for hosts: {} of {wanted} are here: {}", names.len(), names.join(", "))
        };
        if text != self.said {
            notice(&text);
        }
        self.said = text;
        self.next = Instant::now() + NEXT_WORD;
    }
}

fn is_spare(seat: &Rendezvous) -> bool {
    seat.state().is_some_and(|state| matches!(state.phase, consort_store::Phase::Running { .. }))
}

fn names(seat: &Rendezvous) -> Vec<String> {
    let nodes = seat.state().map(|state| state.nodes.as_slice()).unwrap_or_default();
    nodes.iter().map(ToString::to_string).collect()
}

fn too_few(settings: &Settings, seat: &Rendezvous, waited: Duration) -> RunError {
    let names = names(seat);
    let min = settings.nodes.min.get();
    RunError::TooFew { came: names.len(), min, waited, names: names.join(", ") }
}

/// How long one step may keep a signal waiting.
const STEP: Duration = Duration::from_millis(200);
const FIRST_WORD: Duration = Duration::from_secs(1);
const NEXT_WORD: Duration = Duration::from_secs(1);
