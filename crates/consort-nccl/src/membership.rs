//! The meeting that a communicator comes from, and the store that its ranks meet in.
//!
//! The process that makes an id holds the store. Nobody needs it for calls, but ranks that make a communicator
//! smaller meet there again; so it is held until all ranks have left, and no shorter than its process has
//! ranks of its own in it. As that process may be the one that dies, another has a standby of the store.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use consort::{Builder, Deadline, Engine, Group, Member, Secret, Store, StoreError};
use consort_store::{Dial, Request, Role, Server};
use consort_sys::net;
use consort_sys::origin::PerProcess;

use crate::comm::Bond;
use crate::failure::{Failure, Result};
use crate::id::{Invitation, UniqueId};
use crate::lock;
use crate::record::Record;

/// A new id, whose store this process holds.
///
/// # Errors
/// When there is no address or port for it.
pub(crate) fn invite() -> Result<UniqueId> {
    let (invitation, house) = open_house()?;
    lock(HOUSES.here()).insert(invitation.nonce, house);
    Ok(invitation.write())
}

/// A new store that this process holds, and what leads there.
///
/// # Errors
/// As [`invite`].
pub(crate) fn open_house() -> Result<(Invitation, Arc<House>)> {
    let secret = Secret::generate()?;
    let mut nonce = [0; 16];
    getrandom::fill(&mut nonce)
        .map_err(|error| Failure::system(format!("the system gives no random numbers: {error}")))?;
    let listener = Server::listen(place()?)?;
    let server = Server::from_listener(listener, &secret)?;
    let invitation = Invitation { address: server.address(), nonce, secret };
    let house = House { server: Mutex::new(Some(server)), last: Mutex::default() };
    Ok((invitation, Arc::new(house)))
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
    let house = lock(HOUSES.here()).get(&invitation.nonce).cloned();
    let began = Instant::now();
    match come(&invitation, house, rank, world) {
        Ok(bond) => {
            // All have come: who holds the store is now held by its ranks.
            lock(HOUSES.here()).remove(&invitation.nonce);
            Ok(bond)
        }
        Err(error) => {
            if is_over(&error) {
                give_up(&invitation, began.elapsed());
            }
            Err(why_not(error))
        }
    }
}

/// Comes to the store and meets the others there. It is in that house, if this process holds it.
///
/// # Errors
/// When they do not come.
pub(crate) fn come(
    invitation: &Invitation,
    house: Option<Arc<House>>,
    rank: u32,
    world: u32,
) -> Result<Bond, consort::Error> {
    let record = Record::of(invitation.nonce);
    let group = join(invitation, &record, rank, world)?;
    let house = match is_second(&group, house.is_some())? {
        true => Some(follow(invitation.clone(), &group)),
        false => house,
    };
    let store = group.store().clone();
    let membership = Membership { house, store, world: i64::from(world), _record: record };
    Ok(Bond { group, membership: Arc::new(membership) })
}

/// The group of an id's ranks.
fn join(
    invitation: &Invitation,
    record: &Record,
    rank: u32,
    world: u32,
) -> Result<Group, consort::Error> {
    let mut builder = Builder::for_rank(rank, world)?
        .job(invitation.job())
        .epoch(0)
        .secret(invitation.secret.clone())
        // It may be the program's wish for its own groups, which come to their devices by this library.
        .engine(Engine::Host);
    if !record.is_in_folder() {
        builder = builder.trace_in_memory();
    }
    if world > 1 {
        builder = builder.address(&format!("tcp://{}", invitation.address))?;
    }
    builder.init()
}

/// Whether a meeting has failed so that nobody meets by the id any more. A rank that was refused before it came to the
/// others, or because another has come as this rank, has ended it for nobody.
fn is_over(error: &consort::Error) -> bool {
    use consort::ErrorKind::{Aborted, Deadline, Mismatch, PeerGone};
    matches!(error.kind(), Deadline | PeerGone | Aborted | Mismatch)
}

/// Gives up the store of a meeting that has failed, if this process holds it. Ranks of this process that are still at it
/// keep it themselves; those of others hear there who has not come. They have given up, too, when they have waited as
/// long as this one.
fn give_up(invitation: &Invitation, waited: Duration) {
    let Some(house) = lock(HOUSES.here()).remove(&invitation.nonce) else { return };
    let wait = move || {
        thread::sleep(waited);
        drop(house);
    };
    // Without a thread they hear that the store is gone.
    let _ = thread::Builder::new().name("consort-nccl".to_owned()).spawn(wait);
}

