//! How the processes of a job find each other's doors.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

use consort_store::{Deadline, Secret, Store};
use serde::{Deserialize, Serialize};

use super::door::Door;
use super::peer::Peer;
use super::signal::Signal;
use super::{Hub, Wire};
use crate::error::{Error, Result};
use crate::options::Options;
use crate::verdict::{decode, encode};

/// What a rank tells the others.
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
    pub(crate) world: u32,
    pub(crate) epoch: u64,
    /// Under which address this host is reached.
    pub(crate) address: IpAddr,
    /// A port that firewalls let through, if this rank may have it.
    pub(crate) port: Option<u16>,
    pub(crate) options: &'a Options,
}

/// Tells everyone where this rank's door is, and hears where theirs are. Nobody is connected yet.
///
/// # Errors
/// When there is no port, when a rank tells nothing in time, or nonsense.
pub(crate) fn meet(site: &Site<'_>, meeting: &dyn Store, until: Deadline) -> Result<Arc<Wire>> {
    let (listener, is_known) = listen(site)?;
    let address = listener.local_addr().map_err(Error::Port)?;
    let secret = (site.me == 0).then(Secret::generate).transpose()?;
    let mine = Entrance { address, is_known, secret: secret.map(|secret| secret.to_hex()) };
    meeting.set(&key(site.me), &encode(&mine))?;
    let keys: Vec<String> = (0..site.world).map(key).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let mut entrances = Vec::new();
    for (rank, told) in meeting.multi_get(&keys, until)?.iter().enumerate() {
        let nonsense = |what| Error::Argument(format!("what rank {rank} told of its door {what}"));
        entrances.push(decode::<Entrance>(told).map_err(nonsense)?);
    }
    let secret = entrances[0].secret.as_deref().and_then(|hex| hex.parse().ok());
    let secret = secret.ok_or_else(|| Error::Argument("rank 0 told no secret".to_owned()))?;
    let known: Vec<bool> = entrances.iter().map(|it| it.is_known).collect();
    let peer = |(rank, it): (u32, &Entrance)| {
        Peer::new(site.me, rank, it.address, dials(site.me, rank, &known))
    };
    let peers = (0..).zip(&entrances).map(peer).collect();
    let (stations, left) = Default::default();
    let hub = Hub { peers, stations, door: Door::new(listener), left, dozing: 0 };
    Ok(Arc::new(Wire {
        me: site.me,
        epoch: site.epoch,
        secret,
        encrypt: site.options.encrypt,
        integrity: site.options.integrity,
        streams: site.options.streams.map(|streams| usize::from(streams.get())),
        signal: Signal::new().map_err(Error::Port)?,
        hub: Mutex::new(hub),
    }))
}

/// Whether a rank opens the connections between itself and another: to a port that is known to be open
/// if there is only one, otherwise the lower rank does.
fn dials(me: u32, other: u32, known: &[bool]) -> bool {
    match (known[me as usize], known[other as usize]) {
        (false, true) => true,
        (true, false) => false,
        _ => me < other,
    }
}

/// Listens on the port that firewalls let through, if it is to be had.
fn listen(site: &Site<'_>) -> Result<(TcpListener, bool)> {
    let bind = |port| {
        let listener = TcpListener::bind(SocketAddr::new(site.address, port))?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    if let Some(port) = site.port {
        match bind(port) {
            Ok(listener) => return Ok((listener, true)),
            Err(error) => {
                tracing::warn!("port {port} cannot be had for data ({error}): any is taken")
            }
        }
    }
    bind(0).map(|listener| (listener, false)).map_err(Error::Port)
}

fn key(rank: u32) -> String {
    format!("wire/{rank}")
}
