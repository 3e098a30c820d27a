//! The ranks of one host, and the memory they share.

mod agreement;
mod apart;
mod doors;
mod reach;
mod round;

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use consort_store::{Deadline, Store};
use consort_sys::arena::{Arena, Piece};
use consort_sys::hatch::{Chute, Hatch};
use consort_sys::parting::Parting;
use consort_sys::pass::{Door, Offer};
use consort_sys::topo::Topology;
use consort_sys::wait::Patience;

pub(crate) use self::agreement::AGREEMENT;
pub(crate) use self::apart::set_apart;
pub(crate) use self::round::Round;
use crate::engine::{Lane, Neighbour, Place};
use crate::error::{Error, Result};
use crate::group::Member;
use crate::recorder::Recorder;
use crate::symm::Held;

/// This rank and those that it shares memory with.
#[derive(Debug)]
pub(crate) struct Neighbourhood {
    me: u32,
    arena: Arena,
    /// By their rank in the world, this one included.
    neighbours: BTreeMap<u32, Neighbour>,
    cores: usize,
    /// What this rank has left, but others perhaps not.
    left: Mutex<Vec<Left>>,
}

/// What ranks have set aside for a group.
#[derive(Debug)]
pub(crate) struct Places {
    pub(crate) mine: Place,
    /// Everyone's, this rank's included.
    pub(crate) offsets: Vec<[u64; 3]>,
}

/// How the ranks of a host hand each other who comes to their common port.
#[derive(Debug)]
pub(crate) struct Hatches {
    pub(crate) mine: Hatch,
    /// By their rank in the world.
    pub(crate) others: BTreeMap<u32, Chute>,
}

/// What ranks have when they have settled.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) neighbourhood: Neighbourhood,
    /// For the group of all.
    pub(crate) places: Places,
    /// If they were asked for, and there is anybody else.
    pub(crate) hatches: Option<Hatches>,
}

/// Memory that this rank needs no more. While others do, it cannot be used for something else.
#[derive(Debug)]
enum Left {
    Lane(Box<Lane>),
    Windows(Box<Held>),
}

impl Left {
    fn is_deserted(&self) -> bool {
        match self {
            Self::Lane(lane) => lane.is_deserted(),
            Self::Windows(held) => held.is_deserted(),
        }
    }

    fn abandon(self) {
        match self {
            Self::Lane(lane) => lane.abandon(),
            Self::Windows(held) => held.abandon(),
        }
    }
}

impl Neighbourhood {
    /// Shares memory with the members on this host, who have each set a place aside for the group of
    /// all, and hatches, if they ask for them.
    ///
    /// # Errors
    /// When there is no memory, here or on another rank; when a rank has ended, or does not come to
    /// share its memory in time.
    pub(crate) fn settle(
        meeting: &dyn Store,
        me: u32,
        members: &[Member],
        with_hatches: bool,
        until: Deadline,
    ) -> Result<Settled> {
        let round = Round::new(meeting, me, members, until);
        let settled = Self::settle_with(&round, with_hatches);
        settled.map_err(|error| round.give_up(error))
    }

    fn settle_with(round: &Round<'_>, with_hatches: bool) -> Result<Settled> {
        let (me, ranks) = (round.me, round.here.len());
        let arena = Arena::create(AGREEMENT, Arena::default_size(ranks, round.most_together()))?;
        Parting::first_in(&arena)?;
        let place = Place::take(&arena, ranks)?;
        let mut neighbours = BTreeMap::new();
        neighbours.insert(me, Neighbour::new(me, arena.clone(), None));
        let mut places = vec![place.offsets()];
        let mut hatches = None;
        if ranks > 1 {
            let mine = with_hatches
                .then(Hatch::open)
                .transpose()
                .map_err(|error| Error::Port(error.into()))?;
            let mut others = BTreeMap::new();
            let door = Door::open()?;
            let found = doors::find(round, &door, &place)?;
            places = found.places;
            let second = mine.as_ref().map(|hatch| hatch.chute().as_fd());
            let descriptor = arena.as_fd();
            let offer = Offer { rank: me, descriptor, second, token: &found.token };
            let latest = round.until.instant().unwrap_or_else(|| Instant::now() + LONG);
            let mut processes = BTreeMap::new();
            let look_round = || round.hear_who_gave_up();
            for peer in door.exchange_unless(offer, &found.doors, latest, look_round)? {
                let arena = Arena::open(AGREEMENT, peer.descriptor)?;
                let life = Some(Arc::new(peer.life));
                neighbours.insert(peer.rank, Neighbour::new(peer.rank, arena, life));
                processes.insert(peer.rank, peer.process);
                others.extend(peer.second.map(|second| (peer.rank, Chute::from(second))));
            }
            hatches = mine.map(|mine| Hatches { mine, others });
            // After that everyone has everyone's memory.
            for (rank, reach) in reach::try_out(round, &processes)? {
                neighbours.entry(rank).and_modify(|neighbour| neighbour.reach = Some(reach));
            }
        }
        if let Some((_, first)) = neighbours.first_key_value().filter(|_| ranks > 1)
            && let Err(error) = arena.take_turns(&first.arena, ranks)
        {
            tracing::warn!("ranks that need memory at once may get too much: {error}");
        }
        let cores = Topology::here().effective_cores();
        let neighbourhood = Self { me, arena, neighbours, cores, left: Mutex::default() };
        Ok(Settled { neighbourhood, places: Places { mine: place, offsets: places }, hatches })
    }

