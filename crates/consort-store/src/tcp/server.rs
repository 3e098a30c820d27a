//! The server: one thread, one port, thousands of clients. All that is decided is decided in
//! [`Machine`]; this file moves bytes.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{self, TryRecvError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::{Events, Interest, Poll, Token, Waker};
use socket2::{Domain, Socket, Type};

use super::complaints::Complaints;
use super::connection::{Connection, End, Turn};
use super::tune;
use crate::deadline::clock_now;
use crate::error::{Error, HandshakeError, Result};
use crate::machine::{Answers, Machine, Ticket};
use crate::proto::{Answer, Message};
use crate::request::Limits;
use crate::secret::Secret;

/// The process that holds the data of a [`TcpStore`](super::TcpStore).
///
/// It serves from a thread of its own until it is dropped. Who does not prove to know the secret
/// within ten seconds is refused with one line in the log; clients that are slow, silent or gone
/// hold up nobody. Each client takes a file descriptor of this process.
///
/// ```
/// use consort_store::{Deadline, Secret, Server, Store, TcpStore};
/// use std::time::Duration;
///
/// let secret = Secret::generate()?;
/// let server = Server::start("127.0.0.1:0".parse().unwrap(), &secret)?;
/// let until = Deadline::after(Duration::from_secs(10));
/// let store = TcpStore::connect(server.address(), &secret, until)?;
/// store.set("greeting", b"hello")?;
/// assert_eq!(store.get("greeting", until)?, b"hello");
/// # Ok::<(), consort_store::Error>(())
/// ```
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    /// Dropping it tells the thread to stop, once it is woken.
    stop: Option<mpsc::Sender<()>>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens on `address`; port 0 takes any free one, which [`address`](Self::address) tells.
    /// An unspecified IPv6 address serves IPv4 as well.
    ///
    /// # Errors
    /// When the address is not this host's or the port is taken.
    pub fn start(address: SocketAddr, secret: &Secret) -> Result<Self> {
        Self::from_listener(Self::listen(address)?, secret)
    }

    /// Takes the port, for a server that is to be started later.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn listen(address: SocketAddr) -> Result<TcpListener> {
        let listen = || {
            let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
            if address.is_ipv6() {
                socket.set_only_v6(!address.ip().is_unspecified())?;
            }
            socket.set_reuse_address(true)?;
            socket.bind(&address.into())?;
            socket.listen(BACKLOG)?;
            Ok(TcpListener::from(socket))
        };
        listen().map_err(|source| Error::Listen { address, source })
    }

    /// Serves on a listener that somebody else has bound, so that its port cannot be lost in
    /// between.
    ///
    /// # Errors
    /// When the system has no descriptors or threads left.
    pub fn from_listener(listener: TcpListener, secret: &Secret) -> Result<Self> {
        Self::bearing(Duration::ZERO, listener, secret)
    }

    /// The same, and a client may be silent for as long as this before its connection counts as
    /// lost; never for less than ten seconds.
    ///
    /// # Errors
    /// As [`from_listener`](Self::from_listener).
    pub fn bearing(silence: Duration, listener: TcpListener, secret: &Secret) -> Result<Self> {
        Self::serve(silence, listener, secret)
            .map_err(|source| Error::System { doing: "starting the store's server", source })
    }

    /// The address it listens on, with its real port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    fn serve(silence: Duration, listener: TcpListener, secret: &Secret) -> io::Result<Self> {
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let mut listener = mio::net::TcpListener::from_std(listener);
        let poll = Poll::new()?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let (stop, stopped) = mpsc::channel();
        let room = Room {
            poll,
            listener,
            secret: secret.clone(),
            silence,
            machine: Machine::new(Limits::STANDARD),
            connections: HashMap::new(),
            next: FIRST_CLIENT,
            openings: VecDeque::new(),
            opening_count: 0,
            openings_limit: openings_limit(),
            accept_again: None,
            complaints: Complaints::new(clock_now()),
            again: Vec::new(),
            unwritten: Vec::new(),
            answers: Answers::new(),
            scratch: vec![0; SCRATCH].into(),
            stopped,
        };
        let thread = std::thread::Builder::new()
            .name("consort-store".to_owned())
            .spawn(move || room.run())?;
        Ok(Self { address, stop: Some(stop), waker, thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.take();
        // Without a wake-up the thread would not notice; then it must not be waited for.
        if self.waker.wake().is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

/// What the serving thread works with.
#[derive(Debug)]
struct Room {
    poll: Poll,
    listener: mio::net::TcpListener,
    secret: Secret,
    /// How long a client may be silent.
    silence: Duration,
    machine: Machine,
    connections: HashMap<usize, Connection>,
    next: usize,
    /// Who is in the handshake since when, oldest first; some have left it meanwhile.
    openings: VecDeque<(Instant, usize)>,
    opening_count: usize,
    openings_limit: usize,
    /// When to try to accept again, after the system had no descriptors left.
    accept_again: Option<Instant>,
    complaints: Complaints,
    /// Who may have more to read than one turn allows.
    again: Vec<usize>,
    /// Who has answers to be written.
    unwritten: Vec<usize>,
    answers: Answers,
    scratch: Box<[u8]>,
    stopped: mpsc::Receiver<()>,
}

impl Room {
    fn run(mut self) {
        let mut events = Events::with_capacity(1024);
        let mut last_event = clock_now();
        loop {
            let timeout = self.timeout(clock_now(), last_event);
            match self.poll.poll(&mut events, timeout) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    tracing::error!(%error, "the store's server cannot wait for clients: it ends");
                    return;
                }
            }
            let now = clock_now();
            if !events.is_empty() || !self.again.is_empty() {
                last_event = now;
            } else if timeout == Some(Duration::ZERO) {
                std::thread::yield_now();
            }
            for client in std::mem::take(&mut self.again) {
                self.read(client, true);
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.accept(),
                    WAKER if self.stopped.try_recv() == Err(TryRecvError::Disconnected) => return,
                    WAKER => {}
                    Token(client) => self.serve(client, event),
                }
            }
            self.write_answers();
            self.look_at_clock(now);
        }
    }

    /// How long to sleep. Right after work, not at all: the next request is often only
    /// microseconds away, and a sleeping thread would answer it several times later. Others may
    /// run meanwhile.
    fn timeout(&self, now: Instant, last_event: Instant) -> Option<Duration> {
        if !self.again.is_empty() || now.duration_since(last_event) < AWAKE {
            return Some(Duration::ZERO);
        }
        let opening = self.openings.front().map(|(since, _)| *since + HANDSHAKE_LIMIT);
        let next = opening.into_iter().chain(self.accept_again).min()?;
        Some(next.saturating_duration_since(now) + Duration::from_millis(1))
    }

    /// Takes some of the clients that want to connect; the others get their turn after those who
    /// are connected have had one.
    fn accept(&mut self) {
        for _ in 0..ACCEPTS_PER_TURN {
            if self.opening_count >= self.openings_limit && !self.drop_slow_opening() {
                break;
            }
            match self.listener.accept() {
                Ok((stream, peer)) => self.welcome(stream, peer),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    if self.complaints.another(clock_now()).is_some() {
                        tracing::warn!(%error, "the store's server cannot take more clients for now");
                    }
                    self.accept_again = Some(clock_now() + ACCEPT_PAUSE);
                    return;
                }
            }
        }
        self.accept_again = Some(clock_now());
    }

    fn welcome(&mut self, stream: mio::net::TcpStream, peer: SocketAddr) {
        let Ok(mut connection) = Connection::greet(stream, peer, &self.secret) else { return };
        let client = self.next;
        let both = Interest::READABLE | Interest::WRITABLE;
        let stream = connection.stream();
        if tune(socket2::SockRef::from(&*stream), self.silence).is_err()
            || self.poll.registry().register(stream, Token(client), both).is_err()
        {
            return;
        }
        self.next += 1;
        self.openings.push_back((clock_now(), client));
        self.opening_count += 1;
        self.connections.insert(client, connection);
    }

    fn serve(&mut self, client: usize, event: &Event) {
        if event.is_writable() {
            self.write(client);
        }
        if event.is_readable() {
            self.read(client, event.is_read_closed());
        }
    }

    fn read(&mut self, client: usize, to_the_end: bool) {
        let Some(connection) = self.connections.get_mut(&client) else { return };
        let (machine, answers) = (&mut self.machine, &mut self.answers);
        let unwritten = &mut self.unwritten;
        let was_open = connection.is_open();
        let turn = connection.read(&mut self.scratch, to_the_end, |message, outbox| {
            let first = answers.len();
            match message {
                Message::Call { call, wait, request } => {
                    machine.call(ticket(client, call), wait, &request, answers);
                }
                Message::Cancel { call } => machine.cancel(ticket(client, call), answers),
            }
            // The caller's own answer goes straight into its outbox, which bounds what it can
            // ask for; answers to others wait until its turn is over.
            if answers.get(first).is_some_and(|(ticket, _)| ticket.client == client as u64) {
                let (Ticket { call, .. }, reply) = answers.remove(first);
                outbox.push(&Answer { call, reply });
                unwritten.push(client);
            }
        });
        if !was_open && connection.is_open() {
            self.opening_count -= 1;
        }
        match turn {
            Ok(Turn::Dry | Turn::Choked) => {}
            Ok(Turn::More) => self.again.push(client),
            Err(end) => self.close(client, &end),
        }
        self.deliver();
    }

    /// Puts the answers that the last message brought about into their clients' outboxes.
    fn deliver(&mut self) {
        let mut answers = std::mem::take(&mut self.answers);
        for (Ticket { client, call }, reply) in answers.drain(..) {
            let client = client as usize;
            let Some(connection) = self.connections.get_mut(&client) else { continue };
            match connection.answer(&Answer { call, reply }) {
                Ok(()) => self.unwritten.push(client),
                Err(end) => self.close(client, &end),
            }
        }
        self.answers = answers;
    }

    fn write_answers(&mut self) {
        let mut unwritten = std::mem::take(&mut self.unwritten);
        for client in unwritten.drain(..) {
            self.write(client);
        }
        self.unwritten = unwritten;
    }

    fn write(&mut self, client: usize) {
        let Some(connection) = self.connections.get_mut(&client) else { return };
        match connection.write() {
            Ok(true) => self.again.push(client),
            Ok(false) => {}
            Err(end) => self.close(client, &end),
        }
    }

    fn look_at_clock(&mut self, now: Instant) {
        if self.accept_again.is_some_and(|again| again <= now) {
            self.accept_again = None;
            self.accept();
        }
        while let Some((since, client)) = self.openings.front().copied() {
            let opening = self.connections.get(&client).is_some_and(|it| !it.is_open());
            if opening && now.duration_since(since) < HANDSHAKE_LIMIT {
                return;
            }
            self.openings.pop_front();
            if opening {
                let slow = HandshakeError::Slow { limit: HANDSHAKE_LIMIT };
                self.close(client, &End::Refused(slow));
            }
        }
    }

    /// Makes room: whoever has been in the handshake longest is the least likely to finish it. If
    /// nobody has been there for long, they are members that came all at once.
    fn drop_slow_opening(&mut self) -> bool {
        let now = clock_now();
        while let Some((since, client)) = self.openings.front().copied() {
            let opening = self.connections.get(&client).is_some_and(|it| !it.is_open());
            if opening && now.duration_since(since) < PROMPT {
                return false;
            }
            self.openings.pop_front();
            if opening {
                self.close(client, &End::Refused(HandshakeError::Full));
                return true;
            }
        }
        true
    }

    fn close(&mut self, client: usize, end: &End) {
        let Some(mut connection) = self.connections.remove(&client) else { return };
        if !connection.is_open() {
            self.opening_count -= 1;
        }
        if let End::Refused(reason) = end {
            connection.refuse(reason);
        }
        self.complain(&connection.describe(), end);
        // The connection is dropped either way, and the system forgets it then.
        let _ = self.poll.registry().deregister(connection.stream());
        self.machine.forget(client as u64);
    }

    /// One line for whoever was not let in or had to be closed.
    fn complain(&mut self, peer: &str, end: &End) {
        let what = match end {
            End::Gone => return,
            End::Refused(reason) => format!("refused a connection to the store: {reason}"),
            End::Damaged(damage) => format!("closed a connection to the store: {damage}"),
            End::Deaf => "closed a connection to the store: it reads no answers".to_owned(),
        };
        match self.complaints.another(clock_now()) {
            None => {}
            Some(0) => tracing::warn!(%peer, "{what}"),
            Some(more) => tracing::warn!(%peer, "{what}; {more} others were not told of"),
        }
    }
}

fn ticket(client: usize, call: u64) -> Ticket {
    Ticket { client: client as u64, call }
}

/// How many clients may be in the handshake at one time: strangers must not use up the descriptors
/// that members and the rest of the process need.
fn openings_limit() -> usize {
    use rustix::process::{Resource, getrlimit};
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(descriptors / 4).unwrap_or(OPENINGS).clamp(1, OPENINGS)
}

/// Errors of `accept` that concern the connection, not the listener.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    )
}

const LISTENER: Token = Token(0);
const WAKER: Token = Token(1);
const FIRST_CLIENT: usize = 2;
const BACKLOG: i32 = 4096;
const SCRATCH: usize = 64 << 10;
/// Clients that may be in the handshake at one time, if there are descriptors enough.
const OPENINGS: usize = 1024;
/// What a member takes at most for the handshake, unless something is wrong.
const PROMPT: Duration = Duration::from_secs(1);
const ACCEPTS_PER_TURN: usize = 64;
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long the thread stays awake after its last work.
const AWAKE: Duration = Duration::from_micros(50);
