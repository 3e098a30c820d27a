//! The meeting itself: find the store, show cards, compare them.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use consort_store::auth::PROTOCOL_VERSION;
use consort_store::{
    Deadline, Dial, Error as StoreError, Exchange, FileStore, MemStore, Place, PrefixStore, Secret,
    Server, Store, Swap, TcpStore,
};
use consort_sys::host::HostId;
use consort_sys::net::{Choice, choose};

use crate::builder::Invitation;
use crate::card::{Card, differences};
use crate::duration;
use crate::error::{Error, Result};
use crate::group::{Group, Member, Rank};

/// Meets the other ranks as the invitation says.
pub(crate) fn hold(invitation: &Invitation) -> Result<Group> {
    let until = Deadline::after(invitation.timeout);
    let Venue { store, server, peer } = open(invitation, until)?;
    let choice = choose(peer, invitation.interface.as_deref())?;
    let Choice { interface, address, reason, .. } = &choice;
    tracing::info!(rank = invitation.rank, "using {interface} ({address}): {reason}");

    let round = format!("{}/{}", invitation.job, invitation.epoch);
    let round: Arc<dyn Store> = Arc::new(PrefixStore::new(&round, store));
    let meeting: Arc<dyn Store> = Arc::new(PrefixStore::new("meeting", round.clone()));
    // From here on even a failed meeting is left in order.
    let world = i64::from(invitation.world);
    let exit = Exit { meeting: meeting.clone(), world, server };
    let cards = exchange(invitation, &meeting, choice.address, until)?;
    let members = (0..).zip(cards).map(|(rank, card)| member(rank, card)).collect();
    Ok(Group {
        rank: Rank(invitation.rank),
        job: invitation.job.clone(),
        epoch: invitation.epoch,
        members,
        store: Arc::new(PrefixStore::new("program", round)),
        timeout: invitation.timeout,
        exit,
    })
}

/// How a rank leaves its group.
#[derive(Debug)]
pub(crate) struct Exit {
    meeting: Arc<dyn Store>,
    world: i64,
    /// Rank 0's, if no launcher holds the store: the store ends with this process.
    server: Option<Server>,
}

impl Drop for Exit {
    /// Whoever holds the store leaves last, so that the others' last words can still be heard;
    /// but it does not wait long for those who may have died.
    fn drop(&mut self) {
        let Ok(mut left) = self.meeting.add(LEFT, 1) else { return };
        let until = Deadline::after(LINGER);
        while self.server.is_some() && left < self.world {
            match self.meeting.get_changed(LEFT, left.to_string().as_bytes(), until) {
                Ok(_) => left = self.meeting.add(LEFT, 0).unwrap_or(self.world),
                Err(_) => return,
            }
        }
    }
}

/// Where the meeting takes place.
struct Venue {
    store: Arc<dyn Store>,
    /// If this process has to hold the store.
    server: Option<Server>,
    /// Somebody who must be reachable, if one is known.
    peer: Option<SocketAddr>,
}

fn open(invitation: &Invitation, until: Deadline) -> Result<Venue> {
    let local = |store: Arc<dyn Store>| Venue { store, server: None, peer: None };
    match (&invitation.place, &invitation.secret) {
        (None, _) => Ok(local(Arc::new(MemStore::new()))),
        (Some(Place::File(path)), _) => Ok(local(Arc::new(FileStore::open(path)?))),
        (Some(place @ Place::Tcp { host, port }), Some(secret)) => {
            let endpoint = place.endpoint().expect("a server has an endpoint");
            let server = match invitation.rank {
                0 => serve(host, *port, secret)?,
                _ => None,
            };
            let name = format!("rank {}", invitation.rank);
            let store = TcpStore::dial(Dial::new(endpoint, secret).named(name), until)?;
            let peer = Some(store.peer_address());
            Ok(Venue { store: Arc::new(store), server, peer })
        }
        (Some(Place::Tcp { .. }), None) => unreachable!("an invitation over TCP has a secret"),
    }
}

