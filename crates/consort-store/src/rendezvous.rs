//! Rounds over a store: carries out what [`Rounds`] decides.

mod heart;
mod round;

use std::sync::Arc;
use std::time::Instant;

use crate::deadline::{Deadline, clock_now};
use crate::error::{Error, Result};
use crate::member::{Node, NodeId, Pulse};
use crate::prefix::PrefixStore;
use crate::request::Swap;
use crate::rounds::{Cause, Decision, Ending, JoinError, Phase, RoundOptions, Rounds};
use crate::store::Store;
use heart::Heart;
pub use round::{News, Round};

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
    store: Arc<dyn Store>,
    me: Node,
    options: RoundOptions,
    /// The state as it was last read, and as it is in the store.
    seen: Option<(Rounds, Vec<u8>)>,
    /// Since when the list of nodes has been as it is.
    quiet_since: Instant,
    listening: Option<(Node, Pulse)>,
    heart: Arc<Heart>,
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
        let heart = Arc::new(Heart::start(store.clone(), beat_key(&me), options.liveness)?);
        let quiet_since = clock_now();
        Ok(Self { store, me, options, seen: None, quiet_since, listening: None, heart })
    }

    /// Joins the present round, or waits for it to close, until `until` at most. `None`: not yet.
    ///
    /// # Errors
    /// [`Error::Join`] when this node cannot take part.
    pub fn join(&mut self, job: &str, until: Deadline) -> Result<Option<Round>> {
        match self.seen {
            None => self.found(job)?,
            // A clone may have seen more than this one.
            Some(_) => self.hear(Deadline::now())?,
        }
        let (me, options) = (self.me.clone(), self.options.clone());
        if !self.is_seated() {
            self.change(Deadline::never(), |rounds| rounds.join(&me, &options))?;
        }
        let until = self.step(until)?;
        if self.round().is_none() {
            self.hear(until)?;
            self.listen_to_neighbour()?;
        }
        match self.state() {
            Some(Rounds { phase: Phase::Over(ending), .. }) => {
                Err(JoinError::Over(ending.clone()).into())
            }
            _ => Ok(self.round()),
        }
    }

    /// Listens for what concerns this node's running ranks, until `until` at most.
    ///
    /// # Errors
    /// When the store is gone.
    pub fn watch(&mut self, round: &Round, until: Deadline) -> Result<News> {
        let until = until.min(Deadline::after(self.options.liveness / 5));
        if self.news(round) == News::Nothing {
            let until = self.step(until)?;
            self.hear(until)?;
            self.listen_to_neighbour()?;
        }
        Ok(self.news(round))
    }

    /// Says that all ranks of this node ended well.
    ///
    /// # Errors
    /// When the store is gone.
    pub fn finished(&mut self, round: &Round) -> Result<()> {
        self.report(round, Rounds::finish)
    }

    /// Says that a rank of this node has failed just now, and that an account will follow. Of all
    /// who say so in one round the first counts: the others' ranks failed because of it.
    ///
    /// # Errors
    /// When the store is gone.
    pub fn failing(&mut self, round: &Round) -> Result<()> {
        self.report(round, Rounds::claim_failure)
    }

    /// Says that a rank of this node failed, with an account for the others' users. Whether
    /// there is another round is the next [`watch`](Self::watch)'s news.
    ///
    /// # Errors
    /// When the store is gone.
    pub fn failed(&mut self, round: &Round, account: &[u8]) -> Result<()> {
        self.report(round, |rounds, id| rounds.fail(id, account.to_vec()))
    }

    /// Gives the seat up, if the store answers until `until`.
    ///
    /// # Errors
    /// When it does not.
    pub fn leave(&mut self, until: Deadline) -> Result<()> {
        if self.seen.is_none() {
            return Ok(());
        }
        let (id, node) = (self.me.id, self.me.to_string());
        self.change(until, |rounds| {
            rounds.lose(id, Cause::Left { node: node.clone() });
            Ok(())
        })
    }

    /// Ends the job, if the store answers until `until`: for the node that holds the store and
    /// has to go.
    ///
    /// # Errors
    /// When it does not.
    pub fn close(&mut self, reason: &str, until: Deadline) -> Result<()> {
        if self.seen.is_none() {
            return Ok(());
        }
        let ending = Ending::Closed { node: self.me.to_string(), reason: reason.to_owned() };
        self.change(until, |rounds| {
            rounds.end(ending.clone());
            Ok(())
        })
    }

    /// Says that this node knows how the job ended, and needs the store no more.
    ///
    /// # Errors
    /// When the store is gone.
    pub fn depart(&self) -> Result<()> {
        self.store.set(&departed_key(self.me.id), b"")
    }

    /// Waits for the others to depart, until `until` at most, and says whether all have: whoever
    /// holds the store goes last. Nobody is waited for while the job goes on: the others have
    /// another store then.
    ///
    /// # Errors
    /// When the store is gone.
    pub fn see_off(&mut self, until: Deadline) -> Result<bool> {
        self.hear(Deadline::now())?;
        let Some(rounds) = self.state() else { return Ok(true) };
        if !matches!(rounds.phase, Phase::Over(_)) {
            return Ok(true);
        }
        let away = rounds.expected.iter().map(|node| node.id);
        let all = rounds.seated().map(|node| node.id).chain(away);
        let others: Vec<String> = all.filter(|id| *id != self.me.id).map(departed_key).collect();
        let others: Vec<&str> = others.iter().map(String::as_str).collect();
        match self.store.wait(&others, until) {
            Ok(()) => Ok(true),
            Err(Error::Timeout { missing, .. }) if missing.count > 0 => Ok(false),
            Err(error) => self.bear(error).map(|()| false),
        }
    }

    /// The state as this node last saw it.
    pub fn state(&self) -> Option<&Rounds> {
        self.seen.as_ref().map(|(rounds, _)| rounds)
    }

    /// Whether this node has joined the present round, or waits for the next.
    pub fn is_seated(&self) -> bool {
        self.state().is_some_and(|rounds| rounds.seated().any(|node| node.id == self.me.id))
    }

    /// Reads the state, or founds the job if this is its first node.
    fn found(&mut self, job: &str) -> Result<()> {
        let first = encode(&Rounds::new(job.to_owned(), self.options.clone()));
        match self.store.compare_set(STATE, None, &first)? {
            Swap::Differs(bytes) => self.see(bytes),
            _ => self.see(first),
        }
    }

    /// Does what is due now; says until when to listen if nothing else happens.
    fn step(&mut self, until: Deadline) -> Result<Deadline> {
        let Some((rounds, _)) = &self.seen else { return Ok(until) };
        match rounds.decide(clock_now(), self.quiet_since) {
            Decision::Wait(next) => Ok(next.map_or(until, |next| until.min(Deadline::at(next)))),
            Decision::Close => {
                self.close_round()?;
                Ok(Deadline::now())
            }
            Decision::Call(cause) => {
                let epoch = rounds.epoch;
                self.change(Deadline::never(), |rounds| {
                    if rounds.epoch == epoch && matches!(rounds.phase, Phase::Running { .. }) {
                        rounds.call(cause.clone());
                    }
                    Ok(())
                })?;
                Ok(Deadline::now())
            }
        }
    }

    fn close_round(&mut self) -> Result<()> {
        let (now, quiet_since) = (clock_now(), self.quiet_since);
        self.change(Deadline::never(), |rounds| {
            // Somebody may have joined or closed meanwhile: what is due is decided anew.
            if rounds.decide(now, quiet_since) == Decision::Close {
                rounds.close();
            }
            Ok(())
        })
    }

    /// Waits for the state to change.
    fn hear(&mut self, until: Deadline) -> Result<()> {
        let known = self.seen.as_ref().map(|(_, bytes)| bytes.as_slice()).unwrap_or_default();
        match self.store.get_changed(STATE, known, until) {
            Ok(bytes) => self.see(bytes),
            Err(Error::Timeout { missing, .. }) if missing.count > 0 => Ok(()),
            Err(error) => self.bear(error),
        }
    }

    fn listen_to_neighbour(&mut self) -> Result<()> {
        let neighbour = match self.state() {
            None | Some(Rounds { phase: Phase::Over(_), .. }) => None,
            Some(rounds) => rounds.neighbour(self.me.id).cloned(),
        };
        let Some(neighbour) = neighbour else { return Ok(()) };
        let beats = match self.store.add(&beat_key(&neighbour), 0) {
            Ok(beats) => beats,
            Err(error) => return self.bear(error),
        };
        let now = clock_now();
        if self.listening.as_ref().is_none_or(|(node, _)| node.id != neighbour.id) {
            let attention = self.options.liveness / 3;
            self.listening = Some((neighbour.clone(), Pulse::new(now, attention)));
        }
        let Some((_, pulse)) = &mut self.listening else { return Ok(()) };
        let since = pulse.hear(now, beats);
        if since < self.options.liveness {
            return Ok(());
        }
        self.change(Deadline::never(), |rounds| {
            rounds.lose(neighbour.id, Cause::Silent { node: neighbour.to_string(), since });
            Ok(())
        })
    }

    /// Tells what became of this node's ranks in a round, if it is still the present one.
    fn report(&mut self, round: &Round, what: impl Fn(&mut Rounds, NodeId)) -> Result<()> {
        let (id, epoch) = (self.me.id, round.epoch);
        self.change(Deadline::never(), |rounds| {
            if rounds.epoch == epoch {
                what(rounds, id);
            }
            Ok(())
        })
    }

    /// Changes the state, again and again until nobody has changed it in between. What got no
    /// answer before `until` may have been done all the same: trying again finds nothing to do.
    fn change(
        &mut self,
        until: Deadline,
        mut change: impl FnMut(&mut Rounds) -> Result<(), JoinError>,
    ) -> Result<()> {
        loop {
            let Some((rounds, bytes)) = &self.seen else {
                return Err(Error::Join(JoinError::Differs("it has not joined".to_owned())));
            };
            let mut next = rounds.clone();
            change(&mut next)?;
            if next == *rounds {
                return Ok(());
            }
            let next = encode(&next);
            match self.store.compare_set(STATE, Some(bytes), &next) {
                Ok(Swap::Swapped) => return self.see(next),
                Ok(Swap::Differs(bytes)) => self.see(bytes)?,
                Ok(Swap::Missing) => return Err(damaged("it has been deleted")),
                Err(error) if until.has_passed() => return Err(error),
                Err(error) => self.bear(error)?,
            }
        }
    }

    /// A store that does not answer may only be slow, and a cable may be mended: it is an error
    /// once that has lasted for as long as a node may be silent.
    fn bear(&self, error: Error) -> Result<()> {
        let waited = self.heart.silence_of_store();
        let patient = waited < self.options.liveness;
        match error {
            Error::Timeout { .. } | Error::Unreachable { .. } if patient => Ok(()),
            Error::Timeout { verb, missing, .. } => Err(Error::Timeout { verb, waited, missing }),
            other => Err(other),
        }
    }

    fn see(&mut self, bytes: Vec<u8>) -> Result<()> {
        let rounds: Rounds =
            postcard::from_bytes(&bytes).map_err(|error| damaged(&error.to_string()))?;
        let same = |before: &Rounds| before.epoch == rounds.epoch && before.nodes == rounds.nodes;
        if !self.seen.as_ref().is_some_and(|(before, _)| same(before)) {
            self.quiet_since = clock_now();
            self.listening = None;
        }
        self.seen = Some((rounds, bytes));
        Ok(())
    }

    /// The present round, if it runs and this node is in it.
    fn round(&self) -> Option<Round> {
        let (rounds, _) = self.seen.as_ref()?;
        let Phase::Running { .. } = rounds.phase else { return None };
        let place = rounds.nodes.iter().position(|node| node.id == self.me.id)?;
        Some(Round {
            job: rounds.job.clone(),
            epoch: rounds.epoch,
            cause: rounds.cause.clone(),
            restarts: rounds.restarts,
            nodes: rounds.nodes.clone(),
            place,
        })
    }

    fn news(&self, round: &Round) -> News {
        match self.state() {
            Some(Rounds { phase: Phase::Over(ending), .. }) => News::Over(ending.clone()),
            Some(rounds) if rounds.epoch != round.epoch => News::Round(rounds.cause.clone()),
            _ => News::Nothing,
        }
    }
}

fn beat_key(node: &Node) -> String {
    format!("beat/{}", node.id)
}

fn departed_key(id: NodeId) -> String {
    format!("departed/{id}")
}

fn encode(rounds: &Rounds) -> Vec<u8> {
    postcard::to_allocvec(rounds).expect("memory can be extended")
}

fn damaged(reason: &str) -> Error {
    Error::Join(JoinError::Differs(format!("the job's state cannot be read: {reason}")))
}

const STATE: &str = "state";