    /// Sets memory aside for a new group of at most so many ranks.
    ///
    /// # Errors
    /// When there is none left.
    pub(crate) fn take_place(&self, ranks: usize) -> Result<Place> {
        self.sweep();
        Place::take(&self.arena, ranks)
    }

    /// Takes a part of this rank's memory, on pages of its own, ready to be used.
    ///
    /// # Errors
    /// When there is none left.
    pub(crate) fn take_piece(&self, bytes: usize) -> Result<Piece> {
        self.sweep();
        let piece = self.arena.alloc(bytes, 1)?;
        piece.populate()?;
        Ok(piece)
    }

    /// Takes a lane back that this rank needs no more.
    pub(crate) fn take_back(&self, lane: Box<Lane>) {
        lane.leave();
        self.left().push(Left::Lane(lane));
        self.sweep();
    }

    /// Takes symmetric memory back that this rank has left.
    pub(crate) fn take_back_windows(&self, held: Held) {
        self.left().push(Left::Windows(Box::new(held)));
        self.sweep();
    }

    /// A rank of the world, if it is on this host.
    pub(crate) fn neighbour(&self, rank: u32) -> Option<&Neighbour> {
        self.neighbours.get(&rank)
    }

    /// This rank's memory.
    pub(crate) fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Has the others know where they find what this rank has recorded of its calls.
    pub(crate) fn show_record(&self, recorder: &Recorder) {
        if let Some(descriptor) = recorder.descriptor() {
            Parting::of(&self.arena).show_record(descriptor);
        }
    }

    /// How to wait for a neighbour.
    pub(crate) fn patience(&self) -> Patience {
        // Ranks of other groups use the cores too.
        Patience::for_ranks(self.neighbours.len(), self.cores)
    }

    /// How the progress thread waits for the others: every rank may have one, and the ranks' own
    /// threads need the cores too.
    pub(crate) fn patience_of_progress(&self) -> Patience {
        Patience::for_ranks(2 * self.neighbours.len(), self.cores)
    }

    /// Gives back what everyone has left.
    fn sweep(&self) {
        self.left().retain(|left| !left.is_deserted());
    }

    fn left(&self) -> MutexGuard<'_, Vec<Left>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The way through shared memory for a group of these ranks of the world, all on this host, who
    /// have set these places aside.
    ///
    /// # Errors
    /// When a place is not in its rank's memory.
    pub(crate) fn lane(&self, name: &str, ranks: &[u32], places: Places) -> Result<Lane> {
        let Places { mine, offsets } = places;
        let (me, neighbours) = self.among(ranks);
        Lane::new(name, me, neighbours, mine, &offsets, self.patience())
    }

    /// This rank's place among these ranks of the world, all on this host, and all of them.
    pub(crate) fn among(&self, ranks: &[u32]) -> (usize, Vec<Neighbour>) {
        let me = ranks.iter().position(|&rank| rank == self.me).expect("this rank is in its group");
        (me, ranks.iter().map(|rank| self.neighbours[rank].clone()).collect())
    }
}

impl Drop for Neighbourhood {
    fn drop(&mut self) {
        self.left().drain(..).for_each(Left::abandon);
        Parting::of(&self.arena).take_leave();
    }
}

/// For meetings without a deadline.
const LONG: Duration = Duration::from_secs(24 * 3600);
