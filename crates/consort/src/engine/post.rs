//! Messages between two ranks of a group.
//!
//! Each rank has a [ring](consort_sys::ring) to each other, or [something else](ends) that keeps
//! messages in their order. No thread of its own serves them: every thread that waits for a message
//! takes from the ring what has come, and what it does not want it puts away for whoever will
//! ([`Inbox`]). A message is written by its sender's own thread, as far
//! as there is room; the others that send to the same rank wait for its end ([`Outbox`]).
//!
//! Nobody holds a lock while it waits, nor the group's lane, so each call keeps to its own deadline
//! and collectives go on beside it. Whoever waits [sleeps](Rest) on its rank's one bell, which other ranks
//! ring when they have written or read, and threads of the same rank when they have put something
//! away or come to the end of a message.
//!
//! What is sent and received in the background is seen to by the [`Courier`], who makes sure that
//! it stays in its order, and keeps to the same rules.

mod courier;
mod ends;
mod exchange;
mod inbox;
mod outbox;
#[cfg(test)]
mod tests;
mod trouble;

use std::cell::RefCell;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use consort_sys::arena::Piece;
use consort_sys::ring::{Progress, Rings};
use consort_sys::wait::Patience;

pub(crate) use self::courier::Courier;
pub(crate) use self::ends::{Broken, Inflow, Inlet, Outflow, Outlet};
pub(crate) use self::exchange::Exchange;
use self::exchange::{Arrival, envelope};
use self::inbox::Inbox;
use self::outbox::{Dispatch, Outbox};
use self::trouble::Patient;
use super::lookout::Lookout;
use super::sleep::Rest;
use crate::error::Result;
use crate::p2p::Outgoing;

/// A rank's messages to and from the others of a group.
#[derive(Debug)]
pub(crate) struct Post {
    me: usize,
    lookout: Lookout,
    outboxes: Vec<Mutex<Outbox>>,
    inboxes: Vec<Mutex<Inbox>>,
    rest: Rest,
    /// Who is asked first when a message may come from any.
    next: Mutex<usize>,
    patience: Mutex<Patience>,
    /// What it has set aside for rings; `None` if there are none, or it was left to others.
    block: Mutex<Option<Piece>>,
}

impl Post {
    /// For a rank that has set this block aside, and has these ends of rings.
    pub(crate) fn new(lookout: Lookout, block: Piece, rings: Rings, patience: Patience) -> Self {
        let me = lookout.me();
        let Rings { outlets, inlets, mut bells } = rings;
        let ends = outlets.into_iter().zip(inlets).enumerate().map(|(rank, (outlet, inlet))| {
            (rank != me).then_some((Outlet::Ring(outlet), Inlet::Ring(inlet)))
        });
        let rest = Rest::Bell(bells.swap_remove(me));
        Self::over(lookout, ends, rest, patience).holding(block)
    }

    /// What is known of the other ranks.
    pub(crate) fn lookout(&self) -> &Lookout {
        &self.lookout
    }

    /// The same, for a rank that has set this block aside for rings.
    pub(super) fn holding(self, block: Piece) -> Self {
        Self { block: Mutex::new(Some(block)), ..self }
    }

    /// For a rank that has these ends to and from every other; `None` for itself. Its threads rest
    /// where they are woken by whatever comes through them.
    pub(crate) fn over(
        lookout: Lookout,
        ends: impl Iterator<Item = Option<(Outlet, Inlet)>>,
        rest: Rest,
        patience: Patience,
    ) -> Self {
        let (outlets, inlets): (Vec<_>, Vec<_>) = ends.map(Option::unzip).unzip();
        let inbox = |(from, inlet)| Mutex::new(Inbox::new(from, inlet, Inbox::MOST));
        Self {
            me: lookout.me(),
            lookout,
            outboxes: outlets.into_iter().map(Outbox::new).map(Mutex::new).collect(),
            inboxes: inlets.into_iter().enumerate().map(inbox).collect(),
            rest,
            next: Mutex::new(0),
            patience: Mutex::new(patience),
            block: Mutex::new(None),
        }
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
        if self.lookout.has_ended() {
            return Err(self.lookout.ended());
        }
        let mut patient = Patient::new(timeout);
        let mut progress = self.go_on(&mut exchange)?;
        while progress != Progress::Done {
            progress = self.wait(&mut exchange, &mut patient)?;
            // Most messages are done now, and need not know the time.
            if progress == Progress::Moved {
                self.look_in_passing(&exchange, &mut patient)?;
            }
        }
        exchange.arrival.map_or(Ok(None), |arrival| self.outcome(&arrival))
    }

