//! What the ranks of a job tell each other before they are connected: values, and that all are there.
//!
//! Those of one host have it in the launcher's memory. Of several hosts, values are in the job's store as well, and the
//! last rank of a host to come to a barrier has its launcher meet the others there.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use consort_store::{Deadline, Error as StoreError, PrefixStore, Store};

use super::words::LONGEST_VALUE;
use crate::run::placement::Placement;

/// The ranks of this host, and what they know of the others.
#[derive(Debug)]
pub(super) struct Hall {
    /// A name that no other start of any job has: libraries name memory after it.
    pub(super) name: String,
    pub(super) world: u32,
    local_world: u32,
    nodes: u32,
    /// Where the other hosts look, if there are any.
    store: Option<PrefixStore>,
    /// That somebody is missing is said to the user once, however many wait.
    pub(super) said_missing: Once,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    values: BTreeMap<String, String>,
    /// How many ranks of this host are in the barrier.
    arrived: u32,
    /// How many barriers there were.
    passed: u64,
    is_closed: bool,
    /// Where each rank of this host stands.
    standings: Vec<Standing>,
    /// A rank that comes to no barrier any more.
    missing: Option<u32>,
    /// One that did not even come to `MPI_Init`, where the others wait in memory that they share.
    never_came: Option<u32>,
}

/// How far a rank has come in MPI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Standing {
    /// It has not begun.
    #[default]
    Before,
    Inside,
    Finalized,
    /// It has called `MPI_Abort` with this code.
    Aborted(i32),
    /// It waits in `MPI_Init` for this rank, which has ended.
    Forlorn(u32),
    /// Its process has ended.
    Ended,
}

/// Why a rank is told nothing any more.
#[derive(Debug)]
pub(super) enum Over {
    /// This start of the ranks has ended.
    Closed,
    /// This rank comes no more, and others wait for it.
    Missing(u32),
    /// The other hosts cannot be reached.
    Store(StoreError),
}

