//! Where other processes come in.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use consort_store::Secret;
use consort_store::auth::Session;

use super::caller::{Arriving, Caller, Made};

/// A listening socket, and those who have come and not introduced themselves yet.
#[derive(Debug)]
pub(super) struct Door {
    listener: Arc<TcpListener>,
    pub(super) arriving: Vec<Arriving>,
}

impl Door {
    /// At a socket that does not block.
    pub(super) fn new(listener: TcpListener) -> Self {
        Self { listener: Arc::new(listener), arriving: Vec::new() }
    }

    pub(super) fn listener(&self) -> &Arc<TcpListener> {
        &self.listener
    }

    /// Those who have proved that they belong to the job.
    pub(super) fn take_in(
        &mut self,
        secret: &Secret,
        me: u32,
    ) -> Vec<(Caller, Arc<TcpStream>, Session)> {
        while self.arriving.len() < MOST
            && let Ok((socket, peer)) = self.listener.accept()
        {
            match Arriving::greet(socket, peer, secret) {
                Ok(arriving) => self.arriving.push(arriving),
                Err(reason) => turn_away(peer, &reason),
            }
        }
        let mut here = Vec::new();
        for arriving in std::mem::take(&mut self.arriving) {
            let peer = arriving.peer();
            match arriving.go_on() {
                Made::NotYet(arriving) => self.arriving.push(arriving),
                Made::Here(caller, socket, session) if caller.to == me => {
                    here.push((caller, socket, session));
                }
                Made::Here(caller, ..) => {
                    turn_away(peer, &format!("it wants rank {}, and this is {me}", caller.to));
                }
                Made::Refused(reason) => turn_away(peer, &reason),
            }
        }
        here
    }
}

fn turn_away(peer: SocketAddr, reason: &str) {
    tracing::warn!("turned {peer} away from the data port: {reason}");
}

/// How many may be introducing themselves at once.
const MOST: usize = 256;
