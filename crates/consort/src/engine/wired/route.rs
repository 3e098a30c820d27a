//! A group's ranks as the wire knows them.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use consort_store::{Deadline, Error as StoreError, Reply, Request, Store, Swap};
use consort_sys::board::End;

use super::mail::{WireInflow, WireOutflow};
use super::waits::Waits;
use crate::engine::Neighbour;
use crate::engine::company::{Company, Peers};
use crate::engine::post::{Inlet, Outlet};
use crate::wire::{Ended, Ending, Switch};

/// Ways from this rank to all others of a group. Clones are about the same group.
#[derive(Clone, Debug)]
pub(crate) struct Route(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    wire: Arc<Switch>,
    group: u64,
    me: usize,
    /// The ranks of the members in the world.
    ranks: Vec<u32>,
    /// The members on this host, this one included; `None` for those elsewhere.
    neighbours: Vec<Option<Neighbour>>,
    /// What this rank has heard first of the group's end.
    ended: Arc<Ended>,
    /// What counts, once this rank has asked for it.
    settled: OnceLock<Ending>,
    /// Where it is settled why a group has ended.
    store: Arc<dyn Store>,
    /// Those who have said in the store that they left.
    left: Mutex<Vec<bool>>,
    /// When somebody who does not wait in a call asked the store last.
    asked: Mutex<Instant>,
    /// For whom this rank waits.
    waits: Mutex<Waits>,
    /// When the store did not answer. Whoever waits for ranks must not wait for it again and again.
    silent: Mutex<Option<Instant>>,
}

impl Route {
    /// For the group of this name, whose members have these ranks in the world. They settle in this
    /// store why it has ended.
    pub(crate) fn new(
        wire: &Arc<Switch>,
        name: &str,
        ranks: &[u32],
        neighbours: Vec<Option<Neighbour>>,
        store: &Arc<dyn Store>,
    ) -> Self {
        let group = id(name);
        let me = ranks.iter().position(|&rank| rank == wire.me()).expect("it is a member");
        Self(Arc::new(Inner {
            wire: wire.clone(),
            group,
            me,
            ranks: ranks.to_vec(),
            neighbours,
            ended: wire.enter(group, ranks),
            settled: OnceLock::new(),
            store: store.clone(),
            left: Mutex::new(vec![false; ranks.len()]),
            asked: Mutex::new(Instant::now()),
            waits: Mutex::new(Waits::for_nobody(me)),
            silent: Mutex::new(None),
        }))
    }

    /// Ends of ways for messages to and from every other rank.
    pub(crate) fn mail(&self) -> impl Iterator<Item = Option<(Outlet, Inlet)>> {
        (0..self.world()).map(|rank| {
            let ends = || {
                (
                    Outlet::Other(Box::new(WireOutflow::new(self, rank))),
                    Inlet::Other(Box::new(WireInflow::new(self, rank))),
                )
            };
            (rank != self.me()).then(ends)
        })
    }

    /// The other ranks, for whoever waits for them.
    pub(crate) fn company(&self) -> Peers {
        Peers::Apart(Arc::new(self.clone()))
    }

    pub(crate) fn wire(&self) -> &Arc<Switch> {
        &self.0.wire
    }

    pub(crate) fn group(&self) -> u64 {
        self.0.group
    }

    pub(crate) fn me(&self) -> usize {
        self.0.me
    }

    pub(crate) fn world(&self) -> usize {
        self.0.ranks.len()
    }

    /// A member's rank in the world.
    pub(crate) fn in_world(&self, rank: usize) -> u32 {
        self.0.ranks[rank]
    }

    /// The member that has this rank in the world.
    pub(crate) fn in_group(&self, rank: u32) -> usize {
        self.member(rank).unwrap_or(self.0.me)
    }

    /// The member that has this rank in the world, if there is one.
    fn member(&self, rank: u32) -> Option<usize> {
        self.0.ranks.iter().position(|&it| it == rank)
    }

    fn is_connected(&self, rank: usize) -> bool {
        self.0.wire.is_connected(self.in_world(rank))
    }

