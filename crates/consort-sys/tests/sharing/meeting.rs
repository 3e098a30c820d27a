//! How the ranks of a test find each other.

use std::fs;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::thread::sleep;
use std::time::{Duration, Instant};

use consort_sys::arena::Arena;
use consort_sys::life::Life;
use consort_sys::pass::{Door, Offer, PassError, Peer, PeerDoor};
use consort_testkit::Context;

use super::AGREEMENT;

pub(crate) const MIB: usize = 1 << 20;
pub(crate) const TOKEN: [u8; 32] = [3; 32];
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// A peer whose arena is mapped.
pub(crate) struct Neighbour {
    pub(crate) rank: u32,
    pub(crate) arena: Arena,
    pub(crate) life: Life,
}

/// Meets all other ranks; each brings its arena.
pub(crate) fn meet(ctx: &Context, arena: &Arena) -> Vec<Neighbour> {
    let (door, peers) = announce(ctx);
    let peers = exchange(ctx, door, &peers, arena, LIMIT).unwrap();
    let open = |Peer { rank, descriptor, life, .. }| {
        let arena = Arena::open(AGREEMENT, descriptor).unwrap();
        Neighbour { rank, arena, life }
    };
    peers.into_iter().map(open).collect()
}

/// Opens a door, and waits until all others have told theirs.
pub(crate) fn announce(ctx: &Context) -> (Door, Vec<PeerDoor>) {
    let door = Door::open().unwrap();
    let file = |rank: u32| ctx.dir().join(format!("door-{rank}"));
    let unfinished = ctx.dir().join(format!("writing-{}", ctx.rank()));
    fs::write(&unfinished, format!("{} {}", door.name(), std::process::id())).unwrap();
    fs::rename(&unfinished, file(ctx.rank())).unwrap();
    let find = |rank| {
        let text = until_some(|| fs::read_to_string(file(rank)).ok());
        let (name, process) = text.split_once(' ').unwrap();
        PeerDoor { rank, name: name.to_owned(), process: process.parse().ok() }
    };
    let others = (0..ctx.world()).filter(|&rank| rank != ctx.rank());
    (door, others.map(find).collect())
}

pub(crate) fn exchange(
    ctx: &Context,
    door: Door,
    peers: &[PeerDoor],
    arena: &Arena,
    limit: Duration,
) -> Result<Vec<Peer>, PassError> {
    let offer = Offer { rank: ctx.rank(), descriptor: arena.as_fd(), second: None, token: &TOKEN };
    door.exchange(offer, peers, Instant::now() + limit)
}

/// Looks until there is something; the job's limit ends it.
/// A word of an arena.
pub(crate) fn word(arena: &Arena, offset: usize) -> &AtomicU32 {
    // SAFETY: the tests use a place as a word or as bytes, not both.
    unsafe { arena.word(offset) }.unwrap()
}

pub(crate) fn word64(arena: &Arena, offset: usize) -> &AtomicU64 {
    // SAFETY: as above.
    unsafe { arena.word64(offset) }.unwrap()
}

pub(crate) fn until_some<T>(look: impl Fn() -> Option<T>) -> T {
    loop {
        if let Some(found) = look() {
            return found;
        }
        sleep(Duration::from_millis(1));
    }
}

pub(crate) fn until(look: impl Fn() -> bool) {
    until_some(|| look().then_some(()));
}