/// Rank 0 holds the store unless somebody does already: the launcher, then.
fn serve(host: &str, port: u16, secret: &Secret) -> Result<Option<Server>> {
    let addresses = (host, port).to_socket_addrs().map(Vec::from_iter).unwrap_or_default();
    for address in addresses {
        match Server::start(address, secret) {
            Ok(server) => return Ok(Some(server)),
            Err(StoreError::Listen { source, .. }) if is_elsewhere(&source) => {}
            Err(other) => return Err(other.into()),
        }
    }
    Ok(None)
}

/// The port is somebody's already, or the address another host's.
fn is_elsewhere(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable)
}

/// Shows this rank's card, takes everyone's, and compares them.
fn exchange(
    invitation: &Invitation,
    meeting: &Arc<dyn Store>,
    address: IpAddr,
    until: Deadline,
) -> Result<Vec<Card>> {
    let Invitation { rank, world, .. } = *invitation;
    let mine = Card {
        same: must_be_the_same(invitation),
        host: HostId::here().map_err(Error::Host)?,
        address,
        process: std::process::id(),
    };
    let agreed = agree_on_world(invitation, meeting)?;
    let bytes = postcard::to_allocvec(&mine).expect("memory can be extended");
    let gathered = Exchange::new(meeting.clone(), rank, agreed).all_gather("card", &bytes, until);
    let gathered = gathered.map_err(|error| match error {
        StoreError::Timeout { waited, missing, .. } if missing.count > 0 => {
            Error::Missing { rank, world, waited, missing: missing.to_string() }
        }
        other => other.into(),
    })?;
    let cards = gathered.iter().enumerate().map(|(from, bytes)| read_card(rank, from, bytes));
    let cards: Vec<Card> = cards.collect::<Result<_>>()?;
    match differences(&cards) {
        Some(differences) => Err(Error::Differs { rank, differences }),
        None => Ok(cards),
    }
}

/// The first to come says how many meet. Ranks that think otherwise still show their cards, so
/// that everyone sees the difference instead of waiting for ranks that do not exist.
fn agree_on_world(invitation: &Invitation, meeting: &Arc<dyn Store>) -> Result<u32> {
    let Invitation { rank, world, .. } = *invitation;
    let mine = world.to_string();
    let first = match meeting.compare_set("world", None, mine.as_bytes())? {
        Swap::Differs(first) => String::from_utf8_lossy(&first).into_owned(),
        _ => mine,
    };
    match first.parse() {
        Ok(agreed) if rank < agreed => Ok(agreed),
        _ => {
            let differences = format!("  world: {first} on the first rank to come, {world} here");
            Err(Error::Differs { rank, differences })
        }
    }
}

fn must_be_the_same(invitation: &Invitation) -> BTreeMap<String, String> {
    let rows = [
        ("consort version", env!("CARGO_PKG_VERSION").to_owned()),
        ("protocol version", PROTOCOL_VERSION.to_string()),
        ("features", FEATURES.join(" ")),
        ("world", invitation.world.to_string()),
        ("timeout", duration::write(invitation.timeout)),
        ("liveness", duration::write(invitation.liveness)),
    ];
    rows.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A card that cannot be read is one of a version that wrote it differently.
fn read_card(rank: u32, from: usize, bytes: &[u8]) -> Result<Card> {
    postcard::from_bytes(bytes).map_err(|error| Error::Differs {
        rank,
        differences: format!("  consort version: rank {from}'s card cannot be read here ({error})"),
    })
}

fn member(rank: u32, Card { host, address, process, .. }: Card) -> Member {
    Member { rank: Rank(rank), host, address, process }
}

/// What this build can do that another might not.
const FEATURES: [&str; 1] = ["meeting"];
const LEFT: &str = "left";
const LINGER: Duration = Duration::from_secs(2);
