//! A client's place at a store, whichever server that is in at present.
//!
//! Calls are numbered here, not on the connection: a call whose connection was lost is made again on
//! the next one with its old number, and a store that has carried it out gives the old answer. Each
//! thread makes its own call again. Of those who notice the loss, one looks for the store that
//! serves: the standby, or the same one if only the connection was lost.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::desk::Broken;
use super::link::{LOOK_GRACE, Link};
use crate::deadline::{Deadline, clock_now};
use crate::error::{Error, Result};
use crate::proto::{House, Message};
use crate::request::{Reply, Request};
use crate::secret::random;
use crate::tcp::dial::{Attempt, Dial};

/// What all clones of a handle share.
#[derive(Debug)]
pub(super) struct Seat {
    /// The client's number.
    client: u64,
    state: Mutex<State>,
    /// Somebody has found a store, or has stopped looking.
    news: Condvar,
}

#[derive(Debug)]
struct State {
    dial: Dial,
    link: Arc<Link>,
    /// The latest epoch in which a store served this client. One of an earlier epoch has been
    /// replaced and does not know it.
    epoch: u64,
    next_call: u64,
    /// Calls that may be made again.
    open: Vec<u64>,
    /// Calls that will not be, of which the store has not been told.
    done: Vec<u64>,
    search: Option<Search>,
}

/// The search for a store that serves, after one was lost.
#[derive(Debug)]
struct Search {
    since: Instant,
    /// Whether somebody is at it.
    under_way: bool,
    /// It was in vain: what is said from now on.
    given_up: Option<String>,
}

