//! Handing a descriptor to every other rank of the host.
//!
//! Memory without a name can only be shared by handing over its descriptor, and descriptors travel
//! through Unix sockets. Each rank opens a [`Door`], tells the others its name, and then all
//! [exchange](Door::exchange) descriptors: every rank dials those above it and lets in those
//! below it. No thread is started, no file made, and when it is over the door is gone.
//!
//! # Who gets in
//!
//! The door's name is random, but everyone on the machine can list it. So both sides look at who
//! the kernel says the other is: it must be a process of the same user, and the one that was
//! announced. Then each proves that it knows the token of the job, by a keyed hash over two random
//! challenges, so the token itself is never sent. Only after that is a descriptor handed over.
//! Whoever fails is turned away, with a line in the log, and the others go on. Whoever says
//! nothing is let go after two seconds, and many of them take places from each other only.
//!
//! A process is bound to its [`Life`] before it is challenged. Its proof thus shows that it
//! was alive then, and that its number was not yet given to another.

mod bell;
mod credentials;
mod error;
mod frame;
mod meeting;
mod talk;

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

pub use bell::{Bar, Bell};
pub use error::{PassError, Refusal};

use crate::life::Life;
use meeting::Meeting;

/// Where the other ranks of this host find this one, once.
#[derive(Debug)]
pub struct Door {
    listener: OwnedFd,
    name: String,
}

/// What this rank brings to an exchange.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    /// This rank.
    pub rank: u32,
    /// What the others get.
    pub descriptor: BorrowedFd<'a>,
    /// A second one, which all of them bring or none.
    pub second: Option<BorrowedFd<'a>>,
    /// What only ranks of this job know.
    pub token: &'a [u8; 32],
}

/// Where another rank is to be found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerDoor {
    /// That rank.
    pub rank: u32,
    /// The [name](Door::name) of its door.
    pub name: String,
    /// Its process number; `None` if it counts processes differently, being in a namespace of its
    /// own, and cannot be compared.
    pub process: Option<u32>,
}

/// What came of another rank.
#[derive(Debug)]
pub struct Peer {
    /// That rank.
    pub rank: u32,
    /// What it handed over.
    pub descriptor: OwnedFd,
    /// The second, if all bring one.
    pub second: Option<OwnedFd>,
    /// Its process number as seen from here; zero if it cannot be seen.
    pub process: u32,
    /// Whether it is still there.
    pub life: Life,
}

impl Offer<'_> {
    /// How many descriptors everyone gives.
    fn count(&self) -> usize {
        1 + usize::from(self.second.is_some())
    }
}

impl Door {
    /// Opens a door with a random name.
    ///
    /// # Errors
    /// When the kernel has no Unix sockets for this process.
    pub fn open() -> Result<Self, PassError> {
        let mut random = [0; 16];
        let failed = |call| move |source| PassError::Door { call, source };
        getrandom::fill(&mut random).map_err(|_| PassError::Random)?;
        let name = format!("consort-{:032x}", u128::from_ne_bytes(random));
        let address = address_of(&name).map_err(failed("name"))?;
        let listener = socket().map_err(failed("socket"))?;
        rustix::net::bind(&listener, &address).map_err(failed("bind"))?;
        rustix::net::listen(&listener, BACKLOG).map_err(failed("listen"))?;
        Ok(Self { listener, name })
    }

    /// What the others need to know to find it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Gives a descriptor to every peer and gets one from each, in rank order. All of them must
    /// call it; it returns when this rank has all that it was to get and has given all.
    ///
    /// # Errors
    /// When a peer has not come by `until`, has ended, or is not what it should be. The error
    /// names its rank.
    pub fn exchange(
        self,
        offer: Offer<'_>,
        peers: &[PeerDoor],
        until: Instant,
    ) -> Result<Vec<Peer>, PassError> {
        self.exchange_unless(offer, peers, until, || Ok(()))
    }

    /// As [`exchange`](Self::exchange), and gives up when `look_round` says so, which is asked now and
    /// then while it waits: a peer that cannot come may have said so elsewhere.
    ///
    /// # Errors
    /// As for [`exchange`](Self::exchange), and what `look_round` says.
    pub fn exchange_unless<E: From<PassError>>(
        self,
        offer: Offer<'_>,
        peers: &[PeerDoor],
        until: Instant,
        look_round: impl FnMut() -> Result<(), E>,
    ) -> Result<Vec<Peer>, E> {
        Meeting::new(self, offer, peers)?.hold(until, look_round)
    }
}

fn socket() -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// A name that is no file.
fn address_of(name: &str) -> rustix::io::Result<SocketAddrUnix> {
    SocketAddrUnix::new_abstract_name(name.as_bytes())
}

fn size_of(descriptor: BorrowedFd<'_>) -> rustix::io::Result<u64> {
    Ok(rustix::fs::fstat(descriptor)?.st_size.try_into().unwrap_or_default())
}

/// The kernel takes less if its limit is less.
const BACKLOG: i32 = 4096;

#[cfg(test)]
mod tests;
