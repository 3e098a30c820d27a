//! Rounds over a store: carries out what [`Rounds`] decides.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::deadline::{Deadline, clock_now};
use crate::error::{Error, Result};
use crate::member::{Node, Pulse};
use crate::prefix::PrefixStore;
use crate::request::Swap;
use crate::rounds::{Cause, Decision, Ending, JoinError, Phase, RoundOptions, Rounds};
use crate::store::Store;

/// One node's seat at a job's meetings.
///
/// Drive it so: [`join`](Self::join) again and again until it gives a [`Round`]; start the ranks;
/// [`watch`](Self::watch) again and again; say [`finished`](Self::finished) or
/// [`failed`](Self::failed) when the ranks have ended. A `watch` that gives [`News::Round`] means
/// stop the ranks and join again; [`News::Over`] means stop for good.
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
    _heart: Arc<Heart>,
}

/// A round that has closed with this node in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// The job's name.
    pub job: String,
    /// The round's number.
    pub epoch: u64,
    /// Why it was called.
    pub cause: Cause,
    /// How many failures came before it.
    pub restarts: u32,
    /// Who takes part, in the order of ranks.
    pub nodes: Vec<Node>,
    /// This node's place among them.
    pub place: usize,
}

impl Round {
    /// How many ranks there are.
    pub fn world(&self) -> u32 {
        self.nodes.iter().map(|node| node.slots).sum()
    }

    /// The first rank of this node; its others follow.
    pub fn first_rank(&self) -> u32 {
        self.nodes[..self.place].iter().map(|node| node.slots).sum()
    }
}

/// What a node hears while its ranks run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// Nothing yet.
    Nothing,
    /// The next round has been called.
    Round(Cause),
    /// The job is over.
    Over(Ending),
}

impl Rendezvous {
    /// Takes a seat. `store` is the whole job's; rounds are kept under `rounds/` in it.
    ///
    /// # Errors
    /// When the system has no thread for the heart.
    pub fn new(store: &Arc<dyn Store>, me: Node, options: RoundOptions) -> Result<Self> {
        let store: Arc<dyn Store> = Arc::new(PrefixStore::new("rounds", store.clone()));
        let heart = Arc::new(Heart::start(store.clone(), beat_key(&me), options.liveness / 5)?);
        let quiet_since = clock_now();
        Ok(Self { store, me, options, seen: None, quiet_since, listening: None, _heart: heart })
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
            self.change(|rounds| rounds.join(&me, &options))?;
        }
        let until = self.step(until)?;
        if self.round().is_none() {
            self.hear(until)?;
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
        let (id, epoch) = (self.me.id, round.epoch);
        self.change(|rounds| {
            if rounds.epoch == epoch {
                rounds.finish(id);
            }
            Ok(())
        })
    }

    /// Says that a rank of this node failed, with an account for the others' users. Whether
    /// there is another round is the next [`watch`](Self::watch)'s news.
    ///
    /// # Errors
    /// When the store is gone.
    pub fn failed(&mut self, round: &Round, account: &[u8]) -> Result<()> {
        let (id, epoch) = (self.me.id, round.epoch);
        self.change(|rounds| {
            if rounds.epoch == epoch {
                rounds.fail(id, account.to_vec());
            }
            Ok(())
        })
    }

    /// Gives the seat up.
    ///
    /// # Errors
    /// When the store is gone.
    pub fn leave(&mut self) -> Result<()> {
        if self.seen.is_none() {
            return Ok(());
        }
        let (id, node) = (self.me.id, self.me.to_string());
        self.change(|rounds| {
            rounds.lose(id, Cause::Left { node: node.clone() });
            Ok(())
        })
    }

    /// The state as this node last saw it.
    pub fn state(&self) -> Option<&Rounds> {
        self.seen.as_ref().map(|(rounds, _)| rounds)
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
                self.change(|rounds| {
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
        self.change(|rounds| {
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
            Err(other) => Err(other),
        }
    }

    fn listen_to_neighbour(&mut self) -> Result<()> {
        let now = clock_now();
        let neighbour = match self.state() {
            Some(rounds) if matches!(rounds.phase, Phase::Running { .. }) => {
                rounds.neighbour(self.me.id).cloned()
            }
            _ => None,
        };
        let Some(neighbour) = neighbour else { return Ok(()) };
        if self.listening.as_ref().is_none_or(|(node, _)| node.id != neighbour.id) {
            self.listening = Some((neighbour.clone(), Pulse::new(now)));
        }
        let beats = self.store.add(&beat_key(&neighbour), 0)?;
        let Some((_, pulse)) = &mut self.listening else { return Ok(()) };
        let since = pulse.hear(now, beats);
        if since < self.options.liveness {
            return Ok(());
        }
        self.change(|rounds| {
            rounds.lose(neighbour.id, Cause::Silent { node: neighbour.to_string(), since });
            Ok(())
        })
    }

    /// Changes the state, again and again until nobody has changed it in between.
    fn change(
        &mut self,
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
            match self.store.compare_set(STATE, Some(bytes), &next)? {
                Swap::Swapped => return self.see(next),
                Swap::Differs(bytes) => self.see(bytes)?,
                Swap::Missing => return Err(damaged("it has been deleted")),
            }
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

    /// Whether this node has joined the present round, or waits for the next.
    fn is_seated(&self) -> bool {
        self.state().is_some_and(|rounds| {
            rounds.nodes.iter().chain(&rounds.waiting).any(|node| node.id == self.me.id)
        })
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

/// Beats in a thread of its own: adds to a count in the store until it is dropped.
#[derive(Debug)]
struct Heart {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Heart {
    fn start(store: Arc<dyn Store>, key: String, every: Duration) -> Result<Self> {
        let (stop, stopped) = mpsc::channel::<()>();
        let beat = move || {
            // A store that is gone is noticed, and told, by whoever watches.
            while store.add(&key, 1).is_ok()
                && stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout)
            {}
        };
        let thread = std::thread::Builder::new()
            .name("consort-heart".to_owned())
            .spawn(beat)
            .map_err(|source| Error::System { doing: "starting the heart's thread", source })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Heart {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn beat_key(node: &Node) -> String {
    format!("beat/{}", node.id)
}

fn encode(rounds: &Rounds) -> Vec<u8> {
    postcard::to_allocvec(rounds).expect("memory can be extended")
}

fn damaged(reason: &str) -> Error {
    Error::Join(JoinError::Differs(format!("the job's state cannot be read: {reason}")))
}

const STATE: &str = "state";