    /// Leaves what was sent to those who have yet to receive it. No more is sent.
    pub(crate) fn abandon(&self) {
        lock(&self.block).take().into_iter().for_each(Piece::abandon);
        self.outboxes.iter().for_each(|outbox| lock(outbox).abandon());
    }

    /// Does what can be done without waiting.
    fn go_on(&self, exchange: &mut Exchange<'_>) -> Result<Progress> {
        let sent = match &mut exchange.departure {
            Some(departure) if !departure.done => {
                let progress = self.send(departure.message, &mut departure.dispatch)?;
                departure.done = progress == Progress::Done;
                progress
            }
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

    fn send(&self, message: Outgoing<'_>, dispatch: &mut Dispatch) -> Result<Progress> {
        let to = message.to.index();
        if to == self.me {
            let put = |inbox: &mut Inbox| inbox.put(envelope(&message), message.data);
            return self.with(&self.inboxes, to, put).map(|()| Progress::Done);
        }
        if !dispatch.has_begun() && self.lookout.is_leaving(to) {
            return Err(self.has_left(message));
        }
        self.with(&self.outboxes, to, |outbox| outbox.go_on(dispatch, message.data))
    }

    fn receive(&self, arrival: &mut Arrival<'_>) -> Result<Progress> {
        arrival.look_again();
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
        self.with(&self.inboxes, from, |inbox| inbox.go_on(arrival))
    }

    /// What came of a message that has ended.
    fn outcome(&self, arrival: &Arrival<'_>) -> Result<Option<usize>> {
        if Rings::FETCHED.contains(&arrival.message.buffer.len())
            // Its sender may have given up, and used its memory for something else: but then it has
            // said so before.
            && self.lookout.has_ended()
            && arrival.source().is_some_and(|from| lock(&self.inboxes[from]).may_fetch())
        {
            return Err(self.lookout.ended());
        }
        match arrival.refused() {
            None => Ok(arrival.source()),
            Some(sent) => Err(self.refusal(arrival, sent)),
        }
    }

    /// Does something with what goes to a rank or comes from it, and has the threads of this one
    /// look again if there is something to see.
    #[inline]
    fn with<B: News, R>(
        &self,
        boxes: &[Mutex<B>],
        rank: usize,
        act: impl FnOnce(&mut B) -> Result<R, Broken>,
    ) -> Result<R> {
        let mut guard = lock(&boxes[rank]);
        let done = act(&mut guard);
        let news = guard.take_news();
        drop(guard);
        if news {
            self.rest.ring();
        }
        done.map_err(|error| self.broken(rank, error))
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
        let doze = |limit| {
            let ranks = self.awaited_ranks(&exchange.borrow());
            self.rest.doze_for(&ranks, look, limit);
        };
        let waited = patience.wait(look, doze, || self.check(&exchange.borrow(), patient));
        *lock(&self.patience) = patience;
        match waited {
            // It may have come with somebody's last breath, or in the last moment, or only now be
            // behind another.
            Err(stuck) if !look() && self.check(&exchange.borrow(), patient).is_err() => {
                Err(self.give_up(&exchange.borrow(), patient.waited(), stuck))
            }
            _ => found.into_inner(),
        }
    }
}

/// What threads wait for, and may have to look at again.
trait News {
    /// Whether there is something to see since this was asked last.
    fn take_news(&mut self) -> bool;
}

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
