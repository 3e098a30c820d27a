//! Connections that are being made: both sides of the handshake. Nothing waits.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use consort_store::auth::{
    ANSWER, ClientHandshake, GREETING, OPENING, ServerHandshake, Session, refusal,
};
use consort_store::{HandshakeError, Secret};
use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};

use super::knock::knock;

/// Who opens a connection, to whom, and which of theirs it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Caller {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) stream: u32,
}

impl Caller {
    /// As it is told in the handshake.
    fn name(self) -> String {
        let Self { from, to, stream } = self;
        format!("wire {from} {to} {stream}")
    }

    fn parse(name: &str) -> Option<Self> {
        let mut words = name.strip_prefix("wire ")?.split(' ').map(str::parse);
        let mut next = || words.next()?.ok();
        let caller = Self { from: next()?, to: next()?, stream: next()? };
        next().is_none().then_some(caller)
    }
}

/// What comes of a handshake.
#[derive(Debug)]
pub(super) enum Made<T> {
    NotYet(T),
    Here(Caller, Arc<TcpStream>, Session),
    Refused(String),
    /// Nobody listens.
    Closed,
}

/// A connection that somebody has opened.
#[derive(Debug)]
pub(super) struct Arriving {
    socket: Arc<TcpStream>,
    peer: SocketAddr,
    handshake: ServerHandshake,
    opening: [u8; OPENING],
    received: usize,
    since: Instant,
}

impl Arriving {
    /// Greets whoever it is.
    ///
    /// # Errors
    /// When it is gone, or there are no random numbers.
    pub(super) fn greet(
        socket: Arc<TcpStream>,
        peer: SocketAddr,
        secret: &Secret,
    ) -> Result<Self, String> {
        let handshake = ServerHandshake::new(secret).map_err(|error| error.to_string())?;
        prepare(&socket).and_then(|()| write_all(&socket, handshake.greeting())).map_err(said)?;
        let (opening, received, since) = ([0; OPENING], 0, Instant::now());
        Ok(Self { socket, peer, handshake, opening, received, since })
    }

    pub(super) fn peer(&self) -> SocketAddr {
        self.peer
    }

    pub(super) fn socket(&self) -> &Arc<TcpStream> {
        &self.socket
    }

    /// Goes on as far as it can.
    pub(super) fn go_on(mut self) -> Made<Self> {
        match read_some(&self.socket, &mut self.opening, &mut self.received) {
            Err(error) => return Made::Refused(said(error)),
            Ok(false) if self.since.elapsed() > HURRY => {
                return Made::Refused("it did not introduce itself in time".to_owned());
            }
            Ok(_) => {}
        }
        if let Err(why) = ServerHandshake::look(&self.opening[..self.received]) {
            return Made::Refused(why.to_string());
        }
        if self.received < OPENING {
            return Made::NotYet(self);
        }
        match self.handshake.answer(&self.opening) {
            Err(why) => {
                // It may have gone; then it need not know.
                let _ = write_all(&self.socket, &[refusal(&why)]);
                Made::Refused(why.to_string())
            }
            Ok((answer, session, name)) => match Caller::parse(&name) {
                None => Made::Refused(format!("{name:?} is no name of a rank's connection")),
                Some(caller) => match write_all(&self.socket, &answer) {
                    Ok(()) => Made::Here(caller, self.socket, session),
                    Err(error) => Made::Refused(said(error)),
                },
            },
        }
    }
}

/// A connection that this process opens.
#[derive(Debug)]
pub(super) struct Dialling {
    socket: Arc<TcpStream>,
    caller: Caller,
    stage: Stage,
    /// Whether nobody listens there.
    is_closed: bool,
}

#[derive(Debug)]
enum Stage {
    Connecting,
    Greeting { greeting: [u8; GREETING], received: usize },
    Answer { handshake: Box<ClientHandshake>, answer: [u8; ANSWER], received: usize },
}

