//! How processes that MPI's launcher has started tell each other where they meet.
//!
//! Such a launcher tells each process its rank and how many there are, but neither a place nor a secret. MPI
//! itself connects them, so rank 0 opens a place, makes a secret, and tells the others by MPI.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::thread;
use std::time::Duration;

use consort_store::{Deadline, Secret};
use consort_sys::host::HostId;
use consort_sys::net::{choose, farthest, interfaces, route_to};

use super::library::Mpi;
use super::memory::Memory;
use super::table::{MpiError, Parts, Task};
use crate::error::{Error, Result};

/// Where and how they meet.
#[derive(Debug)]
pub(crate) struct Introduced {
    pub(crate) address: SocketAddr,
    pub(crate) secret: Secret,
    /// What rank 0 holds the store on.
    pub(crate) listener: Option<TcpListener>,
}

/// Tells all ranks where they meet, or hears it from rank 0. All of them have to call it.
///
/// # Errors
/// When there is no MPI, or it does not connect these ranks; when a rank does not know where others reach it, or rank 0
/// can open no place; when not all come before the deadline.
pub(crate) fn introduce(
    rank: u32,
    world: u32,
    interface: Option<&str>,
    until: Deadline,
) -> Result<Introduced> {
    let mpi = Mpi::open_as(rank, world, until, &mut || Ok(()))?;
    let elsewhere = elsewhere(mpi, interface, until)?;
    let opened = (rank == 0).then(|| open(interface, elsewhere));
    let words = match &opened {
        Some(Ok((listener, secret))) => format!("{} {}", listener.address, secret.to_hex()),
        Some(Err(error)) => format!("{FAILED}{error}"),
        None => String::new(),
    };
    let words = tell(mpi, &words, until)?;
    if let Some(opened) = opened {
        let (Listening { listener, address }, secret) = opened?;
        return Ok(Introduced { address, secret, listener: Some(listener) });
    }
    let unreadable = || Error::Mpi(format!("rank 0 said something else than a place: {words:?}"));
    if let Some(reason) = words.strip_prefix(FAILED) {
        return Err(Error::Mpi(format!("rank 0 could not open a place to meet: {reason}")));
    }
    let (address, secret) = words.split_once(' ').ok_or_else(unreadable)?;
    let address = address.parse().map_err(|_| unreadable())?;
    let secret = secret.parse().map_err(|_| unreadable())?;
    Ok(Introduced { address, secret, listener: None })
}

#[derive(Debug)]
struct Listening {
    listener: TcpListener,
    address: SocketAddr,
}

/// Opens a place that all hosts can reach, and no more than they have to.
fn open(interface: Option<&str>, elsewhere: Option<IpAddr>) -> Result<(Listening, Secret)> {
    let peer = elsewhere.map(|address| SocketAddr::new(address, ANY_PORT));
    let place = choose(peer, interface)?.socket(0);
    let opened = TcpListener::bind(place).and_then(|listener| {
        let address = listener.local_addr()?;
        Ok(Listening { listener, address })
    });
    let listening = opened.map_err(|error| Error::Port(error.into()))?;
    Ok((listening, Secret::generate()?))
}

/// An address of another host that a process is on, if there is one: the way there is that to the others, too.
fn elsewhere(
    mpi: &'static Mpi,
    interface: Option<&str>,
    until: Deadline,
) -> Result<Option<IpAddr>> {
    let mine = card(interface);
    let mut memory = Memory::default();
    // One that has none shows that, instead of having the others wait for it.
    memory.send.of(CARD).copy_from_slice(mine.as_ref().unwrap_or(&NO_CARD));
    let all = Task::GatherAll { mine: CARD, parts: Parts::Equal(CARD) };
    let shown = carry_out(mpi, all, memory, until);
    let mine = mine?;
    let memory = shown?;
    let cards = memory.receive.bytes().chunks_exact(CARD).take(mpi.world.world);
    match cards.clone().position(|card| *card == NO_CARD) {
        Some(rank) => {
            let what = "does not know where other hosts reach it, and its own error says why";
            Err(Error::Mpi(format!("rank {rank} {what}")))
        }
        None => Ok(another_host(&mine, cards)),
    }
}

/// What this process shows the others: which host it is on, and where they may reach it.
fn card(interface: Option<&str>) -> Result<[u8; CARD]> {
    let host = HostId::here().map_err(|error| Error::Host(error.into()))?;
    let words = postcard::to_stdvec(&host).expect("a host has a fixed form");
    let mut card = NO_CARD;
    card[..HASH].copy_from_slice(blake3::hash(&words).as_bytes());
    card[HASH..].copy_from_slice(&own_address(interface)?.octets());
    Ok(card)
}

