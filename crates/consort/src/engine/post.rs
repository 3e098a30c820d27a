//! Messages between two ranks of a group.
//!
//! Each rank has a [ring](consort_sys::ring) to each other. No thread of its own serves them: every
//! thread that waits for a message takes from the ring what has come, and what it does not want it
//! puts away for whoever will ([`Inbox`]). A message is written by its sender's own thread, as far
//! as there is room; the others that send to the same rank wait for its end ([`Outbox`]).
//!
//! Nobody holds a lock while it waits, nor the group's lane, so each call keeps to its own deadline
//! and collectives go on beside it. Whoever waits sleeps on its rank's one bell, which other ranks
//! ring when they have written or read, and threads of the same rank when they have put something
//! away or come to the end of a message.

mod exchange;
mod inbox;
mod outbox;
#[cfg(test)]
mod tests;
mod trouble;

use std::cell::RefCell;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use consort_sys::arena::{Arena, Piece};
use consort_sys::ring::{Bell, Envelope, Progress, Rings};
use consort_sys::wait::Patience;

pub(crate) use self::exchange::Exchange;
use self::exchange::{Arrival, Departure};
use self::inbox::Inbox;
use self::outbox::Outbox;
use self::trouble::Patient;
use super::lookout::Lookout;
use crate::error::Result;

/// A rank's messages to and from the others of a group.
#[derive(Debug)]
pub(crate) struct Post {
    name: String,
    me: usize,
    lookout: Lookout,
    outboxes: Vec<Mutex<Outbox>>,
    inboxes: Vec<Mutex<Inbox>>,
    bells: Vec<Bell>,
    /// Who is asked first when a message may come from any.
    next: Mutex<usize>,
    patience: Mutex<Patience>,
    block: Piece,
}

impl Post {
    /// For a group whose ranks have set these blocks aside, `block` being this rank's. `None` if
    /// one is not in its rank's arena.
    pub(crate) fn new(
        name: &str,
        me: usize,
        lookout: Lookout,
        (block, blocks): (Piece, &[(Arena, usize)]),
        patience: Patience,
    ) -> Option<Self> {
        let Rings { outlets, inlets, bells } = Rings::new(me, blocks)?;
        let inbox = |(from, inlet)| Mutex::new(Inbox::new(from, (from != me).then_some(inlet)));
        Some(Self {
            name: name.to_owned(),
            me,
            lookout,
            outboxes: outlets.into_iter().map(Outbox::new).map(Mutex::new).collect(),
            inboxes: inlets.into_iter().enumerate().map(inbox).collect(),
            bells,
            next: Mutex::new(0),
            patience: Mutex::new(patience),
            block,
        })
    }

    /// How many bytes each of at most so many ranks sets aside.
    pub(crate) fn block_bytes(world: usize) -> usize {
        Rings::block_bytes(world)
    }

    /// Carries out what a thread wants. Says whose message was received, if one was wanted.
    pub(crate) fn carry_out(
        &self,
        mut exchange: Exchange<'_>,
        timeout: Duration,
    ) -> Result<Option<usize>> {
        if let Some((by, reason)) = self.lookout.halted_by() {
            return Err(self.aborted(by, reason));
        }
        let mut patient = Patient::new(timeout);
        let mut progress = self.go_on(&mut exchange)?;
        while progress != Progress::Done {
            progress = self.wait(&mut exchange, &mut patient)?;
        }
        let Some(arrival) = &exchange.arrival else { return Ok(None) };
        match arrival.refused() {
            None => Ok(arrival.source()),
            Some(sent) => Err(self.refusal(arrival, sent)),
        }
    }

    /// Lets all who wait look at once whether the group has failed.
    pub(crate) fn ring_all(&self) {
        self.bells.iter().for_each(Bell::ring);
    }

    /// Says that this rank sends and receives no more.
    pub(crate) fn leave(&self) {
        self.bells[self.me].leave();
        self.ring_all();
    }

