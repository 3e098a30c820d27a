//! Rounds over a store: carries out what [`Rounds`] decides.

mod heart;
mod round;
mod seat;

use std::sync::Arc;

use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::member::{Node, NodeId};
use crate::prefix::PrefixStore;
use crate::rounds::{Cause, Ending, Phase, RoundOptions, Rounds};
use crate::store::Store;
use heart::Heart;
pub use round::{News, Round};
use seat::{Seat, Silence, at_once, beat_key};

/// One node's seat at a job's meetings.
///
/// Drive it so: [`join`](Self::join) again and again until it gives a [`Round`]; start the ranks;
/// [`watch`](Self::watch) again and again; say [`finished`](Self::finished) or
/// [`failed`](Self::failed) when the ranks have ended. A `watch` that gives [`News::Round`] means
/// stop the ranks and join again; [`News::Over`] means stop for good, and [`depart`](Self::depart).
///
/// A store that does not answer is borne with as long as a node may be silent, and then given up
/// with the error of the call that got no answer.
///
/// A clone is the same seat for another thread, for example to watch while this one waits for the
/// ranks. Its heart beats in a thread of its own until the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Rendezvous {
    seat: Seat<Arc<dyn Store>>,
    /// It beats as long as somebody has the seat.
    _heart: Arc<Heart>,
}

impl Rendezvous {
    /// Takes a seat. `store` is the whole job's; rounds are kept under `rounds/` in it. Its
    /// [`patience`](Store::patience) should be shorter than the time that a node may be silent:
    /// what gets no answer is asked again.
    ///
    /// # Errors
    /// When the system has no thread for the heart.
    pub fn new(store: &Arc<dyn Store>, me: Node, options: RoundOptions) -> Result<Self> {
        let store: Arc<dyn Store> = Arc::new(PrefixStore::new("rounds", store.clone()));
        let silence = Silence::default();
        let heart = Heart::start(store.clone(), beat_key(&me), options.liveness, &silence)?;
        let seat = Seat::new(store, me, options, silence);
        Ok(Self { seat, _heart: Arc::new(heart) })
    }

    /// Joins the present round, or waits for it to close, until `until` at most. `None`: not yet.
    ///
    /// # Errors
    /// [`Error::Join`] when this node cannot take part.
    pub fn join(&mut self, job: &str, until: Deadline) -> Result<Option<Round>> {
        at_once(self.seat.join(job, until))
    }

    /// Listens for what concerns this node's running ranks, until `until` at most.
    ///
    /// # Errors
    /// When the store is gone.
    pub fn watch(&mut self, round: &Round, until: Deadline) -> Result<News> {
        at_once(self.seat.watch(round, until))
    }

    /// Says that all ranks of this node ended well.
    ///
    /// # Errors
    /// When the store is gone.
    pub fn finished(&mut self, round: &Round) -> Result<()> {
        at_once(self.seat.report(round, Rounds::finish))
    }

    /// Says that a rank of this node has failed just now, and that an account will follow. Of all
    /// who say so in one round the first counts: the others' ranks failed because of it.
    ///
    /// # Errors
    /// When the store is gone.
    pub fn failing(&mut self, round: &Round) -> Result<()> {
        at_once(self.seat.report(round, Rounds::claim_failure))
    }

    /// Says that a rank of this node failed, with an account for the others' users. Whether
    /// there is another round is the next [`watch`](Self::watch)'s news.
    ///
    /// # Errors
    /// When the store is gone.
    pub fn failed(&mut self, round: &Round, account: &[u8]) -> Result<()> {
        at_once(self.seat.report(round, |rounds, id| rounds.fail(id, account.to_vec())))
    }

    /// Gives the seat up, if the store answers until `until`.
    ///
    /// # Errors
    /// When it does not.
    pub fn leave(&mut self, until: Deadline) -> Result<()> {
        at_once(self.seat.take_leave(until, |rounds, me| {
            rounds.lose(me.id, Cause::Left { node: me.to_string() });
        }))
    }

    /// Ends the job, if the store answers until `until`: for the node that holds the store and
    /// has to go.
    ///
    /// # Errors
    /// When it does not.
    pub fn close(&mut self, reason: &str, until: Deadline) -> Result<()> {
        at_once(self.seat.take_leave(until, |rounds, me| {
            rounds.end(Ending::Closed { node: me.to_string(), reason: reason.to_owned() });
        }))
    }

    /// Says that this node knows how the job ended, and needs the store no more.
    ///
    /// # Errors
    /// When the store is gone.
    pub fn depart(&self) -> Result<()> {
        self.seat.store.set(&departed_key(self.seat.me.id), b"")
    }

    /// Waits for the others to depart, until `until` at most, and says whether all have: whoever
    /// holds the store goes last. Nobody is waited for while the job goes on: the others have
    /// another store then.
    ///
    /// # Errors
    /// When the store is gone.
    pub fn see_off(&mut self, until: Deadline) -> Result<bool> {
        at_once(self.seat.hear(Deadline::now()))?;
        let Some(rounds) = self.state() else { return Ok(true) };
        if !matches!(rounds.phase, Phase::Over(_)) {
            return Ok(true);
        }
        let away = rounds.expected.iter().map(|node| node.id);
        let all = rounds.seated().map(|node| node.id).chain(away);
        let others: Vec<String> =
            all.filter(|id| *id != self.seat.me.id).map(departed_key).collect();
        let others: Vec<&str> = others.iter().map(String::as_str).collect();
        match self.seat.store.wait(&others, until) {
            Ok(()) => Ok(true),
            Err(Error::Timeout { missing, .. }) if missing.count > 0 => Ok(false),
            Err(error) => self.seat.bear(error).map(|()| false),
        }
    }

    /// The state as this node last saw it.
    pub fn state(&self) -> Option<&Rounds> {
        self.seat.state()
    }

    /// Whether this node has joined the present round, or waits for the next.
    pub fn is_seated(&self) -> bool {
        self.seat.is_seated()
    }
}

fn departed_key(id: NodeId) -> String {
    format!("departed/{id}")
}

#[cfg(test)]
mod simulated;