/// The address on the first of these cards that is of another host than mine.
fn another_host<'c>(
    mine: &[u8; CARD],
    mut cards: impl Iterator<Item = &'c [u8]>,
) -> Option<IpAddr> {
    let card = cards.find(|card| card[..HASH] != mine[..HASH])?;
    let octets: [u8; 16] = card[HASH..].try_into().ok()?;
    Some(Ipv6Addr::from(octets).to_canonical())
}

/// Where other hosts may reach this one: over the interface that was asked for, or the one that leads to the rest of the
/// world, or else the one that can be reached from farthest away.
fn own_address(interface: Option<&str>) -> Result<Ipv6Addr> {
    let address = match interface {
        Some(_) => choose(None, interface)?.address,
        None => match route_to(FAR_AWAY) {
            Ok(address) => address,
            Err(_) => outer_address()?,
        },
    };
    Ok(match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    })
}

/// The address that leads farthest out of this host, or that of loopback if there is none.
fn outer_address() -> Result<IpAddr> {
    let all = interfaces().map_err(|error| Error::Host(error.into()))?;
    Ok(farthest(&all).unwrap_or(Ipv4Addr::LOCALHOST.into()))
}

/// What rank 0 says.
fn tell(mpi: &'static Mpi, words: &str, until: Deadline) -> Result<String> {
    let mut memory = Memory::default();
    let room = memory.receive.of(WORDS);
    let len = words.floor_char_boundary(WORDS);
    room[..len].copy_from_slice(&words.as_bytes()[..len]);
    let memory = carry_out(mpi, Task::Spread { root: 0, bytes: WORDS }, memory, until)?;
    let said = String::from_utf8_lossy(&memory.receive.bytes()[..WORDS]);
    Ok(said.trim_end_matches('\0').to_owned())
}

fn carry_out(mpi: &'static Mpi, task: Task, memory: Memory, until: Deadline) -> Result<Memory> {
    let failed = |error: MpiError| Error::Mpi(error.to_string());
    let mut pending = mpi.table.start(mpi.world, task, memory).map_err(failed)?;
    while !pending.is_done().map_err(failed)? {
        if until.has_passed() {
            let what = "not all processes came in time to tell each other where to meet";
            return Err(Error::Mpi(what.to_owned()));
        }
        thread::sleep(NAP);
    }
    Ok(pending.into_memory())
}

const FAILED: &str = "!";
const HASH: usize = blake3::OUT_LEN;
/// Which host, and an address of it.
const CARD: usize = HASH + 16;
/// What one shows that has no card: nobody is at this address.
const NO_CARD: [u8; CARD] = [0; CARD];
/// Routes do not depend on it.
const ANY_PORT: u16 = 9;
/// An address that is nobody's, and of no network that a host is in: where packets to it would leave, those to most
/// others do. None is sent.
const FAR_AWAY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), ANY_PORT);
/// An address and a secret, or as much of a reason.
const WORDS: usize = 512;
const NAP: Duration = Duration::from_micros(200);

#[cfg(test)]
mod tests {
    use super::*;

    fn of(host: u8, address: &str) -> [u8; CARD] {
        let address: IpAddr = address.parse().unwrap();
        let address = match address {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        let mut card = [host; CARD];
        card[HASH..].copy_from_slice(&address.octets());
        card
    }

    #[test]
    fn the_way_to_the_first_process_of_another_host_is_asked_for() {
        let cards = [of(1, "10.0.0.1"), of(1, "10.0.0.1"), of(2, "10.0.0.2"), of(3, "::3")];
        let found = |me: usize| another_host(&cards[me], cards.iter().map(<[u8; CARD]>::as_slice));
        assert_eq!(found(0), Some("10.0.0.2".parse().unwrap()));
        assert_eq!(found(2), Some("10.0.0.1".parse().unwrap()));
        let here = cards[..2].iter().map(<[u8; CARD]>::as_slice);
        assert_eq!(another_host(&cards[0], here), None);
    }

    #[test]
    fn whoever_is_alone_on_a_host_listens_only_there() {
        let (listening, _) = open(None, None).unwrap();
        assert!(listening.address.ip().is_loopback(), "{listening:?}");
    }
}
