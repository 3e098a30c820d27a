//! Where other processes come in.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use consort_store::Secret;
use consort_store::auth::Session;
use consort_sys::hatch::{Chute, Hatch};

use super::caller::{Arriving, Caller, Made};
use super::knock::{Knocked, Knocking};
use crate::neighbourhood::Hatches;

/// A listening socket, which the ranks of a host share, and those who have come and not introduced
/// themselves yet.
///
/// ```text
///              ┌─ knocks for this rank ───────────────────────┐
///  listener ───┤                                              ├──▶ arriving ──▶ here
///              └─ for another ──▶ its chute ═══▶ its hatch ───┘
/// ```
#[derive(Debug)]
pub(super) struct Door {
    me: u32,
    listener: Arc<TcpListener>,
    /// Where the other ranks of this host put who came for this one.
    hatch: Option<Arc<Hatch>>,
    /// Where those are put who came for another.
    chutes: BTreeMap<u32, Chute>,
    knocking: Vec<Knocking>,
    arriving: Vec<Arriving>,
    /// Nobody is let in before.
    shut_until: Option<Instant>,
}

impl Door {
    /// At a socket that does not block.
    pub(super) fn new(me: u32, listener: TcpListener, hatches: Option<Hatches>) -> Self {
        let (hatch, chutes) = match hatches {
            Some(Hatches { mine, others }) => (Some(Arc::new(mine)), others),
            None => (None, BTreeMap::new()),
        };
        let (knocking, arriving) = Default::default();
        let (listener, shut_until) = (Arc::new(listener), None);
        Self { me, listener, hatch, chutes, knocking, arriving, shut_until }
    }

    /// Those who are introducing themselves.
    pub(super) fn callers(&self) -> impl Iterator<Item = &Arc<TcpStream>> {
        let knocking = self.knocking.iter().map(|it| &it.socket);
        knocking.chain(self.arriving.iter().map(Arriving::socket))
    }

    /// Where others may come in, if there is room for them.
    pub(super) fn ways_in(&self) -> Option<(Arc<TcpListener>, Option<Arc<Hatch>>)> {
        self.has_room().then(|| (self.listener.clone(), self.hatch.clone()))
    }

    /// Those who have proved that they belong to the job.
    pub(super) fn take_in(&mut self, secret: &Secret) -> Vec<(Caller, Arc<TcpStream>, Session)> {
        self.accept();
        for knocking in std::mem::take(&mut self.knocking) {
            let (socket, peer) = (knocking.socket.clone(), knocking.peer);
            match knocking.go_on(secret) {
                Knocked::NotYet(knocking) => self.knocking.push(knocking),
                Knocked::Wants(to) if to == self.me => self.greet(socket, peer, secret),
                Knocked::Wants(to) => self.pass_on(&socket, peer, to),
                Knocked::Refused(reason) => turn_away(peer, &reason),
            }
        }
        self.take_over(secret);
        self.introduced()
    }

    fn has_room(&self) -> bool {
        let is_shut = self.shut_until.is_some_and(|until| Instant::now() < until);
        !is_shut && self.knocking.len() + self.arriving.len() < MOST
    }

    fn accept(&mut self) {
        while self.has_room() {
            match self.listener.accept() {
                Ok((socket, peer)) => match socket.set_nonblocking(true) {
                    Ok(()) => self.knocking.push(Knocking::new(Arc::new(socket), peer)),
                    Err(error) => turn_away(peer, &error.to_string()),
                },
                Err(error) if is_of_the_moment(&error) => return,
                Err(error) => self.shut(&error),
            }
        }
    }

    /// Lets nobody in for a while: there is no use in trying without pause.
    fn shut(&mut self, why: &io::Error) {
        tracing::warn!("nobody can connect to this rank for {PAUSE:?}: {why}");
        self.shut_until = Some(Instant::now() + PAUSE);
    }

    fn greet(&mut self, socket: Arc<TcpStream>, peer: SocketAddr, secret: &Secret) {
        match Arriving::greet(socket, peer, secret) {
            Ok(arriving) => self.arriving.push(arriving),
            Err(reason) => turn_away(peer, &reason),
        }
    }

    /// To another rank of this host. If that cannot take it, the caller will come again.
    fn pass_on(&self, socket: &TcpStream, peer: SocketAddr, to: u32) {
        let Some(chute) = self.chutes.get(&to) else {
            return turn_away(peer, &format!("it wants rank {to}, which is not on this host"));
        };
        match chute.hand(socket) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                turn_away(peer, &format!("it wants rank {to}, which has ended"));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                turn_away(peer, &format!("it wants rank {to}, for which too many others wait"));
            }
            Err(error) => {
                turn_away(peer, &format!("it cannot be passed on to rank {to}: {error}"));
            }
        }
    }

    /// Takes those over who came for this rank to another.
    fn take_over(&mut self, secret: &Secret) {
        while let Some(hatch) = self.hatch.as_ref().filter(|_| self.has_room()) {
            match hatch.take().map(|taken| taken.map(into_stream)) {
                Ok(None) => return,
                Ok(Some((socket, Ok(peer)))) => self.greet(Arc::new(socket), peer, secret),
                Ok(Some((_, Err(error)))) => {
                    tracing::warn!("lost somebody who came to the data port: {error}");
                }
                Err(error) => self.shut(&error),
            }
        }
    }

    fn introduced(&mut self) -> Vec<(Caller, Arc<TcpStream>, Session)> {
        let mut here = Vec::new();
        for arriving in std::mem::take(&mut self.arriving) {
            let peer = arriving.peer();
            match arriving.go_on() {
                Made::NotYet(arriving) => self.arriving.push(arriving),
                Made::Here(caller, socket, session) if caller.to == self.me => {
                    here.push((caller, socket, session));
                }
                Made::Here(caller, ..) => {
                    let (to, me) = (caller.to, self.me);
                    turn_away(peer, &format!("it wants rank {to}, and this is {me}"));
                }
                Made::Refused(reason) => turn_away(peer, &reason),
                Made::Closed => {}
            }
        }
        here
    }
}

fn into_stream(taken: OwnedFd) -> (TcpStream, io::Result<SocketAddr>) {
    let socket = TcpStream::from(taken);
    let peer = socket.peer_addr();
    (socket, peer)
}

fn turn_away(peer: SocketAddr, reason: &str) {
    tracing::warn!("turned {peer} away from the data port: {reason}");
}

/// Nobody came, or whoever came has gone again.
fn is_of_the_moment(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | ConnectionAborted | Interrupted)
}

/// How long to wait for descriptors, or whatever else is missing to let somebody in.
const PAUSE: Duration = Duration::from_secs(1);
/// How many may be introducing themselves at once.
const MOST: usize = 256;

#[cfg(test)]
mod tests;
