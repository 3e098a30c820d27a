//! One connection, shared by all threads that call on it.
//!
//! No thread of its own serves the connection. Of the threads that wait, one reads for all (*the
//! reader*); what is not for itself it leaves on the [`Desk`] and wakes the others. When its own
//! answer has come it goes, and one of the others takes over. So a lone caller goes straight from
//! `write` to `read`, with no hand-over between threads.
//!
//! A call's message is written by its own thread, as far as the connection takes it at once. What
//! is left stays in the outbox, and one of the threads that wait writes it for all (*the writer*).
//! That is the reader, which then waits for both at once, because a server whose answers are not
//! read stops reading; or, if the reader sleeps already, another one. Nobody holds a lock
//! while it waits, so each call keeps to its own deadline. One that gives up leaves its bytes in
//! the outbox, because records cannot be taken back, and its answer to [`drain`].

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::SockRef;

use super::desk::{Broken, Desk, Roles};
use super::drain;
use super::incoming::Incoming;
use super::spin::Awaited;
use crate::auth::Session;
use crate::deadline::Deadline;
use crate::proto::{House, Message, Outbox, Word};
use crate::request::{Reply, Request};
use crate::tcp::expect_loss;

/// A connection and who does what on it.
///
/// The locks are taken in this order: outgoing, desk. Incoming is taken alone.
#[derive(Debug)]
pub(super) struct Link {
    stream: TcpStream,
    local: SocketAddr,
    peer: SocketAddr,
    outgoing: Mutex<Outgoing>,
    /// Held by whoever is the reader.
    incoming: Mutex<Incoming>,
    desk: Mutex<Desk>,
    news: Condvar,
    /// How long the server may be silent.
    silence: Duration,
}

#[derive(Debug)]
struct Outgoing {
    outbox: Outbox,
    /// What the desk says of it; kept here too, so that it is told only when that changes.
    stuck: bool,
}

