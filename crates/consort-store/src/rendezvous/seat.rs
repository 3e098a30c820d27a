//! What a node does at the meetings, on any store and any clock: the calls are futures, which wait on the
//! spot for a store that does, and in a test for a network that is only played.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::round::{News, Round};
use crate::deadline::{Deadline, clock_now};
use crate::error::{Error, Result};
use crate::member::{Node, NodeId, Pulse};
use crate::request::{Reply, Request, Swap};
use crate::rounds::{Cause, Decision, JoinError, Phase, RoundOptions, Rounds};
use crate::store::{Store, out_of_place, soon};

/// A store as a seat asks it.
pub(crate) trait Ask {
    /// Carries out a request, as [`Store::call`] does.
    async fn ask(&self, request: &Request<'_>, until: Deadline) -> Result<Reply>;

    /// How long to wait for what has no deadline of its own.
    fn soon(&self) -> Deadline;
}

impl Ask for Arc<dyn Store> {
    async fn ask(&self, request: &Request<'_>, until: Deadline) -> Result<Reply> {
        self.call(request, until)
    }

    fn soon(&self) -> Deadline {
        soon(self)
    }
}

/// The result of a call to a store that waits on the spot.
pub(super) fn at_once<T>(call: impl Future<Output = T>) -> T {
    match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => unreachable!("the store waits on the spot"),
    }
}

/// One node's seat, without the thread that lets its heart beat.
#[derive(Clone, Debug)]
pub(crate) struct Seat<A> {
    pub(super) store: A,
    pub(super) me: Node,
    options: RoundOptions,
    /// The state as it was last read, and as it is in the store.
    seen: Option<(Rounds, Vec<u8>)>,
    /// Since when the list of nodes has been as it is.
    quiet_since: Instant,
    listening: Option<(Node, Pulse)>,
    /// For how long the store has not answered any beat.
    silence: Silence,
}

/// For how long the store has not answered, as a node's heart notices and its seat is told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Silence(Arc<Mutex<Duration>>);

impl Silence {
    pub(super) fn get(&self) -> Duration {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set(&self, length: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = length;
    }
}

impl<A: Ask> Seat<A> {
    pub(crate) fn new(store: A, me: Node, options: RoundOptions, silence: Silence) -> Self {
        let quiet_since = clock_now();
        Self { store, me, options, seen: None, quiet_since, listening: None, silence }
    }

    /// See [`Rendezvous::join`](super::Rendezvous::join).
    pub(crate) async fn join(&mut self, job: &str, until: Deadline) -> Result<Option<Round>> {
        match self.seen {
            None => self.found(job).await?,
            // A clone may have seen more than this one.
            Some(_) => self.hear(Deadline::now()).await?,
        }
        let (me, options) = (self.me.clone(), self.options.clone());
        if !self.is_seated() {
            self.change(Deadline::never(), |rounds| rounds.join(&me, &options)).await?;
        }
        let until = self.step(until).await?;
        if self.round().is_none() {
            self.hear(until).await?;
            self.listen_to_neighbour().await?;
        }
        match self.state() {
            Some(Rounds { phase: Phase::Over(ending), .. }) => {
                Err(JoinError::Over(ending.clone()).into())
            }
            _ => Ok(self.round()),
        }
    }

    /// See [`Rendezvous::watch`](super::Rendezvous::watch).
    pub(crate) async fn watch(&mut self, round: &Round, until: Deadline) -> Result<News> {
        let until = until.min(Deadline::after(self.options.liveness / 5));
        if self.news(round) == News::Nothing {
            let until = self.step(until).await?;
            self.hear(until).await?;
            self.listen_to_neighbour().await?;
        }
        Ok(self.news(round))
    }

    /// Tells what became of this node's ranks in a round, if it is still the present one.
    pub(crate) async fn report(
        &mut self,
        round: &Round,
        what: impl Fn(&mut Rounds, NodeId),
    ) -> Result<()> {
        let (id, epoch) = (self.me.id, round.epoch);
        self.change(Deadline::never(), |rounds| {
            if rounds.epoch == epoch {
                what(rounds, id);
            }
            Ok(())
        })
        .await
    }

    /// Changes the state for good, if the node has ever seen it.
    pub(crate) async fn take_leave(
        &mut self,
        until: Deadline,
        what: impl Fn(&mut Rounds, &Node),
    ) -> Result<()> {
        if self.seen.is_none() {
            return Ok(());
        }
        let me = self.me.clone();
        self.change(until, |rounds| {
            what(rounds, &me);
            Ok(())
        })
        .await
    }

