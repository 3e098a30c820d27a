//! The meeting itself: find the store, show cards, compare them.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use consort_store::auth::PROTOCOL_VERSION;
use consort_store::{
    Deadline, Dial, Error as StoreError, FileStore, MemStore, Missing, Place, PrefixStore, Secret,
    Server, Store, Swap, TcpStore,
};
use consort_sys::host::HostId;
use consort_sys::net::{Choice, choose};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

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

/// Shows this rank's card and hears the verdict, with everyone's cards if they agree.
///
/// Rank 0 judges for all: it takes the cards as they come, so that ranks which disagree about the
/// world find out at once instead of waiting for ranks that do not exist.
fn exchange(
    invitation: &Invitation,
    meeting: &Arc<dyn Store>,
    address: IpAddr,
    until: Deadline,
) -> Result<Vec<Card>> {
    let Invitation { rank, world, .. } = *invitation;
    let started = Instant::now();
    let mine = Card {
        same: must_be_the_same(invitation),
        host: HostId::here().map_err(Error::Host)?,
        address,
        process: std::process::id(),
    };
    if !matches!(meeting.compare_set(&place_of(rank), None, &encode(&mine))?, Swap::Swapped) {
        return Err(StoreError::RankTaken { rank, occasion: "the meeting".to_owned() }.into());
    }
    let verdict = match rank {
        0 => judge(world, meeting, until)?,
        _ => hear_verdict(world, meeting, until)?,
    };
    match verdict {
        Verdict::Agreed(cards) => Ok(cards),
        Verdict::Differs(differences) => Err(Error::Differs { rank, differences }),
        Verdict::Missing(missing) => {
            let missing = missing.to_string();
            Err(Error::Missing { rank, world, waited: started.elapsed(), missing })
        }
    }
}

/// What rank 0 found.
#[derive(Debug, Serialize, Deserialize)]
enum Verdict {
    Agreed(Vec<Card>),
    Differs(String),
    Missing(Missing),
}

fn judge(world: u32, meeting: &Arc<dyn Store>, until: Deadline) -> Result<Verdict> {
    let verdict = match take_cards(world, meeting, until)? {
        Err(unreadable) => Verdict::Differs(unreadable),
        Ok(cards) => weigh(world, cards),
    };
    meeting.set(VERDICT, &encode(&verdict))?;
    Ok(verdict)
}

fn weigh(world: u32, cards: BTreeMap<u32, Card>) -> Verdict {
    if let Some(differences) = differences(&cards) {
        return Verdict::Differs(differences);
    }
    let absent: Vec<u32> = (0..world).filter(|rank| !cards.contains_key(rank)).collect();
    match absent.is_empty() {
        true => Verdict::Agreed(cards.into_values().collect()),
        false => Verdict::Missing(name(&absent)),
    }
}

/// The cards of all who come until the deadline. Once it is clear that they differ nobody is
/// waited for any more, but all who are here are shown.
fn take_cards(
    world: u32,
    meeting: &Arc<dyn Store>,
    mut until: Deadline,
) -> Result<Result<BTreeMap<u32, Card>, String>> {
    let mut cards: BTreeMap<u32, Card> = BTreeMap::new();
    for rank in 0..world {
        let bytes = match meeting.get(&place_of(rank), until) {
            Ok(bytes) => bytes,
            Err(StoreError::Timeout { missing, .. }) if missing.count > 0 => continue,
            Err(other) => return Err(other.into()),
        };
        let card: Card = match decode(&bytes) {
            Ok(card) => card,
            Err(reason) => {
                return Ok(Err(format!("  consort version: rank {rank}'s card {reason}")));
            }
        };
        if cards.first_key_value().is_some_and(|(_, first)| first.same != card.same) {
            until = until.min(Deadline::after(LAST_LOOK));
        }
        cards.insert(rank, card);
    }
    Ok(Ok(cards))
}

/// Everyone else's part. Rank 0's word comes a little after the deadline if ranks are missing; if
/// it does not come at all, rank 0 is one of them.
fn hear_verdict(world: u32, meeting: &Arc<dyn Store>, until: Deadline) -> Result<Verdict> {
    let later = until.instant().map_or(Deadline::never(), |at| Deadline::at(at + LAST_LOOK));
    match meeting.get(VERDICT, later) {
        Ok(bytes) => Ok(decode(&bytes).unwrap_or_else(|reason| {
            Verdict::Differs(format!("  consort version: rank 0's verdict {reason}"))
        })),
        Err(StoreError::Timeout { missing, .. }) if missing.count > 0 => {
            let mut absent = Vec::new();
            for rank in 0..world {
                if !meeting.check(&[&place_of(rank)])? {
                    absent.push(rank);
                }
            }
            Ok(Verdict::Missing(name(&absent)))
        }
        Err(other) => Err(other.into()),
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

fn member(rank: u32, Card { host, address, process, .. }: Card) -> Member {
    Member { rank: Rank(rank), host, address, process }
}

fn name(ranks: &[u32]) -> Missing {
    Missing::collect(ranks.iter().map(|rank| format!("rank {rank}")))
}

fn place_of(rank: u32) -> String {
    format!("card/{rank}")
}

fn encode(value: &impl Serialize) -> Vec<u8> {
    postcard::to_allocvec(value).expect("memory can be extended")
}

/// What cannot be read was written by a version that writes it differently.
fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    postcard::from_bytes(bytes).map_err(|error| format!("cannot be read here ({error})"))
}

/// What this build can do that another might not.
const FEATURES: [&str; 1] = ["meeting"];
const LEFT: &str = "left";
const VERDICT: &str = "verdict";
/// What rank 0 takes to look round once more before it gives its verdict.
const LAST_LOOK: Duration = Duration::from_secs(1);
const LINGER: Duration = Duration::from_secs(2);