    /// Looks in the store for what ranks without a connection cannot say.
    pub(super) fn ask_store(&self, awaited: &[usize]) {
        let Inner { store, group, left, .. } = &*self.0;
        if self.is_halted() || self.is_store_silent() {
            return;
        }
        *self.silence() = None;
        match store.get(&end_key(*group), Deadline::now()) {
            Ok(told) => self.hear_from_store(&told),
            Err(StoreError::Timeout { missing, .. }) if missing.count > 0 => {}
            Err(_) => return *self.silence() = Some(Instant::now()),
        }
        let unmet = awaited.iter().filter(|&&rank| !self.is_connected(rank));
        for &rank in unmet.take(UNMET) {
            match store.check(&[&left_key(*group, rank)]) {
                Ok(true) => left.lock().unwrap_or_else(PoisonError::into_inner)[rank] = true,
                Ok(false) => {}
                Err(_) => return *self.silence() = Some(Instant::now()),
            }
        }
    }

    /// Says in the store that this rank waits in a call, for those who cannot see that.
    pub(in crate::engine) fn say_come(&self, number: u64) {
        let Inner { store, group, me, .. } = &*self.0;
        if !self.is_store_silent() {
            let told = store.set(&come_key(*group, *me), &number.to_le_bytes());
            *self.silence() = told.is_err().then(Instant::now);
        }
    }

    /// The last call in which a rank has said so.
    pub(in crate::engine) fn last_come(&self, rank: usize) -> Option<u64> {
        if self.is_store_silent() {
            return None;
        }
        let told = self.0.store.get(&come_key(self.0.group, rank), Deadline::now()).ok()?;
        Some(u64::from_le_bytes(told.try_into().ok()?))
    }

    /// Whether the store has not answered lately.
    fn is_store_silent(&self) -> bool {
        self.silence().is_some_and(|since| since.elapsed() < LEFT_ALONE)
    }

    fn silence(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hear_from_store(&self, told: &[u8]) {
        if let Some(ending) = Ending::of_entry(told) {
            self.hear(ending);
        }
    }

    /// Takes notice that a rank has ended the group, and of what it says of that.
    pub(in crate::engine) fn hear(&self, ending: Ending) {
        let Inner { wire, group, ranks, .. } = &*self.0;
        wire.halt(*group, ranks, ending);
    }

    /// What this rank has heard of the group's end, as far as it is known.
    pub(in crate::engine) fn heard(&self) -> Option<&Ending> {
        self.0.ended.get()
    }

    /// What counts, given what this rank has found or heard, if the store says so in time.
    fn settle(&self, ending: &Ending) -> &Ending {
        let Inner { wire, group, ranks, store, settled, ended, .. } = &*self.0;
        settled.get_or_init(|| {
            if ending.is_settled {
                return ending.clone();
            }
            let (key, new) = (&*end_key(*group), &*ending.entry());
            let until = Deadline::after(HEARD);
            let told = store.call(&Request::CompareSet { key, expect: None, new }, until);
            let told = told.map(|reply| match reply {
                Reply::Swap(swap) => swap,
                _ => Swap::Missing,
            });
            let (ending, is_to_be_told) = ended.settle(ending.clone(), told);
            if is_to_be_told {
                wire.halt(*group, ranks, ending.clone());
            }
            ending
        })
    }
}

impl Company for Route {
    fn me(&self) -> usize {
        self.me()
    }

    fn world(&self) -> usize {
        self.world()
    }

    fn leave(&self) {
        let Inner { wire, group, ranks, store, me, .. } = &*self.0;
        let is_unmet = |&rank: &u32| rank != wire.me() && !wire.is_connected(rank);
        if ranks.iter().any(is_unmet) && !self.is_store_silent() {
            // Those who never met it wait for it perhaps. If they cannot hear of it, time tells.
            let told = store.set(&left_key(*group, *me), b"");
            *self.silence() = told.is_err().then(Instant::now);
        }
        wire.leave(*group, ranks);
    }

    fn has_left(&self, rank: usize) -> bool {
        let Inner { wire, group, ranks, neighbours, left, .. } = &*self.0;
        let took_leave = || {
            let it = neighbours[rank].as_ref();
            it.is_some_and(|it| it.parting().has_taken_leave()) && !self.is_connected(rank)
        };
        wire.has_left(*group, ranks[rank])
            || left.lock().unwrap_or_else(PoisonError::into_inner)[rank]
            || took_leave()
    }

