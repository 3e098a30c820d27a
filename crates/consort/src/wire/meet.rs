//! How the processes of a job find each other's doors.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use consort_store::{Error as StoreError, Secret, Store};
use consort_sys::socket;
use serde::{Deserialize, Serialize};

use super::door::Door;
use super::peer::{Peer, Role};
use super::porter::Porter;
use super::signal::Signal;
use super::tuning::Tuning;
use super::{Hub, Switch, Wire};
use crate::error::{Error, Result};
use crate::neighbourhood::{Hatches, Round};
use crate::options::Options;
use crate::verdict::{decode, encode, name_absent};

/// What the first rank of a host tells the others.
#[derive(Debug, Serialize, Deserialize)]
struct Entrance {
    address: SocketAddr,
    /// Whether the port is the one that the job was given, which firewalls let through.
    is_known: bool,
    /// From rank 0: what nobody knows who is not in this round of the job.
    secret: Option<String>,
}

/// Where a rank listens, and who it is.
#[derive(Debug)]
pub(crate) struct Site<'a> {
    pub(crate) me: u32,
    /// For every rank of the world, the first that is on the same host.
    pub(crate) firsts: Vec<u32>,
    pub(crate) epoch: u64,
    /// Under which address this host is reached.
    pub(crate) address: IpAddr,
    /// The store's port, which firewalls let through, if this host may have it.
    pub(crate) port: Option<u16>,
    /// How many cores this host has, as all of its ranks believe.
    pub(crate) cores: usize,
    pub(crate) liveness: Duration,
    pub(crate) options: &'a Options,
}

/// Tells everyone where this host's door is, and hears where theirs are. Nobody is connected yet.
///
/// The first rank of a host listens, and hands the socket to the others, which listen with it.
///
/// # Errors
/// When there is no port, when a rank tells nothing in time, or nonsense.
pub(crate) fn meet(
    site: &Site<'_>,
    hatches: Option<Hatches>,
    meeting: &dyn Store,
    round: &Round<'_>,
) -> Result<Wire> {
    let mine = if site.is_first(site.me) {
        let (listener, entrance) = open(site, hatches.as_ref())?;
        meeting.set(&key(site.me), &encode(&entrance))?;
        Some(listener)
    } else {
        None
    };
    let entrances = hear(site, meeting, round)?;
    let listener = match (mine, &hatches) {
        // It lies there since before its address was told.
        (None, Some(hatches)) => {
            hatches.mine.take().map_err(|error| Error::Port(error.into()))?.map(TcpListener::from)
        }
        (mine, _) => mine,
    };
    let nothing = || io::Error::other("the first rank of this host did not hand on its socket");
    let listener = listener.ok_or_else(|| Error::Port(nothing().into()))?;
    let secret = entrances[&0].secret.as_deref().and_then(|hex| hex.parse().ok());
    let secret = secret.ok_or_else(|| Error::Argument("rank 0 told no secret".to_owned()))?;
    let entrance = |rank: u32| &entrances[&site.firsts[rank as usize]];
    let is_known = |rank: u32| entrance(rank).is_known;
    let is_short_of_cores = site.has_more_ranks_than_cores();
    let peer = |rank: u32| {
        let role = role((site.me, is_known(site.me)), (rank, is_known(rank)));
        let is_here = site.firsts[rank as usize] == site.firsts[site.me as usize];
        Peer::new(site.me, rank, entrance(rank).address, role, is_here && !is_short_of_cores)
    };
    let peers = (0..site.firsts.len() as u32).map(peer).collect();
    let door = Door::new(site.me, listener, hatches);
    let (stations, left) = Default::default();
    let wished = site.options.streams.map(|streams| usize::from(streams.get()));
    // Where cores are few, more connections only have more to be looked at.
    let tuning = Tuning::new(wished.or(is_short_of_cores.then_some(1)));
    let hub =
        Hub { peers, stations, door, left, mourned: Vec::new(), tuning, dozing: 0, glance: 1 };
    let switch = Arc::new(Switch {
        me: site.me,
        epoch: site.epoch & u64::from(u32::MAX),
        cores: site.cores,
        secret,
        liveness: site.liveness,
        encrypt: site.options.encrypt,
        integrity: site.options.integrity,
        signal: Signal::new().map_err(|error| Error::Port(error.into()))?,
        hub: Mutex::new(hub),
    });
    let porter = Porter::hire(&switch).map_err(|error| Error::Thread(error.into()))?;
    Ok(Wire { switch, porter })
}

