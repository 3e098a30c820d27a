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
    silence: Duration,
}

impl Dial {
    /// `address` is `host:port`, with a name or with a number; IPv6 numbers in brackets.
    pub fn new(address: impl ToString, secret: &Secret) -> Self {
        let silence = Duration::ZERO;
        Self { address: address.to_string(), secret: secret.clone(), name: String::new(), silence }
    }

    /// What the server's log calls this client, for example `rank 3`.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// How long the server may be silent before the connection counts as lost: ten seconds, or
    /// this if it is longer.
    #[must_use]
    pub fn bearing(mut self, silence: Duration) -> Self {
        self.silence = silence;
        self
    }

    /// The address as it was given.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn secret(&self) -> &Secret {
        &self.secret
    }

    /// How long the server may be silent, as it was asked for.
    pub(super) fn silence(&self) -> Duration {
        self.silence
    }

    /// The same call to another address.
    pub(super) fn to(&self, address: &str) -> Self {
        Self { address: address.to_owned(), ..self.clone() }
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

    /// Tries once.
    pub(super) fn attempt(&self, until: Deadline) -> Result<(TcpStream, Session), Attempt> {
        let addresses: Vec<_> = self.address.to_socket_addrs()?.collect();
        self.attempt_each(&addresses, until)
    }

    /// Tries the addresses of a name in turn. A refusal at one counts only if no other takes us:
    /// it may be somebody else's server.
    fn attempt_each(
        &self,
        addresses: &[SocketAddr],
        until: Deadline,
    ) -> Result<(TcpStream, Session), Attempt> {
        let mut failure = Attempt::Again(io::Error::other("the name has no address"));
        for (index, &address) in addresses.iter().enumerate() {
            let is_last = index + 1 == addresses.len();
            let give_up = if is_last { until } else { share(until) };
            match (self.attempt_at(address, give_up), &failure) {
                (Ok(connected), _) => return Ok(connected),
                (Err(Attempt::Again(_)), Attempt::Final(_)) => {}
                (Err(latest), _) => failure = latest,
            }
        }
        Err(failure)
    }

    fn attempt_at(
        &self,
        address: SocketAddr,
        until: Deadline,
    ) -> Result<(TcpStream, Session), Attempt> {
        let give_up = until.min(Deadline::after(ATTEMPT_LIMIT));
        let mut stream = TcpStream::connect_timeout(&address, left(give_up))?;
        if is_its_own_peer(&stream)? {
            return Err(Attempt::Again(io::Error::other("nobody listens there")));
        }
        tune(socket2::SockRef::from(&stream), self.silence)?;
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
pub(super) enum Attempt {
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

/// One address's part of the time, when there are more to try: half of what is left, unless that
/// is too little for anything.
fn share(until: Deadline) -> Deadline {
    let half = until.remaining().map_or(ATTEMPT_LIMIT, |left| left / 2);
    until.min(Deadline::after(half.max(SHORTEST_SHARE)))
}

/// Whether a connection was made to itself. On this host, the system may choose for our end the
/// very port that nobody listens on yet; and as long as we had it, the server could not.
fn is_its_own_peer(stream: &TcpStream) -> io::Result<bool> {
    Ok(stream.local_addr()? == stream.peer_addr()?)
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
/// What an address gets at least, if that much is left.
const SHORTEST_SHARE: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use socket2::{Domain, Socket, Type};

    use super::*;
    use crate::tcp::Server;

    #[test]
    fn a_silent_address_leaves_time_for_the_next() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let (server, secret) = server();
        let dial = Dial::new("", &secret);
        let addresses = [silent.local_addr().unwrap(), server.address()];
        let until = Deadline::after(Duration::from_secs(6));
        let (stream, _) = dial.attempt_each(&addresses, until).unwrap();
        assert_eq!(stream.peer_addr().unwrap(), server.address());
    }

    #[test]
    fn a_refusal_at_one_address_does_not_keep_the_next_from_being_tried() {
        let (stranger, _) = server();
        let (server, secret) = server();
        let dial = Dial::new("", &secret);
        let until = Deadline::after(Duration::from_secs(30));
        let addresses = [stranger.address(), server.address()];
        let (stream, _) = dial.attempt_each(&addresses, until).unwrap();
        assert_eq!(stream.peer_addr().unwrap(), server.address());
    }

    #[test]
    fn a_refusal_is_what_is_told_if_the_other_addresses_do_not_answer() {
        let (stranger, _) = server();
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let dial = Dial::new("", &Secret::generate().unwrap());
        let until = Deadline::after(Duration::from_secs(30));
        let failure = dial.attempt_each(&[stranger.address(), closed], until).unwrap_err();
        let Attempt::Final(HandshakeError::Secret) = failure else { panic!("{failure:?}") };
    }

    #[test]
    fn a_connection_to_itself_is_recognised() {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
        socket.connect(&socket.local_addr().unwrap()).unwrap();
        assert!(is_its_own_peer(&socket.into()).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(!is_its_own_peer(&stream).unwrap());
    }

    fn server() -> (Server, Secret) {
        let secret = Secret::generate().unwrap();
        (Server::start("127.0.0.1:0".parse().unwrap(), &secret).unwrap(), secret)
    }
}