/// What is told of a meeting that has failed.
pub(crate) fn why_not(error: consort::Error) -> Failure {
    match error {
        consort::Error::Twice { rank, .. } => Failure::usage(format!(
            "this process has come to the meeting of this id as rank {rank} before: an id is good for one meeting"
        )),
        consort::Error::Store(StoreError::Unreachable { .. }) => {
            let failure = Failure::from(error);
            let text = format!(
                "{}; the process that made the id has ended or stands still, has given its meeting up, or cannot be \
                 reached from here: an id is good for one meeting",
                failure.text
            );
            Failure { text, ..failure }
        }
        error => error.into(),
    }
}

/// Whether this rank is to have the standby: the first one that is in another process than the store.
fn is_second(group: &Group, holds: bool) -> Result<bool, consort::Error> {
    let mut holders = vec![false; group.world()];
    group.all_gather(&[holds], &mut holders)?;
    let members = group.members();
    let process = |member: &Member| (member.host.clone(), member.process);
    let first = holders.iter().position(|holds| *holds).map(|rank| process(&members[rank]));
    let second = members.iter().find(|member| Some(process(member)) != first);
    Ok(second.is_some_and(|second| second.rank == group.rank() && group.world() > 1))
}

/// Begins to have a standby of the store. As a rule it is there when this returns; but it is for later, and whoever holds the
/// store may be stuck or gone already, so that this rank's first call does not wait for it.
fn follow(invitation: Invitation, group: &Group) -> Arc<House> {
    let house = Arc::new(House::default());
    let (later, here) = (house.clone(), group.members()[group.rank().index()].address);
    let (tell, told) = mpsc::channel();
    let body = move || {
        // Without it the ranks depend on the one that holds the store, which most survive.
        *lock(&later.server) = stand_by(&invitation, here).ok();
        let _ = tell.send(());
    };
    // If there is no thread, it is told at once that nothing comes.
    let _ = thread::Builder::new().name("consort-standby".to_owned()).spawn(body);
    let _ = told.recv_timeout(A_MOMENT);
    house
}

/// A standby of the store, which listens at this address.
fn stand_by(invitation: &Invitation, here: IpAddr) -> Result<Server> {
    let listener = Server::listen(SocketAddr::new(here, 0))?;
    let dial = Dial::new(invitation.address, &invitation.secret).named("standby");
    let until = Deadline::after(TO_FOLLOW);
    let server = Server::follow(Duration::ZERO, listener, &dial, until)?;
    // It takes a moment to have all that the first one has.
    while server.role() == (Role::Follows { ready: false }) && !until.has_passed() {
        thread::sleep(Duration::from_millis(1));
    }
    Ok(server)
}

/// A rank's part in a meeting: shared by all communicators that come of it.
#[derive(Debug)]
pub(crate) struct Membership {
    /// The store, if this process holds it.
    house: Option<Arc<House>>,
    store: Arc<dyn Store>,
    world: i64,
    /// The next meeting's turn comes when all ranks here have left this one.
    _record: Arc<Record>,
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
#[derive(Debug, Default)]
pub(crate) struct House {
    /// None before there is a standby, or if there never is, and when it was ended.
    server: Mutex<Option<Server>>,
    /// The last of this process's ranks to leave it: how it asks, and how many ranks there are.
    last: Mutex<Option<(Arc<dyn Store>, i64)>>,
}

impl House {
    /// Ends the store, whoever is there.
    pub(crate) fn end(&self) {
        let server = lock(&self.server).take();
        drop(server);
    }
}

impl Drop for House {
    /// Whoever holds the store leaves last, so that the others can leave in order; and if they take long, it
    /// goes on for them while the process does.
    fn drop(&mut self) {
        let Some(server) = lock(&self.server).take() else { return };
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

/// The stores of ids whose ranks have not met yet. A forked child that has such an id is a rank like others: the store is
/// its parent's.
static HOUSES: PerProcess<Mutex<BTreeMap<[u8; 16], Arc<House>>>> = PerProcess::new(Mutex::default);
const LEFT: &str = "consort-nccl/left";
/// How long a rank that leaves waits for the store.
const HASTE: Duration = Duration::from_secs(1);
/// How long it may take to have a standby.
const TO_FOLLOW: Duration = Duration::from_secs(5);
/// How long a rank waits for its standby before it goes on: longer than it takes to have one that comes.
const A_MOMENT: Duration = Duration::from_millis(100);
/// How long the process that holds the store waits for the others to leave.
const LINGER: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_kept_waiting_for_a_standby_of_a_store_that_does_not_answer() {
        let silent = Server::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = silent.local_addr().unwrap();
        let invitation =
            Invitation { address, nonce: [0; 16], secret: Secret::generate().unwrap() };
        let group = Builder::new().rank(0).world(1).init().unwrap();
        let began = Instant::now();
        let house = follow(invitation, &group);
        assert!(lock(&house.server).is_none());
        drop(house);
        assert!(began.elapsed() < TO_FOLLOW / 2, "{:?}", began.elapsed());
    }

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
