//! A client's handle on a server's store. Many threads may call at once on one connection: each
//! call has its number, and answers come in any order.
//!
//! No thread of its own reads the connection. Of the threads that wait, one reads for all
//! (*the reader*); what is not for itself it leaves in `answers` and wakes the others. When its
//! own answer has come it goes, and one of the others takes over. So a lone caller goes straight
//! from `write` to `read`, with no hand-over between threads.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::dial::Dial;
use crate::auth::Session;
use crate::deadline::{Deadline, clock_now};
use crate::error::{Error, Result};
use crate::proto::{Answer, Inbox, Message, Outbox};
use crate::request::{Limits, Reply, Request};
use crate::secret::Secret;
use crate::store::{DEFAULT_PATIENCE, Store, no_answer, settle};

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
        self.link.local
    }

    /// The server's address.
    pub fn peer_address(&self) -> SocketAddr {
        self.link.peer
    }
}

impl Store for TcpStore {
    fn call(&self, request: &Request<'_>, until: Deadline) -> Result<Reply> {
        request.check(&Limits::STANDARD)?;
        let started = clock_now();
        let verb = request.verb();
        let reply = self.link.call(request, until, self.patience);
        let reply = reply.map_err(|broken| broken.into_error(self.dial.address()))?;
        match reply {
            Some(reply) => settle(reply, verb, || started.elapsed()),
            None => Err(no_answer(verb, started.elapsed())),
        }
    }

    fn duplicate(&self) -> Result<Arc<dyn Store>> {
        let again = Self::dial(self.dial.clone(), self.soon())?;
        Ok(Arc::new(again.with_patience(self.patience)))
    }

    fn patience(&self) -> Duration {
        self.patience
    }
}

/// One connection, shared by all threads that call on it.
#[derive(Debug)]
struct Link {
    stream: TcpStream,
    local: SocketAddr,
    peer: SocketAddr,
    outbox: Mutex<Outbox>,
    /// Held by whoever is the reader.
    inbox: Mutex<Incoming>,
    desk: Mutex<Desk>,
    news: Condvar,
}

/// Where answers are left for those who wait for them.
#[derive(Debug, Default)]
struct Desk {
    next_call: u64,
    /// The calls under way, each with its answer once that has come. They are few.
    places: Vec<(u64, Option<Reply>)>,
    has_reader: bool,
    broken: Option<Broken>,
}

impl Desk {
    fn place(&mut self, call: u64) -> Option<&mut Option<Reply>> {
        self.places.iter_mut().find(|(other, _)| *other == call).map(|(_, answer)| answer)
    }
}

#[derive(Debug)]
struct Incoming {
    inbox: Inbox,
    scratch: Box<[u8]>,
    /// Whether looking again and again for a moment has paid off lately.
    spin: Spin,
}

/// Why a connection is of no more use.
#[derive(Clone, Debug)]
struct Broken(String);

impl Broken {
    fn into_error(self, peer: &str) -> Error {
        Error::Lost { peer: peer.to_owned(), reason: self.0 }
    }
}

/// Looks for an answer again and again for a moment before going to sleep, and lets others run in
/// between. On an idle machine the answer is there sooner than a sleeper could be woken; on a
/// crowded one the server is spared the waking, which costs more than a turn of everybody. Where
/// it does not pay, because the answer is far away, it is not tried again but for a probe now and
/// then.
#[derive(Debug, Default)]
struct Spin {
    misses: u32,
}

impl Spin {
    fn look<T>(&mut self, until: Deadline, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        if self.misses >= Self::PATIENCE && !self.misses.is_multiple_of(Self::PROBE) {
            self.misses = self.misses.wrapping_add(1).max(Self::PATIENCE);
            return None;
        }
        let mut end = None;
        loop {
            std::thread::yield_now();
            if let Some(found) = look() {
                self.misses = 0;
                return Some(found);
            }
            if end.get_or_insert_with(|| until.min(Deadline::after(Self::LIMIT))).has_passed() {
                self.misses = self.misses.wrapping_add(1).max(1);
                return None;
            }
        }
    }

    /// A few turns of some hundred clients on a core.
    const LIMIT: Duration = Duration::from_millis(10);
    /// So many misses in a row are forgiven.
    const PATIENCE: u32 = 3;
    /// Every so many-th wait is a probe.
    const PROBE: u32 = 32;
}