    fn is_leaving(&self, rank: usize) -> bool {
        let Inner { wire, group, ranks, .. } = &*self.0;
        wire.is_leaving(*group, ranks[rank]) || self.has_left(rank)
    }

    fn is_dead(&self, rank: usize) -> bool {
        let Inner { wire, ranks, neighbours, .. } = &*self.0;
        let has_ended = || neighbours[rank].as_ref().is_some_and(Neighbour::is_dead);
        // What it sent before it ended may still come, and then the end of the connection.
        wire.is_lost(ranks[rank]) || (!self.is_connected(rank) && has_ended())
    }

    fn is_out_of_reach(&self, rank: usize) -> bool {
        self.0.wire.is_out_of_reach(self.in_world(rank))
    }

    fn mourn(&self, rank: usize) {
        let Inner { wire, ranks, me, neighbours, .. } = &*self.0;
        if let Some(mine) = &neighbours[*me] {
            mine.parting().mourn(ranks[rank]);
        }
        wire.mourn(ranks[rank]);
    }

    fn mourned(&self, by: usize) -> Option<usize> {
        let Inner { wire, ranks, neighbours, .. } = &*self.0;
        let here = || neighbours[by].as_ref()?.parting().mourned();
        self.member(wire.mourned(ranks[by]).or_else(here)?)
    }

    fn say_whom(&self, rank: usize) {
        let Inner { wire, group, ranks, waits, .. } = &*self.0;
        if waits.lock().unwrap_or_else(PoisonError::into_inner).look(rank) {
            wire.say_whom(*group, ranks, ranks[rank]);
        }
    }

    fn whom(&self, rank: usize) -> Option<usize> {
        let Inner { wire, group, ranks, waits, .. } = &*self.0;
        let since = waits.lock().unwrap_or_else(PoisonError::into_inner).since();
        self.member(wire.whom(*group, ranks[rank], since)?)
    }

    fn halt(&self, verdict: &[u8]) {
        let Inner { wire, group, ranks, me, .. } = &*self.0;
        wire.halt(*group, ranks, Ending::found(*me as u32, verdict.to_vec()));
    }

    fn listen(&self) {
        self.0.wire.listen();
        // Whoever has it asks.
        let Ok(mut asked) = self.0.asked.try_lock() else { return };
        if asked.elapsed() > PAUSE {
            let unmet = |rank: &usize| *rank != self.me() && !self.is_connected(*rank);
            let unmet: Vec<usize> = (0..self.world()).filter(unmet).collect();
            self.ask_store(&unmet);
            *asked = Instant::now();
        }
    }

    fn is_halted(&self) -> bool {
        self.0.ended.is_known()
    }

    fn end(&self) -> Option<End> {
        let heard = self.heard()?;
        let is_one = |ending: &Ending| (ending.by as usize) < self.world();
        if !is_one(heard) {
            return Some(End::Nonsense { word: heard.by });
        }
        let ending = self.settle(heard);
        Some(if is_one(ending) {
            End::By { rank: ending.by as usize, verdict: ending.verdict.clone() }
        } else {
            End::Nonsense { word: ending.by }
        })
    }
}

/// A number that stands for a group's name.
fn id(name: &str) -> u64 {
    let hash = blake3::hash(name.as_bytes());
    u64::from_le_bytes(*hash.as_bytes().first_chunk().expect("a hash has 32 bytes"))
}

fn end_key(group: u64) -> String {
    format!("ended/{group:016x}")
}

fn come_key(group: u64, rank: usize) -> String {
    format!("come/{group:016x}/{rank}")
}

fn left_key(group: u64, rank: usize) -> String {
    format!("left/{group:016x}/{rank}")
}

/// How long the store is left alone by those who wait for messages.
const PAUSE: Duration = Duration::from_secs(1);
/// How long it has to say whether what was heard of the group's end counts.
const HEARD: Duration = Duration::from_secs(2);
/// How long it is left alone after it did not answer.
const LEFT_ALONE: Duration = Duration::from_secs(10);
/// How many ranks it is asked about.
const UNMET: usize = 16;
