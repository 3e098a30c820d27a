//! How processes that MPI's launcher has started tell each other where they meet.
//!
//! Such a launcher tells each process its rank and how many there are, but neither a place nor a secret. MPI
//! itself connects them, so rank 0 opens a place, makes a secret, and tells the others by MPI.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::thread;
use std::time::Duration;

use consort_store::{Deadline, Secret};
use consort_sys::host::HostId;
use consort_sys::net::choose;

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
/// When there is no MPI, or it does not connect these ranks; when rank 0 can open no place; when not all come
/// before the deadline.
pub(crate) fn introduce(
    rank: u32,
    world: u32,
    interface: Option<&str>,
    until: Deadline,
) -> Result<Introduced> {
    let mpi = Mpi::open_as(rank, world, until, &mut || Ok(()))?;
    let host = HostId::here().map_err(|error| Error::Host(error.into()))?;
    let is_one_host = is_one_host(mpi, &host, until)?;
    let opened = (rank == 0).then(|| open(interface, is_one_host));
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
fn open(interface: Option<&str>, is_one_host: bool) -> Result<(Listening, Secret)> {
    let address: IpAddr = match (interface, is_one_host) {
        (None, true) => Ipv4Addr::LOCALHOST.into(),
        _ => choose(None, interface)?.address,
    };
    let opened = TcpListener::bind((address, 0)).and_then(|listener| {
        let address = listener.local_addr()?;
        Ok(Listening { listener, address })
    });
    let listening = opened.map_err(|error| Error::Port(error.into()))?;
    Ok((listening, Secret::generate()?))
}

/// Whether all processes are on this host.
fn is_one_host(mpi: &'static Mpi, host: &HostId, until: Deadline) -> Result<bool> {
    let words = postcard::to_stdvec(host).expect("a host has a fixed form");
    let mut memory = Memory::default();
    memory.send.of(HASH).copy_from_slice(blake3::hash(&words).as_bytes());
    let all = Task::GatherAll { mine: HASH, parts: Parts::Equal(HASH) };
    let memory = carry_out(mpi, all, memory, until)?;
    let mine = &memory.send.bytes()[..HASH];
    let mut hosts = memory.receive.bytes().chunks_exact(HASH).take(mpi.world.world);
    Ok(hosts.all(|host| host == mine))
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
/// An address and a secret, or as much of a reason.
const WORDS: usize = 512;
const NAP: Duration = Duration::from_micros(200);
