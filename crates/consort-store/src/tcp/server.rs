//! The server: one thread, one port, thousands of clients. What it does with them is in [`room`], what
//! passes between two stores in [`pair`]; this file has the thread and its sockets.

mod pair;
pub(super) mod room;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{self, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token, Waker};
use socket2::{Domain, Socket, Type};

use super::dial::Dial;
use super::feed::Feed;
use super::tune;
use crate::deadline::{Deadline, clock_now};
use crate::error::{Error, Result};
use crate::keeper::Keeper;
use crate::mirror::Times;
use crate::secret::Secret;
pub use pair::Role;
use room::{Door, FIRST_CLIENT, Room};

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
        listen().map_err(|source: std::io::Error| Error::Listen { address, source: source.into() })
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
        Self::serve(silence, listener, secret, keeper, None).map_err(|source| Error::System {
            doing: "starting the store's server",
            source: source.into(),
        })
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
            .map_err(|source| Error::System {
                doing: "starting a standby of the store",
                source: source.into(),
            })
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
        let sockets = Sockets::new(listener, silence)?;
        let waker = Waker::new(sockets.poll.registry(), WAKER)?;
        if let Some(feed) = &mut feed {
            let both = Interest::READABLE | Interest::WRITABLE;
            sockets.poll.registry().register(feed.stream(), FEED, both)?;
        }
        let room = Room::new(sockets, secret, keeper, feed);
        let role = room.role();
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("consort-store".to_owned())
            .spawn(move || run(room, &stopped))?;
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

/// Where the clients of a real server come from.
#[derive(Debug)]
struct Sockets {
    poll: Poll,
    listener: mio::net::TcpListener,
    /// How long a client may be silent.
    silence: Duration,
}

impl Sockets {
    fn new(listener: TcpListener, silence: Duration) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let mut listener = mio::net::TcpListener::from_std(listener);
        let poll = Poll::new()?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        Ok(Self { poll, listener, silence })
    }
}

impl Door for Sockets {
    type Stream = mio::net::TcpStream;

    fn accept(&mut self) -> io::Result<(Self::Stream, SocketAddr)> {
        self.listener.accept()
    }

    fn watch(&mut self, stream: &mut Self::Stream, connection: usize) -> io::Result<()> {
        tune(socket2::SockRef::from(&*stream), self.silence)?;
        let both = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(stream, Token(connection), both)
    }

    fn forget(&mut self, stream: &mut Self::Stream) {
        // The connection is dropped either way, and the system forgets it then.
        let _ = self.poll.registry().deregister(stream);
    }
}

/// What the serving thread does, until nobody can tell it to stop any more.
fn run(mut room: Room<Sockets>, stopped: &mpsc::Receiver<()>) {
    let mut events = Events::with_capacity(1024);
    let mut last_event = clock_now();
    loop {
        let timeout = timeout(&room, clock_now(), last_event);
        match room.door.poll.poll(&mut events, timeout) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                tracing::error!(%error, "the store's server cannot wait for clients: it ends");
                return;
            }
        }
        let now = clock_now();
        if !events.is_empty() || room.has_more() {
            last_event = now;
        } else if timeout == Some(Duration::ZERO) {
            std::thread::yield_now();
        }
        room.read_more();
        for event in &events {
            match event.token() {
                LISTENER => room.accept(),
                WAKER if stopped.try_recv() == Err(TryRecvError::Disconnected) => return,
                WAKER => {}
                FEED => room.follow(),
                Token(client) => {
                    if event.is_writable() {
                        room.write(client);
                    }
                    if event.is_readable() {
                        room.read(client, event.is_read_closed());
                    }
                }
            }
        }
        room.finish_turn(now);
    }
}

/// How long to sleep. Right after work, not at all: the next request is often only microseconds
/// away, and a sleeping thread would answer it several times later. Others may run meanwhile.
fn timeout(room: &Room<Sockets>, now: Instant, last_event: Instant) -> Option<Duration> {
    if room.has_more() || now.duration_since(last_event) < AWAKE {
        return Some(Duration::ZERO);
    }
    Some(room.due_at(now)?.saturating_duration_since(now) + Duration::from_millis(1))
}

const LISTENER: Token = Token(0);
const WAKER: Token = Token(1);
/// The store that this one follows. Clients have the numbers after it.
const FEED: Token = Token(FIRST_CLIENT - 1);
const BACKLOG: i32 = 4096;
/// How long the thread stays awake after its last work.
const AWAKE: Duration = Duration::from_micros(50);