impl Dialling {
    /// Begins to.
    ///
    /// # Errors
    /// When there is no way there.
    pub(super) fn begin(endpoint: SocketAddr, caller: Caller) -> io::Result<Self> {
        let domain = Domain::for_address(endpoint);
        let socket = Socket::new(domain, Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
        match socket.connect(&endpoint.into()) {
            Err(error) if error.raw_os_error() == Some(IN_PROGRESS) => {}
            other => other?,
        }
        let (socket, stage) = (Arc::new(TcpStream::from(socket)), Stage::Connecting);
        Ok(Self { socket, caller, stage, is_closed: false })
    }

    pub(super) fn socket(&self) -> &Arc<TcpStream> {
        &self.socket
    }

    /// Whether it waits to be able to write, and not to read.
    pub(super) fn is_connecting(&self) -> bool {
        matches!(self.stage, Stage::Connecting)
    }

    /// Goes on as far as it can.
    pub(super) fn go_on(mut self, secret: &Secret) -> Made<Self> {
        match self.advance(secret) {
            Ok(None) => Made::NotYet(self),
            Ok(Some(session)) => Made::Here(self.caller, self.socket, session),
            Err(_) if self.is_closed => Made::Closed,
            Err(reason) => Made::Refused(reason),
        }
    }

    fn advance(&mut self, secret: &Secret) -> Result<Option<Session>, String> {
        loop {
            let next = match &mut self.stage {
                Stage::Connecting => {
                    if let Some(error) = self.socket.take_error().map_err(said)? {
                        self.is_closed = error.kind() == io::ErrorKind::ConnectionRefused;
                        return Err(said(error));
                    }
                    if self.socket.peer_addr().is_err() {
                        return Ok(None);
                    }
                    prepare(&self.socket).map_err(said)?;
                    write_all(&self.socket, &knock(secret, self.caller.to)).map_err(said)?;
                    Stage::Greeting { greeting: [0; GREETING], received: 0 }
                }
                Stage::Greeting { greeting, received } => {
                    if !read_some(&self.socket, greeting, received).map_err(said)? {
                        return Ok(None);
                    }
                    let opened = ClientHandshake::open(secret, greeting, &self.caller.name());
                    let (handshake, opening) = opened.map_err(refused)?;
                    write_all(&self.socket, &opening).map_err(said)?;
                    let handshake = Box::new(handshake);
                    Stage::Answer { handshake, answer: [0; ANSWER], received: 0 }
                }
                Stage::Answer { answer, received, .. } => {
                    let whole = read_some(&self.socket, answer, received).map_err(said)?;
                    if *received > 0 {
                        ClientHandshake::look(answer[0]).map_err(refused)?;
                    }
                    if !whole {
                        return Ok(None);
                    }
                    let taken = std::mem::replace(&mut self.stage, Stage::Connecting);
                    let Stage::Answer { handshake, answer, .. } = taken else { unreachable!() };
                    return handshake.finish(&answer).map(Some).map_err(refused);
                }
            };
            self.stage = next;
        }
    }
}

/// Sets a new connection up as all are.
fn prepare(socket: &TcpStream) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    socket.set_nodelay(true)?;
    let probes = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE);
    socket2::SockRef::from(socket).set_tcp_keepalive(&probes)
}

/// Writes into a connection that has room: nothing was written before.
fn write_all(mut socket: &TcpStream, bytes: &[u8]) -> io::Result<()> {
    socket.write_all(bytes)
}

/// Reads what has come. Whether that is all.
fn read_some(mut socket: &TcpStream, into: &mut [u8], received: &mut usize) -> io::Result<bool> {
    while *received < into.len() {
        match socket.read(&mut into[*received..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => *received += read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

fn said(error: io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "it hung up".to_owned(),
        _ => error.to_string(),
    }
}

fn refused(error: HandshakeError) -> String {
    error.to_string()
}

/// What a connection says that is being made without waiting.
const IN_PROGRESS: i32 = rustix::io::Errno::INPROGRESS.raw_os_error();
/// How long a caller may take to introduce itself.
const HURRY: Duration = Duration::from_secs(10);
/// After so much silence the system asks whether the other side is there.
const KEEPALIVE: Duration = Duration::from_secs(5);
