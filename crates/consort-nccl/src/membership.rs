//! The meeting that a communicator comes from, and the store that its ranks meet in.
//!
//! The process that makes an id holds the store. Nobody needs it for calls, but ranks that make a communicator
//! smaller meet there again; so it is held until all ranks have left, and no shorter than its process has
//! ranks of its own in it. As that process may be the one that dies, another has a standby of the store.

use std::any::Any;
use std::collections::BTreeMap;
use std::fs;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use consort::{Builder, Deadline, Engine, Group, Member, Secret, Store, StoreError};
use consort_store::{Dial, Request, Role, Server};
use consort_sys::net;

use crate::comm::Bond;
use crate::failure::{Failure, Result};
use crate::id::{Invitation, UniqueId};
use crate::lock;

/// A new id, whose store this process holds.
///
/// # Errors
/// When there is no address or port for it.
pub(crate) fn invite() -> Result<UniqueId> {
    let secret = Secret::generate()?;
    let mut nonce = [0; 16];
    getrandom::fill(&mut nonce)
        .map_err(|error| Failure::system(format!("the system gives no random numbers: {error}")))?;
    let listener = Server::listen(place()?)?;
    let server = Server::from_listener(listener, &secret)?;
    let invitation = Invitation { address: server.address(), nonce, secret };
    let house = House { server: Some(server), last: Mutex::default() };
    lock(&HOUSES).insert(nonce, Arc::new(house));
    Ok(invitation.write())
}

/// Where to listen: where the environment says, or where only this host reaches.
fn place() -> Result<SocketAddr> {
    let said = |name| std::env::var(name).ok().filter(|text| !text.trim().is_empty());
    if let Some(address) = said("NCCL_COMM_ID") {
        let found = address.trim().to_socket_addrs().ok().and_then(|mut found| found.next());
        return found.ok_or_else(|| {
            Failure::usage(format!(
                "NCCL_COMM_ID is {address:?}, and has to be a host or an address, and a port"
            ))
        });
    }
    let wanted = match said("CONSORT_INTERFACE") {
        Some(interface) => Some(interface),
        None => said("NCCL_SOCKET_IFNAME").map(|wish| interface_like(&wish)).transpose()?,
    };
    let choice = net::choose(None, wanted.as_deref())
        .map_err(|error| Failure::from(consort::Error::from(error)))?;
    Ok(choice.socket(0))
}

/// The first interface of this host that NCCL would take: names in a list begin with what is asked for, or are
/// it after `=`, or are none of it after `^`.
fn interface_like(wish: &str) -> Result<String> {
    let interfaces = net::interfaces()
        .map_err(|error| Failure::system(format!("cannot list the network interfaces: {error}")))?;
    let names: Vec<&str> = interfaces.iter().map(|interface| interface.name.as_str()).collect();
    match chosen(wish, &names) {
        Some(name) => Ok(name.to_owned()),
        None => Err(Failure::usage(format!(
            "NCCL_SOCKET_IFNAME is {wish:?}, and the interfaces of this host are {}",
            names.join(", ")
        ))),
    }
}

fn chosen<'a>(wish: &str, names: &[&'a str]) -> Option<&'a str> {
    let (excludes, wish) = wish.strip_prefix('^').map_or((false, wish), |rest| (true, rest));
    let (exact, wish) = wish.strip_prefix('=').map_or((false, wish), |rest| (true, rest));
    let wishes: Vec<&str> = wish.split(',').map(str::trim).filter(|it| !it.is_empty()).collect();
    let fits = |name: &str| {
        wishes.iter().any(|wish| if exact { name == *wish } else { name.starts_with(wish) })
    };
    let is_loopback = |name: &str| name == "lo";
    names.iter().copied().find(|name| fits(name) != excludes && !(excludes && is_loopback(name)))
}

/// Meets the other ranks of an id.
///
/// # Errors
/// When it is none, or they do not come.
pub(crate) fn meet(id: &UniqueId, rank: u32, world: u32) -> Result<Bond> {
    let invitation = Invitation::read(id)?;
    let house = lock(&HOUSES).get(&invitation.nonce).cloned();
    let mut builder = Builder::for_rank(rank, world)?
        .job(invitation.job())
        .epoch(0)
        .secret(invitation.secret.clone())
        // It may be the program's wish for its own groups, which come to their devices by this library.
        .engine(Engine::Host);
    if is_recorded() {
        builder = builder.trace_in_memory();
    }
    if world > 1 {
        builder = builder.address(&format!("tcp://{}", invitation.address))?;
    }
    let group = builder.init()?;
    // All have come: who holds the store is now held by its ranks.
    lock(&HOUSES).remove(&invitation.nonce);
    let house = match is_second(&group, house.is_some())? {
        // Without it the ranks depend on the one that holds the store, which most survive.
        true => follow(&invitation, &group).ok().map(Arc::new),
        false => house,
    };
    let store = group.store().clone();
    let membership = Membership { house, store, world: i64::from(world) };
    Ok(Bond { group, membership: Arc::new(membership) })
}

