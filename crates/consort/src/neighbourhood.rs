//! The ranks of one host, and the memory they share.

mod reach;

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use consort_store::{Deadline, Store};
use consort_sys::arena::{Arena, Piece};
use consort_sys::pass::{Door, Offer, PassError, PeerDoor};
use consort_sys::topo::Topology;
use consort_sys::wait::Patience;
use serde::{Deserialize, Serialize};

use crate::engine::{Lane, Neighbour, Place};
use crate::error::{Error, Result};
use crate::group::Member;
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

/// Memory that this rank needs no more. While others do, it cannot be used for something else.
#[derive(Debug)]
enum Left {
    Lane(Box<Lane>),
    Windows(Held),
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

/// What a rank tells the others of its host through the store.
#[derive(Serialize, Deserialize)]
struct Address {
    door: String,
    place: [u64; 3],
}

impl Neighbourhood {
    /// Shares memory with the members on this host. If these are all members, there is a lane for
    /// the group of all.
    ///
    /// # Errors
    /// When there is no memory, or when a rank does not come to share its own in time.
    pub(crate) fn settle(
        meeting: &dyn Store,
        me: u32,
        members: &[Member],
        until: Deadline,
    ) -> Result<(Self, Option<Lane>)> {
        let host = &members[me as usize].host;
        let here: Vec<&Member> = members.iter().filter(|member| member.host == *host).collect();
        let arena = Arena::create(Arena::default_size(here.len()))?;
        let place = Place::take(&arena, here.len())?;
        let mut neighbours = BTreeMap::new();
        neighbours.insert(me, Neighbour { arena: arena.clone(), life: None, reach: None });
        let mut offsets = vec![place.offsets()];
        if here.len() > 1 {
            let token = agree_on_token(meeting, &here, me, until)?;
            let door = Door::open()?;
            let address = Address { door: door.name().to_owned(), place: place.offsets() };
            meeting.set(&door_of(me), &postcard::to_stdvec(&address).expect("it is plain data"))?;
            let (doors, places) = find_doors(meeting, &here, me, until)?;
            offsets = places;
            let offer = Offer { rank: me, descriptor: arena.as_fd(), token: &token };
            let mut processes = BTreeMap::new();
            let latest = until.instant().unwrap_or_else(|| Instant::now() + LONG);
            for peer in door.exchange(offer, &doors, latest)? {
                let arena = Arena::open(peer.descriptor)?;
                let life = Some(Arc::new(peer.life));
                neighbours.insert(peer.rank, Neighbour { arena, life, reach: None });
                processes.insert(peer.rank, peer.process);
            }
            for (rank, reach) in reach::try_out(meeting, me, &processes, until)? {
                neighbours.entry(rank).and_modify(|neighbour| neighbour.reach = Some(reach));
            }
        }
        let cores = Topology::here().effective_cores();
        let settled = Self { me, arena, neighbours, cores, left: Mutex::default() };
        if here.len() < members.len() {
            return Ok((settled, None));
        }
        let everyone: Vec<u32> = (0..members.len() as u32).collect();
        let lane = settled.lane("world", &everyone, place, &offsets)?;
        Ok((settled, Some(lane)))
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
        self.left().push(Left::Windows(held));
        self.sweep();
    }

    /// This rank's memory.
    pub(crate) fn arena(&self) -> &Arena {
        &self.arena
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

    /// The way through shared memory for a group of these ranks of the world, who have set these
    /// places aside.
    ///
    /// # Errors
    /// When a place is not in its rank's memory.
    pub(crate) fn lane(
        &self,
        name: &str,
        ranks: &[u32],
        mine: Place,
        offsets: &[[u64; 3]],
    ) -> Result<Lane> {
        let me = ranks.iter().position(|&rank| rank == self.me).expect("this rank is in its group");
        let neighbours = ranks.iter().map(|rank| self.neighbours[rank].clone()).collect();
        Lane::new(name, me, neighbours, mine, offsets, self.patience())
    }
}

impl Drop for Neighbourhood {
    fn drop(&mut self) {
        self.left().drain(..).for_each(Left::abandon);
    }
}

/// What ranks of this job on this host know, and nobody else: only they can read the store.
fn agree_on_token(
    meeting: &dyn Store,
    here: &[&Member],
    me: u32,
    until: Deadline,
) -> Result<[u8; 32]> {
    let first = here[0].rank.get();
    let key = format!("token/{first}");
    if me == first {
        let mut token = [0; 32];
        getrandom::fill(&mut token).map_err(|_| Error::Sharing(PassError::Random))?;
        meeting.set(&key, &token)?;
    }
    let token = meeting.get(&key, until)?;
    Ok(<[u8; 32]>::try_from(&token[..]).unwrap_or_default())
}

/// Everyone's door but this rank's, and everyone's place, in the order of ranks.
fn find_doors(
    meeting: &dyn Store,
    here: &[&Member],
    me: u32,
    until: Deadline,
) -> Result<(Vec<PeerDoor>, Vec<[u64; 3]>)> {
    let mut doors = Vec::new();
    let mut places = Vec::new();
    for member in here {
        let rank = member.rank.get();
        let bytes = meeting.get(&door_of(rank), until)?;
        let Address { door: name, place } = postcard::from_bytes(&bytes).map_err(|_| {
            Error::Argument(format!("rank {rank} has told nonsense about its memory"))
        })?;
        places.push(place);
        if rank != me {
            doors.push(PeerDoor { rank, name, process: Some(member.process) });
        }
    }
    Ok((doors, places))
}

fn door_of(rank: u32) -> String {
    format!("door/{rank}")
}

/// For meetings without a deadline.
const LONG: Duration = Duration::from_secs(24 * 3600);