    /// Leaves what was sent to those who have yet to receive it.
    pub(crate) fn abandon(self) {
        self.block.abandon();
        for outbox in self.outboxes {
            outbox.into_inner().unwrap_or_else(PoisonError::into_inner).abandon();
        }
    }

    /// Does what can be done without waiting.
    fn go_on(&self, exchange: &mut Exchange<'_>) -> Result<Progress> {
        let sent = match &mut exchange.departure {
            Some(departure) if !departure.done => self.send(departure)?,
            _ => Progress::Done,
        };
        let received = match &mut exchange.arrival {
            Some(arrival) if !arrival.has_ended() => self.receive(arrival)?,
            _ => Progress::Done,
        };
        Ok(match (sent, received) {
            (Progress::Done, Progress::Done) => Progress::Done,
            (Progress::Moved, _) | (_, Progress::Moved) => Progress::Moved,
            _ => Progress::Stuck,
        })
    }

    fn send(&self, departure: &mut Departure<'_>) -> Result<Progress> {
        let Departure { message, sending, done } = departure;
        let to = message.to.index();
        let progress = if to == self.me {
            let (bytes, tag) = (message.data.len(), message.tag.get());
            let envelope = Envelope { bytes, tag, kind: message.dtype.code() };
            let mut inbox = lock(&self.inboxes[to]);
            inbox.put(envelope, message.data).map(|()| (Progress::Done, inbox.take_news()))
        } else {
            let mut outbox = lock(&self.outboxes[to]);
            outbox.go_on(sending).map(|progress| (progress, outbox.take_news()))
        };
        let (progress, news) = progress.map_err(|error| self.ring_failed(to, error))?;
        *done = progress == Progress::Done;
        if news {
            self.bells[self.me].ring();
        }
        Ok(progress)
    }

    fn receive(&self, arrival: &mut Arrival<'_>) -> Result<Progress> {
        if let Some(from) = arrival.source() {
            return self.receive_from(from, arrival);
        }
        let (world, first) = (self.inboxes.len(), *lock(&self.next));
        let mut moved = Progress::Stuck;
        for from in (first..first + world).map(|rank| rank % world) {
            let progress = self.receive_from(from, arrival)?;
            if arrival.source().is_some() {
                *lock(&self.next) = (from + 1) % world;
                return Ok(progress);
            }
            if progress == Progress::Moved {
                moved = progress;
            }
        }
        Ok(moved)
    }

    fn receive_from(&self, from: usize, arrival: &mut Arrival<'_>) -> Result<Progress> {
        let mut inbox = lock(&self.inboxes[from]);
        let progress = inbox.go_on(arrival);
        let news = inbox.take_news();
        drop(inbox);
        if news {
            self.bells[self.me].ring();
        }
        progress.map_err(|error| self.ring_failed(from, error))
    }

    /// Waits until something moves.
    #[cold]
    fn wait(&self, exchange: &mut Exchange<'_>, patient: &mut Patient) -> Result<Progress> {
        let mut patience = *lock(&self.patience);
        let exchange = RefCell::new(exchange);
        let found = RefCell::new(Ok(Progress::Stuck));
        let look = || {
            let mut found = found.borrow_mut();
            if matches!(*found, Ok(Progress::Stuck)) {
                *found = self.go_on(&mut exchange.borrow_mut());
            }
            !matches!(*found, Ok(Progress::Stuck))
        };
        let doze = |limit| self.bells[self.me].doze(look, limit);
        let waited = patience.wait(look, doze, || self.check(&exchange.borrow(), patient));
        *lock(&self.patience) = patience;
        if let Err(stuck) = waited
            // It may have come with somebody's last breath, or in the last moment.
            && !look()
        {
            return Err(self.give_up(&exchange.borrow(), patient, stuck));
        }
        found.into_inner()
    }
}

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