/// Whether this process leaves a record in the folder for them already: that of the group which has come to its
/// devices by this library, or of another communicator.
fn is_recorded() -> bool {
    let folder = std::env::var_os("CONSORT_TRACE_DIR").and_then(|it| fs::canonicalize(it).ok());
    let (Some(folder), Ok(open)) = (folder, fs::read_dir("/proc/self/fd")) else { return false };
    let mut files = open.flatten().filter_map(|it| fs::read_link(it.path()).ok());
    files.any(|file| file.parent() == Some(&folder))
}

/// Whether this rank is to have the standby: the first one that is in another process than the store.
fn is_second(group: &Group, holds: bool) -> Result<bool> {
    let mut holders = vec![false; group.world()];
    group.all_gather(&[holds], &mut holders)?;
    let members = group.members();
    let process = |member: &Member| (member.host.clone(), member.process);
    let first = holders.iter().position(|holds| *holds).map(|rank| process(&members[rank]));
    let second = members.iter().find(|member| Some(process(member)) != first);
    Ok(second.is_some_and(|second| second.rank == group.rank() && group.world() > 1))
}

/// A standby of the store.
fn follow(invitation: &Invitation, group: &Group) -> Result<House> {
    let here = group.members()[group.rank().index()].address;
    let listener = Server::listen(SocketAddr::new(here, 0))?;
    let dial = Dial::new(invitation.address, &invitation.secret).named("standby");
    let until = Deadline::after(TO_FOLLOW);
    let server = Server::follow(Duration::ZERO, listener, &dial, until)?;
    // It takes a moment to have all that the first one has.
    while server.role() == (Role::Follows { ready: false }) && !until.has_passed() {
        thread::sleep(Duration::from_millis(1));
    }
    Ok(House { server: Some(server), last: Mutex::default() })
}

/// A rank's part in a meeting: shared by all communicators that come of it.
#[derive(Debug)]
pub(crate) struct Membership {
    /// The store, if this process holds it.
    house: Option<Arc<House>>,
    store: Arc<dyn Store>,
    world: i64,
}

impl Membership {
    /// The same, for a group that comes of this one's.
    pub(crate) fn bond(self: &Arc<Self>, group: Group) -> Bond {
        Bond { group, membership: self.clone() }
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let left = Request::Add { key: LEFT, delta: 1 };
        let told = self.store.call(&left, Deadline::after(HASTE));
        if let (Some(house), Ok(_)) = (&self.house, told) {
            *lock(&house.last) = Some((self.store.clone(), self.world));
        }
    }
}

/// A store that this process holds.
#[derive(Debug)]
struct House {
    server: Option<Server>,
    /// The last of this process's ranks to leave it: how it asks, and how many ranks there are.
    last: Mutex<Option<(Arc<dyn Store>, i64)>>,
}

impl Drop for House {
    /// Whoever holds the store leaves last, so that the others can leave in order; and if they take long, it
    /// goes on for them while the process does.
    fn drop(&mut self) {
        let server = self.server.take();
        let Some((store, world)) = lock(&self.last).take() else { return };
        if have_left(&*store, world, Deadline::after(LINGER)) {
            return;
        }
        let wait = move || {
            have_left(&*store, world, Deadline::never());
            drop(server);
        };
        // Without a thread they have to do without the store.
        let _ = thread::Builder::new().name("consort-nccl".to_owned()).spawn(wait);
    }
}

/// Waits until all ranks have left, or the store has.
fn have_left(store: &dyn Store, world: i64, until: Deadline) -> bool {
    let mut left = Vec::new();
    loop {
        left = match store.get_changed(LEFT, &left, until) {
            Ok(left) => left,
            Err(StoreError::Timeout { .. }) => return false,
            Err(_) => return true,
        };
        let count = std::str::from_utf8(&left).ok().and_then(|left| left.parse::<i64>().ok());
        if count.is_none_or(|count| count >= world) {
            return true;
        }
    }
}

/// Keeps stores as they are until what it gives is dropped: see [`fork`](crate::fork).
pub(crate) fn hold_all() -> Box<dyn Any> {
    Box::new(lock(&HOUSES))
}

/// The stores of ids whose ranks have not met yet.
static HOUSES: Mutex<BTreeMap<[u8; 16], Arc<House>>> = Mutex::new(BTreeMap::new());
const LEFT: &str = "consort-nccl/left";
/// How long a rank that leaves waits for the store.
const HASTE: Duration = Duration::from_secs(1);
/// How long it may take to have a standby.
const TO_FOLLOW: Duration = Duration::from_secs(5);
/// How long the process that holds the store waits for the others to leave.
const LINGER: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_chosen_as_nccl_does() {
        let names = ["lo", "eth0", "eth1", "ib0"];
        let cases = [
            ("eth", Some("eth0")),
            ("=eth1", Some("eth1")),
            ("=eth", None),
            ("ib,eth", Some("eth0")),
            ("^eth", Some("ib0")),
            ("^=eth0", Some("eth1")),
            ("wlan", None),
        ];
        for (wish, name) in cases {
            assert_eq!(chosen(wish, &names), name, "{wish}");
        }
    }
}