impl Seat {
    /// Connects for the first time.
    pub(super) fn take(dial: Dial, until: Deadline) -> Result<Self> {
        let number = random()?;
        let client = u64::from_le_bytes(*number.first_chunk().expect("there are 32 bytes"));
        let started = clock_now();
        loop {
            let (stream, session) = dial.connect(until)?;
            let link = Link::new(stream, session, dial.silence())
                .map_err(|source| Error::System { doing: SETTING_UP, source: source.into() })?;
            let hello = Message::Hello { client, epoch: 0, open: Vec::new() };
            match link.introduce(&hello, Deadline::after(INTRODUCTION)) {
                Ok(House { epoch, .. }) => return Ok(Self::at(client, dial, link, epoch)),
                Err(Broken(reason)) if until.has_passed() => {
                    let (address, waited) = (dial.address().to_owned(), started.elapsed());
                    return Err(Error::Unreachable { address, waited, reason });
                }
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }

    fn at(client: u64, dial: Dial, link: Link, epoch: u64) -> Self {
        let state = State {
            dial,
            link: Arc::new(link),
            epoch,
            next_call: 0,
            open: Vec::new(),
            done: Vec::new(),
            search: None,
        };
        Self { client, state: Mutex::new(state), news: Condvar::new() }
    }

    pub(super) fn link(&self) -> Arc<Link> {
        self.state().link.clone()
    }

    /// How to reach the store where it is now.
    pub(super) fn dial(&self) -> Dial {
        self.state().dial.clone()
    }

    /// Carries out a request, on whichever server serves. `None`: none answered in time.
    pub(super) fn call(&self, request: &Request<'_>, until: Deadline) -> Result<Option<Reply>> {
        let call = self.state().begin();
        let reply = self.carry_out(call, request, until);
        self.state().end(call);
        reply
    }

    fn carry_out(
        &self,
        call: u64,
        request: &Request<'_>,
        until: Deadline,
    ) -> Result<Option<Reply>> {
        let found_by = if until.has_passed() { Deadline::after(LOOK_GRACE) } else { until };
        loop {
            let (link, done) = {
                let mut state = self.state();
                (state.link.clone(), std::mem::take(&mut state.done))
            };
            match link.call(call, done, request, until) {
                Ok(reply) => return Ok(reply),
                Err(broken) if self.move_on(&link, &broken, found_by)? => {}
                Err(_) => return Ok(None),
            }
        }
    }

    /// Sees to it that there is another connection than the one that was lost. False if there is
    /// none before the deadline.
    fn move_on(&self, lost: &Arc<Link>, broken: &Broken, until: Deadline) -> Result<bool> {
        let last = lost.last_house();
        let mut state = self.state();
        state.epoch = state.epoch.max(last.epoch);
        loop {
            if !Arc::ptr_eq(&state.link, lost) {
                return Ok(true);
            }
            let Some(standby) = last.standby else {
                return Err(state.lost(&broken.0));
            };
            let State { dial, search, .. } = &mut *state;
            let search = search.get_or_insert_with(Search::begin);
            if let Some(reason) = &search.given_up {
                let peer = format!("{} and its standby at {standby}", dial.address());
                return Err(Error::Lost { peer, reason: reason.clone() });
            }
            if until.has_passed() {
                return Ok(false);
            }
            if search.under_way {
                let left = until.remaining().unwrap_or(PAUSE).min(PAUSE);
                let woken = self.news.wait_timeout(state, left);
                state = woken.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            search.under_way = true;
            drop(state);
            state = self.look(&[standby.to_string(), lost.peer().to_string()], until);
        }
    }

    /// Tries these places once each.
    fn look(&self, places: &[String; 2], until: Deadline) -> MutexGuard<'_, State> {
        let mut reasons = Vec::new();
        let mut nobody = true;
        for place in places {
            let dial = self.dial().to(place);
            match self.try_at(&dial, until.min(Deadline::after(INTRODUCTION))) {
                Ok((link, epoch)) => {
                    let mut state = self.state();
                    (state.link, state.dial, state.epoch) = (Arc::new(link), dial, epoch);
                    state.search = None;
                    self.news.notify_all();
                    return state;
                }
                Err(Failed { reason, refused }) => {
                    nobody &= refused;
                    reasons.push(format!("{place}: {reason}"));
                }
            }
        }
        std::thread::sleep(PAUSE);
        let mut state = self.state();
        let limit = if nobody { NOBODY } else { state.dial.silence().max(LEAST_LIMIT) * 2 };
        if let Some(search) = &mut state.search {
            search.under_way = false;
            if search.since.elapsed() > limit {
                search.given_up = Some(reasons.join("; "));
            }
        }
        self.news.notify_all();
        state
    }

    /// A connection to a store that serves, which knows by then which calls are open.
    fn try_at(&self, dial: &Dial, until: Deadline) -> Result<(Link, u64), Failed> {
        let (stream, session) = dial.attempt(until)?;
        let link = Link::new(stream, session, dial.silence())?;
        let hello = {
            let mut state = self.state();
            state.done.clear();
            Message::Hello { client: self.client, epoch: state.epoch, open: state.open.clone() }
        };
        let house = link.introduce(&hello, until).map_err(|Broken(reason)| Failed::to(reason))?;
        if house.epoch < self.state().epoch {
            return Err(Failed::to("it has been replaced".to_owned()));
        }
        Ok((link, house.epoch))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn begin(&mut self) -> u64 {
        let call = self.next_call;
        self.next_call += 1;
        self.open.push(call);
        call
    }

    fn end(&mut self, call: u64) {
        self.open.retain(|other| *other != call);
        // While no store can be told, they are told by not being open any more.
        if self.done.len() < MOST_DONE {
            self.done.push(call);
        }
    }

    fn lost(&self, reason: &str) -> Error {
        Error::Lost { peer: self.dial.address().to_owned(), reason: reason.to_owned() }
    }
}

impl Search {
    fn begin() -> Self {
        Self { since: clock_now(), under_way: false, given_up: None }
    }
}

/// Why a place was of no use.
struct Failed {
    reason: String,
    /// Whether the system there says that nobody listens.
    refused: bool,
}

impl Failed {
    fn to(reason: String) -> Self {
        Self { reason, refused: false }
    }
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        let refused = error.kind() == io::ErrorKind::ConnectionRefused;
        Self { reason: error.to_string(), refused }
    }
}

impl From<Attempt> for Failed {
    fn from(attempt: Attempt) -> Self {
        match attempt {
            Attempt::Again(error) => error.into(),
            Attempt::Final(reason) => Self::to(reason.to_string()),
        }
    }
}

const SETTING_UP: &str = "setting up the store's connection";
/// How long a store has to say how it stands.
const INTRODUCTION: Duration = Duration::from_secs(2);
/// Calls that a store is told of at a time.
const MOST_DONE: usize = 4096;
const PAUSE: Duration = Duration::from_millis(50);
/// How long the search lasts if nobody listens in either place. A standby listens before it serves.
const NOBODY: Duration = Duration::from_secs(2);
/// Half of how long it lasts otherwise, at least.
const LEAST_LIMIT: Duration = Duration::from_secs(10);