impl Link {
    fn new(stream: TcpStream, session: Session) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let incoming = Incoming {
            inbox: Inbox::new(session.opener),
            scratch: vec![0; SCRATCH].into(),
            spin: Spin::default(),
        };
        Ok(Self {
            local: stream.local_addr()?,
            peer: stream.peer_addr()?,
            stream,
            outbox: Mutex::new(Outbox::new(session.sealer)),
            inbox: Mutex::new(incoming),
            desk: Mutex::default(),
            news: Condvar::new(),
        })
    }

    /// Carries out a request on the server. `None`: the server did not answer in time.
    fn call(
        &self,
        request: &Request<'_>,
        until: Deadline,
        patience: Duration,
    ) -> Result<Option<Reply>, Broken> {
        let call = self.open_call()?;
        let wait = !until.has_passed();
        let answer_by = if wait { until } else { Deadline::after(patience) };
        let result = self.exchange(call, wait, request, answer_by);
        self.desk().places.retain(|(other, _)| *other != call);
        result
    }

    fn exchange(
        &self,
        call: u64,
        wait: bool,
        request: &Request<'_>,
        answer_by: Deadline,
    ) -> Result<Option<Reply>, Broken> {
        self.send(&Message::Call { call, wait, request: request.clone() }, answer_by)?;
        if let Some(reply) = self.await_answer(call, answer_by)? {
            return Ok(Some(reply));
        }
        // The server says what was missing, or that the answer came in the same moment after all.
        let grace = Deadline::after(CANCEL_GRACE);
        self.send(&Message::Cancel { call }, grace)?;
        self.await_answer(call, grace)
    }

    fn open_call(&self) -> Result<u64, Broken> {
        let mut desk = self.desk();
        if let Some(broken) = &desk.broken {
            return Err(broken.clone());
        }
        let call = desk.next_call;
        desk.next_call += 1;
        desk.places.push((call, None));
        Ok(call)
    }

    /// Writes a message, or as much of it as the server takes before the deadline. The rest stays
    /// in the outbox and goes out before the next message: records cannot be taken back.
    fn send(&self, message: &Message<'_>, until: Deadline) -> Result<(), Broken> {
        let mut outbox = self.outbox.lock().unwrap_or_else(PoisonError::into_inner);
        outbox.push(message);
        while !outbox.is_empty() {
            match (&self.stream).write(outbox.unsent()) {
                Ok(count) => outbox.sent(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if until.has_passed() {
                        return Ok(());
                    }
                    self.ready(PollFlags::OUT, until)?;
                }
                Err(error) => return Err(self.break_off(&error)),
            }
        }
        Ok(())
    }

    /// Waits for a call's answer, reading for everybody if nobody else does.
    fn await_answer(&self, call: u64, until: Deadline) -> Result<Option<Reply>, Broken> {
        let mut desk = self.desk();
        let mut looked = false;
        loop {
            if let Some(reply) = desk.place(call).and_then(Option::take) {
                return Ok(Some(reply));
            }
            if let Some(broken) = &desk.broken {
                return Err(broken.clone());
            }
            if looked && until.has_passed() {
                return Ok(None);
            }
            looked = true;
            desk = if desk.has_reader { self.sleep(desk, until) } else { self.read(desk, until)? };
        }
    }

    fn sleep<'a>(&self, desk: MutexGuard<'a, Desk>, until: Deadline) -> MutexGuard<'a, Desk> {
        let left = until.remaining().unwrap_or(LONG);
        self.news.wait_timeout(desk, left).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Is the reader for one read, then leaves the answers on the desk and wakes the others: for
    /// their answers, and to take over should this thread's own be among them.
    fn read<'a>(
        &'a self,
        mut desk: MutexGuard<'a, Desk>,
        until: Deadline,
    ) -> Result<MutexGuard<'a, Desk>, Broken> {
        desk.has_reader = true;
        drop(desk);
        let received = self.receive(until);
        let mut desk = self.desk();
        desk.has_reader = false;
        match received {
            Ok(answers) => {
                for Answer { call, reply } in answers {
                    // Nobody waits any more for an answer that has no place on the desk.
                    if let Some(place) = desk.place(call) {
                        *place = Some(reply);
                    }
                }
            }
            Err(broken) => desk.broken = Some(broken),
        }
        if desk.places.len() > 1 {
            self.news.notify_all();
        }
        Ok(desk)
    }

    /// Waits for bytes and gives the answers that they complete, which may be none.
    fn receive(&self, until: Deadline) -> Result<Vec<Answer>, Broken> {
        let mut incoming = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        let Incoming { inbox, scratch, spin } = &mut *incoming;
        let mut look = || no_block((&self.stream).read(scratch));
        let mut received = spin.look(until, &mut look);
        if received.is_none() && self.ready(PollFlags::IN, until)? {
            received = look();
        }
        let count = match received {
            None => return Ok(Vec::new()),
            Some(Ok(0)) => return Err(Broken("it closed the connection".to_owned())),
            Some(Ok(count)) => count,
            Some(Err(error)) => return Err(Broken(error.to_string())),
        };
        inbox.feed(&scratch[..count]).map_err(|damage| Broken(damage.to_string()))?;
        let mut answers = Vec::new();
        while let Some(answer) = inbox.take().map_err(|damage| Broken(damage.to_string()))? {
            answers.push(answer);
        }
        Ok(answers)
    }

    /// Sleeps until the connection can be read or written. False if the deadline or a signal came
    /// first.
    fn ready(&self, what: PollFlags, until: Deadline) -> Result<bool, Broken> {
        let mut descriptors = [PollFd::new(&self.stream, what)];
        let left = until.remaining().unwrap_or(LONG).min(LONG);
        let limit = Timespec::try_from(left).expect("an hour is a possible time");
        match poll(&mut descriptors, Some(&limit)) {
            Ok(count) => Ok(count > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(Broken(error.to_string())),
        }
    }

    fn break_off(&self, reason: &io::Error) -> Broken {
        let broken = Broken(reason.to_string());
        self.desk().broken.get_or_insert_with(|| broken.clone());
        self.news.notify_all();
        broken
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes "nothing there" a `None`.
fn no_block(result: io::Result<usize>) -> Option<io::Result<usize>> {
    match result {
        Err(error)
            if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) =>
        {
            None
        }
        other => Some(other),
    }
}

const SCRATCH: usize = 64 << 10;
/// How long a server has to say what a call was missing.
const CANCEL_GRACE: Duration = Duration::from_millis(500);
/// For waits without a limit, which the system's calls do not know.
const LONG: Duration = Duration::from_secs(3600);
