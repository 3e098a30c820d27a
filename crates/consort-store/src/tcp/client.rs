//! A client's handle on a server's store. Many threads may call at once on one connection: each
//! call has its number, and answers come in any order. How they share it: [`link`]. What becomes of
//! their calls if the connection is lost: [`seat`].

mod desk;
mod drain;
mod incoming;
mod link;
mod seat;
mod spin;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::dial::Dial;
use crate::deadline::{Deadline, clock_now};
use crate::error::Result;
use crate::request::{Limits, Reply, Request};
use crate::secret::Secret;
use crate::store::{DEFAULT_PATIENCE, Store, no_answer, settle, soon};
use seat::Seat;

/// A handle on the store of a [`Server`](super::Server), over one connection.
///
/// Clones share the connection; [`duplicate`](Store::duplicate) makes one of its own.
///
/// If the server has a standby and is lost, calls go on with the standby, those under way included.
/// Each of them is carried out once, whichever of the two did it.
#[derive(Clone, Debug)]
pub struct TcpStore {
    seat: Arc<Seat>,
    patience: Duration,
}

impl TcpStore {
    /// Connects to the server at `address` (`host:port`), trying until the deadline.
    ///
    /// # Errors
    /// [`Unreachable`](crate::Error::Unreachable) when nobody answered in time;
    /// [`Handshake`](crate::Error::Handshake), at once, when the two sides' secrets or versions
    /// differ.
    pub fn connect(address: impl ToString, secret: &Secret, until: Deadline) -> Result<Self> {
        Self::dial(Dial::new(address, secret), until)
    }

    /// Connects as `dial` says.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub fn dial(dial: Dial, until: Deadline) -> Result<Self> {
        Ok(Self { seat: Arc::new(Seat::take(dial, until)?), patience: DEFAULT_PATIENCE })
    }

    /// Changes how long the verbs without a deadline wait for the server to answer.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// This side's address: the interface that really reaches the server.
    pub fn local_address(&self) -> SocketAddr {
        self.seat.link().local()
    }

    /// The server's address: the standby's, once that has taken over.
    pub fn peer_address(&self) -> SocketAddr {
        self.seat.link().peer()
    }

    /// Where the store is, as it was given; or the standby's address, once that has taken over.
    pub fn place(&self) -> String {
        self.seat.dial().address().to_owned()
    }

    /// Where the store's standby is, as far as this client has heard.
    pub fn standby(&self) -> Option<SocketAddr> {
        self.seat.link().last_house().standby
    }
}

impl Store for TcpStore {
    fn call(&self, request: &Request<'_>, until: Deadline) -> Result<Reply> {
        request.check(&Limits::STANDARD)?;
        let started = clock_now();
        let verb = request.verb();
        match self.seat.call(request, until)? {
            Some(reply) => settle(reply, verb, || started.elapsed()),
            None => Err(no_answer(verb, started.elapsed())),
        }
    }

    fn duplicate(&self) -> Result<Arc<dyn Store>> {
        let again = Self::dial(self.seat.dial(), soon(self))?;
        Ok(Arc::new(again.with_patience(self.patience)))
    }

    fn patience(&self) -> Duration {
        self.patience
    }
}