impl Hall {
    pub(super) fn new(place: &Placement, store: &Arc<dyn Store>) -> Self {
        let name = format!("consort_{}_{}", place.job, place.epoch);
        let room = || {
            let round = PrefixStore::new(&format!("{}/{}", place.job, place.epoch), store.clone());
            PrefixStore::new("pmi", round)
        };
        let standings = vec![Standing::default(); place.local_world as usize];
        let mut state = State { standings, ..State::default() };
        // Without it a library takes every rank to be on a host of its own.
        let mapping = mapping(&place.slots);
        if mapping.len() <= LONGEST_VALUE {
            state.values.insert(MAPPING.to_owned(), mapping);
        }
        Self {
            name,
            world: place.world,
            local_world: place.local_world,
            nodes: place.nodes,
            store: (place.nodes > 1).then(room),
            said_missing: Once::new(),
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    /// Keeps a value, in place of what was there, or if there is room.
    pub(super) fn put(&self, key: &str, value: &str) -> bool {
        let mut state = self.lock();
        if state.values.len() >= MOST_VALUES && !state.values.contains_key(key) {
            return false;
        }
        state.values.insert(key.to_owned(), value.to_owned());
        drop(state);
        let store = self.store.as_ref();
        store.is_none_or(|store| store.set(&value_key(key), value.as_bytes()).is_ok())
    }

    /// A value that somebody has put, before a barrier that has been passed since.
    pub(super) fn get(&self, key: &str) -> Result<Option<String>, Over> {
        if let Some(value) = self.lock().values.get(key) {
            return Ok(Some(value.clone()));
        }
        let Some(store) = &self.store else { return Ok(None) };
        match store.get(&value_key(key), Deadline::now()) {
            Ok(value) => {
                let value = String::from_utf8_lossy(&value).into_owned();
                self.lock().values.insert(key.to_owned(), value.clone());
                Ok(Some(value))
            }
            Err(StoreError::Timeout { missing, .. }) if missing.count > 0 => Ok(None),
            Err(error) => Err(Over::Store(error)),
        }
    }

    /// Takes note of how far a local rank has come; says whether it still runs.
    pub(super) fn stand(&self, local_rank: u32, standing: Standing) -> bool {
        let mut state = self.lock();
        let own = &mut state.standings[local_rank as usize];
        let runs = *own != Standing::Ended;
        if runs {
            *own = standing;
        }
        runs
    }

    /// Those who wait for one that never came, and do not know: each is named once.
    pub(super) fn take_forlorn(&self) -> Vec<u32> {
        let mut state = self.lock();
        let Some(rank) = state.never_came else { return Vec::new() };
        let standings = (0..).zip(&mut state.standings);
        let inside = standings.filter(|(_, standing)| **standing == Standing::Inside);
        inside
            .map(|(local_rank, standing)| {
                *standing = Standing::Forlorn(rank);
                local_rank
            })
            .collect()
    }

    /// Takes note that a local rank has ended; says how far it had come.
    pub(super) fn leave(&self, local_rank: u32, rank: u32) -> Standing {
        let mut state = self.lock();
        let own = &mut state.standings[local_rank as usize];
        let standing = std::mem::replace(own, Standing::Ended);
        if matches!(standing, Standing::Finalized | Standing::Ended) {
            return standing;
        }
        if standing == Standing::Before {
            state.never_came.get_or_insert(rank);
        }
        standing
    }

    /// Takes note that a rank of this host comes to no barrier any more. Who waits for it there hears of it.
    pub(super) fn miss(&self, rank: u32) {
        let mut state = self.lock();
        if state.is_closed || state.missing.is_some() {
            return;
        }
        state.missing = Some(rank);
        drop(state);
        self.changed.notify_all();
        if let Some(store) = &self.store
            && let Err(error) = store.set(MISSING, rank.to_string().as_bytes())
        {
            tracing::warn!(rank, %error, "other hosts do not hear that it has left MPI");
        }
    }

    /// Waits until every rank of the job is here.
    pub(super) fn meet(&self) -> Result<(), Over> {
        let mut state = self.lock();
        if let Some(rank) = state.missing {
            return Err(Over::Missing(rank));
        }
        let number = state.passed;
        state.arrived += 1;
        if state.arrived == self.local_world {
            state.arrived = 0;
            drop(state);
            // If they cannot be met, the ranks that wait here would do so until this start of them ends.
            self.meet_hosts(number).inspect_err(|_| self.close())?;
            self.lock().passed += 1;
            self.changed.notify_all();
            return Ok(());
        }
        let is_inside = |state: &mut State| {
            state.passed == number && !state.is_closed && state.missing.is_none()
        };
        let state = self.changed.wait_while(state, is_inside);
        let state = state.unwrap_or_else(PoisonError::into_inner);
        match (state.passed > number, state.missing) {
            (true, _) => Ok(()),
            (false, Some(rank)) => Err(Over::Missing(rank)),
            (false, None) => Err(Over::Closed),
        }
    }

    fn meet_hosts(&self, number: u64) -> Result<(), Over> {
        let Some(store) = &self.store else { return Ok(()) };
        let passed = format!("passed/{number}");
        let arrived = store.add(&format!("arrived/{number}"), 1).map_err(Over::Store)?;
        if arrived == i64::from(self.nodes) {
            store.set(&passed, b"").map_err(Over::Store)?;
        }
        loop {
            match store.wait(&[&passed], Deadline::after(LOOK)) {
                Ok(()) => return Ok(()),
                Err(StoreError::Timeout { missing, .. }) if missing.count > 0 => {}
                Err(error) => return Err(Over::Store(error)),
            }
            if self.lock().is_closed {
                return Err(Over::Closed);
            }
            if let Ok(rank) = store.get(MISSING, Deadline::now()) {
                // It may have passed with the others, and gone then.
                if store.wait(&[&passed], Deadline::now()).is_ok() {
                    return Ok(());
                }
                let rank = String::from_utf8_lossy(&rank).parse().unwrap_or(0);
                self.lock().missing.get_or_insert(rank);
                self.changed.notify_all();
                return Err(Over::Missing(rank));
            }
        }
    }

    /// Sends everyone away.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which ranks are on which host, for hosts that have so many each, in their order: runs of hosts with as many, each
/// by its first host, how many hosts, how many ranks on each.
pub(super) fn mapping(slots: &[u32]) -> String {
    let mut first = 0;
    let blocks: Vec<String> = slots
        .chunk_by(|one, next| one == next)
        .map(|run| {
            let block = format!("({first},{},{})", run.len(), run[0]);
            first += run.len();
            block
        })
        .collect();
    format!("(vector,{})", blocks.join(","))
}

fn value_key(key: &str) -> String {
    format!("value/{key}")
}

/// Where a rank is named that comes to no barrier any more.
const MISSING: &str = "missing";
/// What the mapping is called.
const MAPPING: &str = "PMI_process_mapping";
/// More than a library needs for the largest job: a program may put whatever it likes.
const MOST_VALUES: usize = 1 << 18;
/// How often whoever waits for other hosts looks whether that still makes sense.
const LOOK: Duration = Duration::from_millis(500);
