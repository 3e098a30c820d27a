//! What a server does with its clients. All that is decided is decided in [`Keeper`]; here bytes are
//! moved, between it and connections of any kind.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::pair::{Asked, BEHIND, Pair, Role};
use crate::deadline::clock_now;
use crate::error::HandshakeError;
use crate::keeper::Keeper;
use crate::machine::Ticket;
use crate::proto::{Answer, Message, Word};
use crate::secret::Secret;
use crate::tcp::complaints::Complaints;
use crate::tcp::connection::{Connection, End, Turn};
use crate::tcp::feed::Feed;

/// Where clients come from.
pub(in crate::tcp) trait Door {
    /// A connection. Reading and writing never wait.
    type Stream: Read + Write;

    /// The next client that wants to connect.
    fn accept(&mut self) -> io::Result<(Self::Stream, SocketAddr)>;

    /// From now on the room is told when something can be read from a connection, or written again.
    fn watch(&mut self, stream: &mut Self::Stream, connection: usize) -> io::Result<()>;

    /// A connection is about to be dropped.
    fn forget(&mut self, stream: &mut Self::Stream);
}

/// What the serving thread works with.
#[derive(Debug)]
pub(in crate::tcp) struct Room<D: Door> {
    pub(in crate::tcp) door: D,
    secret: Secret,
    pub(super) keeper: Keeper,
    /// The other store, if there is one.
    pub(super) pair: Pair<D::Stream>,
    pub(super) connections: HashMap<usize, Connection<D::Stream>>,
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
    pub(super) again: Vec<usize>,
    /// Who has answers to be written.
    pub(super) unwritten: Vec<usize>,
    pub(super) scratch: Box<[u8]>,
}

impl<D: Door> Room<D> {
    pub(in crate::tcp) fn new(
        door: D,
        secret: &Secret,
        keeper: Keeper,
        feed: Option<Feed<D::Stream>>,
    ) -> Self {
        Self {
            door,
            secret: secret.clone(),
            pair: Pair::new(&keeper, feed),
            keeper,
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
        }
    }

    /// What the server does at present, for its owner.
    pub(super) fn role(&self) -> Arc<Mutex<Role>> {
        self.pair.role.clone()
    }

    /// Whether somebody may have more to read than one turn allowed.
    pub(in crate::tcp) fn has_more(&self) -> bool {
        !self.again.is_empty()
    }

    /// When there is something to do even if nothing happens.
    pub(in crate::tcp) fn due_at(&self, now: Instant) -> Option<Instant> {
        let opening = self.openings.front().map(|(since, _)| *since + HANDSHAKE_LIMIT);
        let due = self.keeper.due_at(now);
        opening.into_iter().chain(self.accept_again).chain(due).min()
    }

    /// How many clients have proved that they know the secret.
    #[cfg(test)]
    pub(in crate::tcp) fn members(&self) -> usize {
        self.connections.values().filter(|connection| connection.is_open()).count()
    }

    /// Begins a turn: goes on with those who had more to read.
    pub(in crate::tcp) fn read_more(&mut self) {
        for client in std::mem::take(&mut self.again) {
            self.read(client, true);
        }
    }

    /// Ends a turn: does what the clock demands, and writes what the turn has brought about.
    pub(in crate::tcp) fn finish_turn(&mut self, now: Instant) {
        self.look_at_clock(now);
        self.pass_on();
        self.write_answers();
    }

    /// Takes some of the clients that want to connect; the others get their turn after those who
    /// are connected have had one.
    pub(in crate::tcp) fn accept(&mut self) {
        for _ in 0..ACCEPTS_PER_TURN {
            if self.opening_count >= self.openings_limit && !self.drop_slow_opening() {
                break;
            }
            match self.door.accept() {
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

    fn welcome(&mut self, stream: D::Stream, peer: SocketAddr) {
        let client = self.next;
        let greeted = Connection::greet(stream, peer, client as u64, &self.secret);
        let Ok(mut connection) = greeted else { return };
        if self.door.watch(connection.stream(), client).is_err() {
            return;
        }
        self.next += 1;
        self.openings.push_back((clock_now(), client));
        self.opening_count += 1;
        self.connections.insert(client, connection);
    }

    /// Reads what has come from a client; to the end of the connection, if that may have come.
    pub(in crate::tcp) fn read(&mut self, client: usize, to_the_end: bool) {
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
    pub(super) fn deliver(&mut self) {
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

    /// Writes what a client has room for.
    pub(in crate::tcp) fn write(&mut self, client: usize) {
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

    pub(super) fn close(&mut self, client: usize, end: &End) {
        let Some(mut connection) = self.connections.remove(&client) else { return };
        if !connection.is_open() {
            self.opening_count -= 1;
        }
        if let End::Refused(reason) = end {
            connection.refuse(reason);
        }
        self.complain(&connection.describe(), end);
        self.door.forget(connection.stream());
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

/// Connections have numbers from here on.
pub(super) const FIRST_CLIENT: usize = 3;
const SCRATCH: usize = 64 << 10;
/// Clients that may be in the handshake at one time, if there are descriptors enough.
const OPENINGS: usize = 1024;
/// What a member takes at most for the handshake, unless something is wrong.
const PROMPT: Duration = Duration::from_secs(1);
const ACCEPTS_PER_TURN: usize = 64;
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