impl Site<'_> {
    fn has_more_ranks_than_cores(&self) -> bool {
        let first = self.firsts[self.me as usize];
        self.firsts.iter().filter(|&&it| it == first).count() > self.cores
    }

    fn is_first(&self, rank: u32) -> bool {
        self.firsts[rank as usize] == rank
    }
}

/// The first rank's part: listens for all of its host.
fn open(site: &Site<'_>, hatches: Option<&Hatches>) -> Result<(TcpListener, Entrance)> {
    let (listener, is_known) = listen(site)?;
    let address = listener.local_addr().map_err(|error| Error::Port(error.into()))?;
    for (rank, chute) in hatches.iter().flat_map(|hatches| &hatches.others) {
        if let Err(error) = chute.hand(&listener) {
            // Who waits for it finds out whether it is gone; the others need not know.
            tracing::warn!("rank {rank} cannot be given the data port: {error}");
        }
    }
    let secret = (site.me == 0).then(Secret::generate).transpose()?;
    let secret = secret.map(|secret| secret.to_hex());
    Ok((listener, Entrance { address, is_known, secret }))
}

/// What the first rank of every host has told.
fn hear(
    site: &Site<'_>,
    meeting: &dyn Store,
    round: &Round<'_>,
) -> Result<BTreeMap<u32, Entrance>> {
    let ranks: Vec<u32> =
        (0..site.firsts.len() as u32).filter(|&rank| site.is_first(rank)).collect();
    let keys: Vec<String> = ranks.iter().copied().map(key).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let mut entrances = BTreeMap::new();
    let begun = Instant::now();
    let told = match round.await_keys(&keys) {
        Err(Error::Store(StoreError::Timeout { .. })) => {
            let is_missing = |rank: &u32| !matches!(meeting.check(&[&key(*rank)]), Ok(true));
            let missing = name_absent(ranks.iter().copied().filter(is_missing));
            return Err(Error::Missing {
                rank: site.me,
                world: site.firsts.len() as u32,
                waited: begun.elapsed(),
                missing: missing.unwrap_or_else(|| "nobody in the end, but too late".to_owned()),
            });
        }
        told => told?,
    };
    for (rank, told) in ranks.into_iter().zip(told) {
        let nonsense = |what| Error::Argument(format!("what rank {rank} told of its door {what}"));
        entrances.insert(rank, decode(&told).map_err(nonsense)?);
    }
    Ok(entrances)
}

/// What a rank does about connections between itself and another: they go to a port that is known to be
/// open if there is only one, otherwise the lower rank opens them.
fn role((me, is_known): (u32, bool), (other, other_is_known): (u32, bool)) -> Role {
    match (is_known, other_is_known) {
        (false, true) => Role::Dials,
        (true, false) => Role::Hopes,
        _ if me < other => Role::Dials,
        _ => Role::LetsDial,
    }
}

/// Listens on the port that firewalls let through, if it is to be had.
fn listen(site: &Site<'_>) -> Result<(TcpListener, bool)> {
    let bind = |port| {
        let listener = TcpListener::bind(SocketAddr::new(site.address, port))?;
        listener.set_nonblocking(true)?;
        // More than usual: it is one for all ranks of the host.
        rustix::net::listen(&listener, BACKLOG)?;
        if let Err(error) = socket::accept_who_speaks(&listener, SILENCE) {
            tracing::debug!("the data port takes in who says nothing: {error}");
        }
        Ok(listener)
    };
    let taken = |port, error: io::Error| {
        Error::Port(io::Error::new(error.kind(), format!("{port} cannot be had: {error}")).into())
    };
    match (site.options.port, site.port) {
        (Some(0), _) | (None, None) => {}
        (Some(port), _) => {
            return bind(port).map(|it| (it, true)).map_err(|error| taken(port, error));
        }
        (None, Some(port)) => match bind(port) {
            Ok(listener) => return Ok((listener, true)),
            Err(error) => {
                tracing::warn!("port {port} cannot be had for data ({error}): any is taken");
            }
        },
    }
    bind(0).map(|listener| (listener, false)).map_err(|error| Error::Port(error.into()))
}

fn key(rank: u32) -> String {
    format!("wire/{rank}")
}

/// How many seconds the system keeps those who connect to the data port and say nothing.
const SILENCE: u16 = 10;
/// How many may wait to be accepted. The kernel takes less if its limit is less.
const BACKLOG: i32 = 4096;