    /// Waits for the state to change.
    pub(super) async fn hear(&mut self, until: Deadline) -> Result<()> {
        let known = self.seen.as_ref().map(|(_, bytes)| bytes.as_slice()).unwrap_or_default();
        match self.store.ask(&Request::GetChanged { key: STATE, known }, until).await {
            Ok(Reply::Value(bytes)) => self.see(bytes),
            Ok(other) => Err(out_of_place(&other)),
            Err(Error::Timeout { missing, .. }) if missing.count > 0 => Ok(()),
            Err(error) => self.bear(error),
        }
    }

    /// The state as this node last saw it.
    pub(crate) fn state(&self) -> Option<&Rounds> {
        self.seen.as_ref().map(|(rounds, _)| rounds)
    }

    /// Whether this node has joined the present round, or waits for the next.
    pub(super) fn is_seated(&self) -> bool {
        self.state().is_some_and(|rounds| rounds.seated().any(|node| node.id == self.me.id))
    }

    /// A store that does not answer may only be slow, and a cable may be mended: it is an error
    /// once that has lasted for as long as a node may be silent.
    pub(super) fn bear(&self, error: Error) -> Result<()> {
        let waited = self.silence.get();
        let patient = waited < self.options.liveness;
        match error {
            Error::Timeout { .. } | Error::Unreachable { .. } if patient => Ok(()),
            Error::Timeout { verb, missing, .. } => Err(Error::Timeout { verb, waited, missing }),
            other => Err(other),
        }
    }

    /// Reads the state, or founds the job if this is its first node.
    async fn found(&mut self, job: &str) -> Result<()> {
        let first = encode(&Rounds::new(job.to_owned(), self.options.clone()));
        match self.compare_set(None, &first).await? {
            Swap::Differs(bytes) => self.see(bytes),
            _ => self.see(first),
        }
    }

    /// Does what is due now; says until when to listen if nothing else happens.
    async fn step(&mut self, until: Deadline) -> Result<Deadline> {
        let Some((rounds, _)) = &self.seen else { return Ok(until) };
        match rounds.decide(clock_now(), self.quiet_since) {
            Decision::Wait(next) => Ok(next.map_or(until, |next| until.min(Deadline::at(next)))),
            Decision::Close => {
                self.close_round().await?;
                Ok(Deadline::now())
            }
            Decision::Call(cause) => {
                let epoch = rounds.epoch;
                self.change(Deadline::never(), |rounds| {
                    if rounds.epoch == epoch && matches!(rounds.phase, Phase::Running { .. }) {
                        rounds.call(cause.clone());
                    }
                    Ok(())
                })
                .await?;
                Ok(Deadline::now())
            }
        }
    }

    async fn close_round(&mut self) -> Result<()> {
        let (now, quiet_since) = (clock_now(), self.quiet_since);
        self.change(Deadline::never(), |rounds| {
            // Somebody may have joined or closed meanwhile: what is due is decided anew.
            if rounds.decide(now, quiet_since) == Decision::Close {
                rounds.close();
            }
            Ok(())
        })
        .await
    }

    async fn listen_to_neighbour(&mut self) -> Result<()> {
        let neighbour = match self.state() {
            None | Some(Rounds { phase: Phase::Over(_), .. }) => None,
            Some(rounds) => rounds.neighbour(self.me.id).cloned(),
        };
        let Some(neighbour) = neighbour else { return Ok(()) };
        let beats = match count(&self.store, &beat_key(&neighbour), 0).await {
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
        .await
    }

    /// Changes the state, again and again until nobody has changed it in between. What got no
    /// answer before `until` may have been done all the same: trying again finds nothing to do.
    async fn change(
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
            match self.compare_set(Some(bytes), &next).await {
                Ok(Swap::Swapped) => return self.see(next),
                Ok(Swap::Differs(bytes)) => self.see(bytes)?,
                Ok(Swap::Missing) => return Err(damaged("it has been deleted")),
                Err(error) if until.has_passed() => return Err(error),
                Err(error) => self.bear(error)?,
            }
        }
    }

    async fn compare_set(&self, expect: Option<&[u8]>, new: &[u8]) -> Result<Swap> {
        let request = Request::CompareSet { key: STATE, expect, new };
        match self.store.ask(&request, self.store.soon()).await? {
            Reply::Swap(swap) => Ok(swap),
            other => Err(out_of_place(&other)),
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

/// Adds to a count in the store, and gives the sum.
pub(super) async fn count(store: &impl Ask, key: &str, delta: i64) -> Result<i64> {
    match store.ask(&Request::Add { key, delta }, store.soon()).await? {
        Reply::Number(number) => Ok(number),
        other => Err(out_of_place(&other)),
    }
}

pub(super) fn beat_key(node: &Node) -> String {
    format!("beat/{}", node.id)
}

fn encode(rounds: &Rounds) -> Vec<u8> {
    postcard::to_allocvec(rounds).expect("memory can be extended")
}

fn damaged(reason: &str) -> Error {
    Error::Join(JoinError::Differs(format!("the job's state cannot be read: {reason}")))
}

const STATE: &str = "state";