impl Link {
    pub(super) fn new(stream: TcpStream, session: Session, silence: Duration) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let outgoing = Outgoing { outbox: Outbox::new(session.sealer), stuck: false };
        Ok(Self {
            local: stream.local_addr()?,
            peer: stream.peer_addr()?,
            stream,
            outgoing: Mutex::new(outgoing),
            incoming: Mutex::new(Incoming::new(session.opener)),
            desk: Mutex::default(),
            news: Condvar::new(),
            silence,
        })
    }

    pub(super) fn local(&self) -> SocketAddr {
        self.local
    }

    pub(super) fn peer(&self) -> SocketAddr {
        self.peer
    }

    pub(super) fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out a request on the server. `None`: the server did not answer in time.
    /// `done` are calls whose answers nobody waits for any more.
    pub(super) fn call(
        self: &Arc<Self>,
        call: u64,
        done: Vec<u64>,
        request: &Request<'_>,
        until: Deadline,
    ) -> Result<Option<Reply>, Broken> {
        self.open_call(call)?;
        let answered = self.exchange(call, done, request, until);
        let mut desk = self.desk();
        let late = desk.close(call);
        let reply = answered?.or(late);
        if reply.is_none() {
            desk.abandon(call);
            if !std::mem::replace(&mut desk.draining, true) {
                drop(desk);
                drain::start(self);
            }
        }
        Ok(reply)
    }

    /// Says who calls, and waits until the store has said how it stands.
    pub(super) fn introduce(&self, hello: &Message<'_>, until: Deadline) -> Result<House, Broken> {
        self.send(hello)?;
        let mut desk = self.desk();
        loop {
            match (&desk.house, &desk.broken) {
                (_, Some(broken)) => return Err(broken.clone()),
                (Some(house), None) => return Ok(house.clone()),
                (None, None) if until.has_passed() => {
                    return Err(Broken("it does not answer".to_owned()));
                }
                (None, None) => desk = self.attend(desk, Awaited::Server, until),
            }
        }
    }

    /// How the store stood when it was last heard, also if its last words have not been read yet.
    pub(super) fn last_house(&self) -> House {
        if let Ok(mut incoming) = self.incoming.try_lock() {
            while let Some(received) = incoming.look(&self.stream) {
                let Ok(words) = incoming.open(Some(received)) else { break };
                self.desk().deliver(words);
            }
        }
        self.desk().house.clone().unwrap_or_default()
    }

    fn open_call(&self, call: u64) -> Result<(), Broken> {
        let mut desk = self.desk();
        match &desk.broken {
            Some(broken) => Err(broken.clone()),
            None => {
                desk.open(call);
                Ok(())
            }
        }
    }

    fn exchange(
        &self,
        call: u64,
        done: Vec<u64>,
        request: &Request<'_>,
        until: Deadline,
    ) -> Result<Option<Reply>, Broken> {
        let wait = !until.has_passed();
        let answer_by = if wait { until } else { Deadline::after(LOOK_GRACE) };
        let awaited = if wait && request.can_wait() { Awaited::Others } else { Awaited::Server };
        self.send(&Message::Call { call, wait, done, request: request.clone() })?;
        let reply = self.await_answer(call, awaited, answer_by)?;
        if reply.is_some() || !wait {
            return Ok(reply);
        }
        // The server says what was missing, or that the answer came in the same moment after all.
        self.send(&Message::Cancel { call })?;
        self.await_answer(call, Awaited::Server, Deadline::after(CANCEL_GRACE))
    }

    /// Writes a message, or as much of it as the connection takes at once.
    fn send(&self, message: &Message<'_>) -> Result<(), Broken> {
        let mut outgoing = self.outgoing();
        outgoing.outbox.push(message);
        self.flush(&mut outgoing)
    }

    /// Waits for a call's answer, doing what work there is for everybody if nobody else does.
    fn await_answer(
        &self,
        call: u64,
        awaited: Awaited,
        until: Deadline,
    ) -> Result<Option<Reply>, Broken> {
        let mut desk = self.desk();
        let mut looked = false;
        loop {
            if let Some(reply) = desk.answer(call) {
                return Ok(Some(reply));
            }
            if let Some(broken) = &desk.broken {
                return Err(broken.clone());
            }
            if looked && until.has_passed() {
                return Ok(None);
            }
            looked = true;
            desk = self.attend(desk, awaited, until);
        }
    }

    /// Takes the roles that nobody has for one turn, then leaves the answers on the desk and wakes
    /// the others: for their answers, and to take over should this thread's own be among them.
    /// Sleeps if there is nothing to do.
    pub(super) fn attend<'a>(
        &'a self,
        mut desk: MutexGuard<'a, Desk>,
        awaited: Awaited,
        mut until: Deadline,
    ) -> MutexGuard<'a, Desk> {
        let Some(mine) = desk.claim() else { return self.sleep(desk, until) };
        if desk.stuck && !(mine.reads && mine.writes) {
            // Whoever has the other role may leave it; a thread in `poll` would not hear of that.
            until = until.min(Deadline::after(TURN));
        }
        drop(desk);
        let received = self.serve(mine, awaited, until);
        let mut desk = self.desk();
        desk.release(mine);
        match received {
            Ok(words) => {
                let had_standby = desk.has_standby();
                desk.deliver(words);
                if desk.has_standby() && !had_standby {
                    // If it cannot be told, losing the store takes longer to notice.
                    let _ = expect_loss(SockRef::from(&self.stream), self.silence);
                }
            }
            Err(broken) => {
                desk.broken.get_or_insert(broken);
            }
        }
        if desk.has_company() {
            self.news.notify_all();
        }
        desk
    }

    fn sleep<'a>(&self, desk: MutexGuard<'a, Desk>, until: Deadline) -> MutexGuard<'a, Desk> {
        let left = until.remaining().unwrap_or(LONG);
        self.news.wait_timeout(desk, left).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits until the connection can be read or written, does that, and gives the answers that
    /// are complete then, which may be none.
    fn serve(&self, mine: Roles, awaited: Awaited, until: Deadline) -> Result<Vec<Word>, Broken> {
        if !mine.writes {
            return self.receive(awaited, until);
        }
        let what = if mine.reads { PollFlags::IN | PollFlags::OUT } else { PollFlags::OUT };
        let ready = self.ready(what, until)?;
        let words = if mine.reads && ready.intersects(!PollFlags::OUT) {
            let mut incoming = self.incoming();
            let received = incoming.look(&self.stream);
            incoming.open(received)?
        } else {
            Vec::new()
        };
        if ready.intersects(!PollFlags::IN) {
            self.flush(&mut self.outgoing())?;
        }
        Ok(words)
    }

    fn receive(&self, awaited: Awaited, until: Deadline) -> Result<Vec<Word>, Broken> {
        let mut incoming = self.incoming();
        let mut spins = std::mem::take(&mut incoming.spins);
        let mut received = spins.of(awaited).look(until, || incoming.look(&self.stream));
        incoming.spins = spins;
        if received.is_none() && !self.ready(PollFlags::IN, until)?.is_empty() {
            received = incoming.look(&self.stream);
        }
        incoming.open(received)
    }

    /// Writes what the connection takes without waiting.
    fn flush(&self, outgoing: &mut Outgoing) -> Result<(), Broken> {
        let Outgoing { outbox, stuck } = outgoing;
        while !outbox.is_empty() {
            match (&self.stream).write(outbox.unsent()) {
                Ok(count) => outbox.sent(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(self.break_off(&error)),
            }
        }
        if *stuck == outbox.is_empty() {
            *stuck = !*stuck;
            self.desk().stuck = *stuck;
        }
        Ok(())
    }

    /// Sleeps until the connection can be read or written, and says which. Neither if the deadline
    /// or a signal came first.
    fn ready(&self, what: PollFlags, until: Deadline) -> Result<PollFlags, Broken> {
        let mut descriptors = [PollFd::new(&self.stream, what)];
        let left = until.remaining().unwrap_or(LONG).min(LONG);
        let limit = Timespec::try_from(left).expect("an hour is a possible time");
        match poll(&mut descriptors, Some(&limit)) {
            Ok(_) => Ok(descriptors[0].revents()),
            Err(rustix::io::Errno::INTR) => Ok(PollFlags::empty()),
            Err(error) => Err(Broken(error.to_string())),
        }
    }

    fn break_off(&self, reason: &io::Error) -> Broken {
        let broken = Broken(reason.to_string());
        self.desk().broken.get_or_insert_with(|| broken.clone());
        self.news.notify_all();
        broken
    }

    fn outgoing(&self) -> MutexGuard<'_, Outgoing> {
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn incoming(&self) -> MutexGuard<'_, Incoming> {
        self.incoming.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long a server has to answer a call that is not to wait.
pub(super) const LOOK_GRACE: Duration = Duration::from_secs(2);
/// How long a server has to say what a call was missing.
const CANCEL_GRACE: Duration = Duration::from_millis(500);
/// How long a thread keeps one role while another thread has the other.
const TURN: Duration = Duration::from_millis(20);
/// For waits without a limit, which the system's calls do not know.
const LONG: Duration = Duration::from_secs(3600);
