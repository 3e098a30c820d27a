//! Making a connection: find the address, try until the deadline, shake hands.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use super::tune;
use crate::auth::{ANSWER, ClientHandshake, GREETING, Session};
use crate::deadline::{Deadline, clock_now};
use crate::error::{Error, HandshakeError, Result};
use crate::secret::{Secret, random};

/// Whom to call, how to prove that we belong to the job, and who to say is calling.
#[derive(Clone, Debug)]
pub struct Dial {
    address: String,
    secret: Secret,
    name: String,
}

impl Dial {
    /// `address` is `host:port`, with a name or with a number; IPv6 numbers in brackets.
    pub fn new(address: impl ToString, secret: &Secret) -> Self {
        Self { address: address.to_string(), secret: secret.clone(), name: String::new() }
    }

    /// What the server's log calls this client, for example `rank 3`.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// The address as it was given.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Connects. A server that is not there yet is tried again, a little later each time, until
    /// the deadline; one that refuses us is final.
    pub(super) fn connect(&self, until: Deadline) -> Result<(TcpStream, Session)> {
        let started = clock_now();
        let mut pause = FIRST_PAUSE;
        loop {
            let reason = match self.attempt(until) {
                Ok(connected) => return Ok(connected),
                Err(Attempt::Final(reason)) => {
                    return Err(Error::Handshake { peer: self.address.clone(), reason });
                }
                Err(Attempt::Again(reason)) => reason,
            };
            let left = until.remaining().unwrap_or(LAST_PAUSE);
            if left.is_zero() {
                let (address, waited) = (self.address.clone(), started.elapsed());
                return Err(Error::Unreachable { address, waited, reason: reason.to_string() });
            }
            std::thread::sleep(jitter(pause)?.min(left));
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }

    fn attempt(&self, until: Deadline) -> Result<(TcpStream, Session), Attempt> {
        let mut last = io::Error::other("the name has no address");
        for address in self.address.to_socket_addrs()? {
            match self.attempt_at(address, until) {
                Err(Attempt::Again(reason)) => last = reason,
                other => return other,
            }
        }
        Err(Attempt::Again(last))
    }

    fn attempt_at(
        &self,
        address: SocketAddr,
        until: Deadline,
    ) -> Result<(TcpStream, Session), Attempt> {
        let give_up = until.min(Deadline::after(ATTEMPT_LIMIT));
        let mut stream = TcpStream::connect_timeout(&address, left(give_up))?;
        tune(socket2::SockRef::from(&stream))?;
        let session = self.shake_hands(&mut stream, give_up)?;
        Ok((stream, session))
    }

    fn shake_hands(&self, stream: &mut TcpStream, until: Deadline) -> Result<Session, Attempt> {
        let mut greeting = [0; GREETING];
        let mut answer = [0; ANSWER];
        read_exact(stream, &mut greeting, until)?;
        let (handshake, opening) = ClientHandshake::open(&self.secret, &greeting, &self.name)?;
        stream.set_write_timeout(Some(left(until)))?;
        stream.write_all(&opening)?;
        read_exact(stream, &mut answer[..1], until)?;
        ClientHandshake::look(answer[0])?;
        read_exact(stream, &mut answer[1..], until)?;
        Ok(handshake.finish(&answer)?)
    }
}

/// How one attempt failed.
#[derive(Debug)]
enum Attempt {
    /// It may work later.
    Again(io::Error),
    /// It never will.
    Final(HandshakeError),
}

impl From<io::Error> for Attempt {
    fn from(error: io::Error) -> Self {
        Self::Again(error)
    }
}

impl From<HandshakeError> for Attempt {
    fn from(error: HandshakeError) -> Self {
        match error {
            HandshakeError::Full => Self::Again(io::Error::other(error)),
            error => Self::Final(error),
        }
    }
}

/// Reads all of `buffer`, however slowly it comes, but no longer than the deadline.
fn read_exact(stream: &mut TcpStream, buffer: &mut [u8], until: Deadline) -> io::Result<()> {
    let mut received = 0;
    while received < buffer.len() {
        stream.set_read_timeout(Some(left(until)))?;
        match stream.read(&mut buffer[received..]) {
            Ok(0) => return Err(io::Error::other("it closed the connection during the handshake")),
            Ok(count) => received += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::Error::other("it accepts connections but does not answer"));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// What is left, never zero: the system takes zero for no limit.
fn left(until: Deadline) -> Duration {
    until.remaining().unwrap_or(ATTEMPT_LIMIT).max(Duration::from_millis(1))
}

/// Between half and all of `pause`, so that a thousand ranks do not come back in step.
fn jitter(pause: Duration) -> Result<Duration> {
    let dice = u32::from(random()?[0]);
    Ok(pause / 2 + pause / 2 * dice / 255)
}

const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LAST_PAUSE: Duration = Duration::from_millis(500);
/// One attempt's limit, so that a silent address does not use up the whole deadline.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(10);
