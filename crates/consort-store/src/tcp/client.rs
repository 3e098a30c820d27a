//! A client's handle on a server's store. Many threads may call at once on one connection: each
//! call has its number, and answers come in any order. How they share it: [`link`].

mod desk;
mod drain;
mod incoming;
mod link;
mod spin;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::dial::Dial;
use crate::deadline::{Deadline, clock_now};
use crate::error::{Error, Result};
use crate::request::{Limits, Reply, Request};
use crate::secret::Secret;
use crate::store::{DEFAULT_PATIENCE, Store, no_answer, settle, soon};
use link::Link;

/// A handle on the store of a [`Server`](super::Server), over one connection.
///
/// Clones share the connection; [`duplicate`](Store::duplicate) makes one of its own.
#[derive(Clone, Debug)]
pub struct TcpStore {
    link: Arc<Link>,
    dial: Dial,
    patience: Duration,
}

impl TcpStore {
    /// Connects to the server at `address` (`host:port`), trying until the deadline.
    ///
    /// # Errors
    /// [`Error::Unreachable`] when nobody answered in time; [`Error::Handshake`], at once, when
    /// the two sides' secrets or versions differ.
    pub fn connect(address: impl ToString, secret: &Secret, until: Deadline) -> Result<Self> {
        Self::dial(Dial::new(address, secret), until)
    }

    /// Connects as `dial` says.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub fn dial(dial: Dial, until: Deadline) -> Result<Self> {
        let (stream, session) = dial.connect(until)?;
        let link = Link::new(stream, session).map_err(|source| Error::System {
            doing: "setting up the store's connection",
            source,
        })?;
        Ok(Self { link: Arc::new(link), dial, patience: DEFAULT_PATIENCE })
    }

    /// Changes how long the verbs without a deadline wait for the server to answer.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// This side's address: the interface that really reaches the server.
    pub fn local_address(&self) -> SocketAddr {
        self.link.local()
    }

    /// The server's address.
    pub fn peer_address(&self) -> SocketAddr {
        self.link.peer()
    }
}

impl Store for TcpStore {
    fn call(&self, request: &Request<'_>, until: Deadline) -> Result<Reply> {
        request.check(&Limits::STANDARD)?;
        let started = clock_now();
        let verb = request.verb();
        let reply = self.link.call(request, until);
        let reply = reply.map_err(|broken| broken.into_error(self.dial.address()))?;
        match reply {
            Some(reply) => settle(reply, verb, || started.elapsed()),
            None => Err(no_answer(verb, started.elapsed())),
        }
    }

    fn duplicate(&self) -> Result<Arc<dyn Store>> {
        let again = Self::dial(self.dial.clone(), soon(self))?;
        Ok(Arc::new(again.with_patience(self.patience)))
    }

    fn patience(&self) -> Duration {
        self.patience
    }
}
