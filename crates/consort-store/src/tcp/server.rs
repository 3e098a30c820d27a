//! The server: one thread, one port, thousands of clients. All that is decided is decided in
//! [`Keeper`]; this file moves bytes. What passes between two stores is in [`pair`].

mod pair;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{self, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::{Events, Interest, Poll, Token, Waker};
use socket2::{Domain, Socket, Type};

use super::complaints::Complaints;
use super::connection::{Connection, End, Turn};
use super::dial::Dial;
use super::feed::Feed;
use super::tune;
use crate::deadline::{Deadline, clock_now};
use crate::error::{Error, HandshakeError, Result};
use crate::keeper::Keeper;
use crate::machine::Ticket;
use crate::mirror::Times;
use crate::proto::{Answer, Message, Word};
use crate::secret::Secret;
pub use pair::Role;
use pair::{Asked, BEHIND, Pair};

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
///
/// A second server can [`follow`](Self::follow) it, and takes over when this one is lost.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    role: Arc<Mutex<Role>>,
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
        let keeper = Keeper::first(Times::within(silence));
        Self::serve(silence, listener, secret, keeper, None)
            .map_err(|source| Error::System { doing: "starting the store's server", source })
    }

    /// Starts a standby: a server that holds the same as the one that `first` calls, and serves in
    /// its place when that is lost. Clients of the first learn of it from there, and go on with it
    /// by themselves: nothing that they were answered is lost, and no call is carried out twice.
    ///
    /// The standby takes over when the first's process ends, or when nothing has been heard of it
    /// for a third of `silence`, but not before three seconds. From the moment that the two are a
    /// pair ([`role`](Self::role) tells), the first answers nobody before the standby knows what it
    /// answers. If the standby's process ends, the first goes on alone. If the standby is out of
    /// reach the first cannot know whether it has been replaced, and does not serve any more: so
    /// there are never two stores that serve.
    ///
    /// ```
    /// use consort_store::{Deadline, Dial, Role, Secret, Server, Store, TcpStore};
    /// use std::time::Duration;
    ///
    /// let secret = Secret::generate()?;
    /// let first = Server::start("127.0.0.1:0".parse().unwrap(), &secret)?;
    /// let until = Deadline::after(Duration::from_secs(10));
    /// let store = TcpStore::connect(first.address(), &secret, until)?;
    /// store.add("count", 1)?;
    ///
    /// let listener = Server::listen("127.0.0.1:0".parse().unwrap())?;
    /// let dial = Dial::new(first.address(), &secret).named("standby");
    /// let standby = Server::follow(Duration::ZERO, listener, &dial, until)?;
    /// while standby.role() != (Role::Follows { ready: true }) {
    ///     std::thread::yield_now();
    /// }
    /// drop(first);
    /// assert_eq!(store.add("count", 1)?, 2);
    /// # Ok::<(), consort_store::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the first cannot be reached until `until`, or the system has no descriptors or threads
    /// left.
    pub fn follow(
        silence: Duration,
        listener: TcpListener,
        first: &Dial,
        until: Deadline,
    ) -> Result<Self> {
        let connected = first.connect(until)?;
        let keeper = Keeper::second(clock_now(), Times::within(silence));
        pair::feed(connected, &listener)
            .and_then(|feed| Self::serve(silence, listener, first.secret(), keeper, Some(feed)))
            .map_err(|source| Error::System { doing: "starting a standby of the store", source })
    }

    /// What this server does at present.
    pub fn role(&self) -> Role {
        self.role.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The address it listens on, with its real port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    fn serve(
        silence: Duration,
        listener: TcpListener,
        secret: &Secret,
        keeper: Keeper,
        mut feed: Option<Feed>,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let mut listener = mio::net::TcpListener::from_std(listener);
        let poll = Poll::new()?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        if let Some(feed) = &mut feed {
            let both = Interest::READABLE | Interest::WRITABLE;
            poll.registry().register(feed.stream(), FEED, both)?;
        }
        let pair = Pair::new(&keeper, feed);
        let role = pair.role.clone();
        let (stop, stopped) = mpsc::channel();
        let room = Room {
            poll,
            listener,
            secret: secret.clone(),
            silence,
            keeper,
            pair,
            connections: HashMap::new(),
            clients: HashMap::new(),
            next: FIRST_CLIENT,
            openings: VecDeque::new(),
            opening_count: 0,
            openings_limit: openings_limit(),
            accept_again: None,
            complaints: Complaints::new(clock_now()),
            again: Vec::new(),
            unwritten: Vec::new(),
            scratch: vec![0; SCRATCH].into(),
            stopped,
        };
        let thread = std::thread::Builder::new()
            .name("consort-store".to_owned())
            .spawn(move || room.run())?;
        Ok(Self { address, role, stop: Some(stop), waker, thread: Some(thread) })
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
    keeper: Keeper,
    /// The other store, if there is one.
    pair: Pair,
    connections: HashMap<usize, Connection>,
    /// Which connection a client has.
    clients: HashMap<u64, usize>,
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
                    FEED => self.follow(),
                    Token(client) => self.serve(client, event),
                }
            }
            self.look_at_clock(now);
            self.pass_on();
            self.write_answers();
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
        let due = self.keeper.due_at(now);
        let next = opening.into_iter().chain(self.accept_again).chain(due).min()?;
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
        let client = self.next;
        let greeted = Connection::greet(stream, peer, client as u64, &self.secret);
        let Ok(mut connection) = greeted else { return };
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
        if self.is_behind() && !self.pair.is_second(client) {
            self.pair.postponed.push(client);
            return;
        }
        let Some(connection) = self.connections.get_mut(&client) else { return };
        let (keeper, unwritten, now) = (&mut self.keeper, &mut self.unwritten, clock_now());
        let was_open = connection.is_open();
        let mut who = connection.client;
        let mut asked = Vec::new();
        let turn = connection.read(&mut self.scratch, to_the_end, |message, outbox| {
            let first = keeper.answers.len();
            match message {
                Message::Call { call, wait, done, request } => {
                    keeper.call(Ticket { client: who, call }, wait, &done, &request, now);
                }
                Message::Cancel { call } => keeper.cancel(Ticket { client: who, call }, now),
                Message::Hello { client, epoch, open } => {
                    who = client;
                    keeper.welcome(client, epoch, &open, now);
                }
                Message::Attach { address } => asked.push(Asked::Attach(address)),
                Message::Have { index } => asked.push(Asked::Have(index)),
                Message::Took => asked.push(Asked::Took),
            }
            // The caller's own answer goes straight into its outbox, which bounds what it can
            // ask for; answers to others wait until its turn is over.
            if keeper.answers.get(first).is_some_and(|(ticket, _)| ticket.client == who) {
                let (Ticket { call, .. }, reply) = keeper.answers.remove(first);
                outbox.push(&Word::Answer(Answer { call, reply }));
                unwritten.push(client);
            }
            keeper.held() <= BEHIND
        });
        if !was_open && connection.is_open() {
            self.opening_count -= 1;
            connection.tell(&Word::House(self.pair.told.clone()));
            self.unwritten.push(client);
        }
        self.know(client, who);
        for word in asked {
            self.hear_second(client, word);
        }
        match turn {
            Ok(Turn::Dry | Turn::Choked) => {}
            Ok(Turn::More) => self.again.push(client),
            Err(end) => self.close(client, &end),
        }
        self.pass_on();
    }

    /// Remembers which client has this connection. If it has another, that is an old one.
    fn know(&mut self, connection: usize, client: u64) {
        let Some(known) = self.connections.get_mut(&connection) else { return };
        if known.client == client {
            return;
        }
        known.client = client;
        if let Some(old) = self.clients.insert(client, connection) {
            self.close(old, &End::Gone);
        }
    }

    /// Puts the answers that the last message brought about into their clients' outboxes.
    fn deliver(&mut self) {
        let mut answers = std::mem::take(&mut self.keeper.answers);
        for (Ticket { client, call }, reply) in answers.drain(..) {
            let place = self.clients.get(&client).copied().unwrap_or(client as usize);
            let Some(connection) = self.connections.get_mut(&place) else { continue };
            match connection.answer(&Word::Answer(Answer { call, reply })) {
                Ok(()) => self.unwritten.push(place),
                Err(end) => self.close(place, &end),
            }
        }
        self.keeper.answers.append(&mut answers);
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
        self.resume();
    }

    fn look_at_clock(&mut self, now: Instant) {
        self.keeper.tick(now);
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
        if self.pair.is_second(client) {
            self.lose_second(end);
        }
        // A client that has come back has another connection by now.
        let gone = connection.client;
        match self.clients.get(&gone) {
            Some(place) if *place != client => return,
            Some(_) => drop(self.clients.remove(&gone)),
            None => {}
        }
        self.keeper.forget(gone, clock_now());
    }

    /// One line for whoever was not let in or had to be closed.
    fn complain(&mut self, peer: &str, end: &End) {
        let what = match end {
            End::Gone | End::Lost => return,
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
/// The store that this one follows.
const FEED: Token = Token(2);
const FIRST_CLIENT: usize = 3;
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
