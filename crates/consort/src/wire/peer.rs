//! The connections to one other process.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use consort_store::Secret;
use consort_store::auth::Session;
use consort_sys::socket;
use rustix::net::sockopt::set_tcp_congestion;

use super::caller::{Caller, Dialling, Made};
use super::frame::{HEADER, Header, Kind, Label};
use super::mourning::LastWords;
use super::stream::Stream;

/// Another process, as far as the wire knows it.
#[derive(Debug)]
pub(super) struct Peer {
    caller: Caller,
    endpoint: SocketAddr,
    role: Role,
    /// Whether it is on this host, and everyone has a core: with fewer, metering keeps what is under way
    /// in the caches.
    is_near: bool,
    /// Since when there should be one.
    needed: Option<Instant>,
    pub(super) streams: Vec<Stream>,
    pub(super) dialling: Option<Dialling>,
    /// When a dial that failed may be repeated.
    again: Option<Instant>,
    /// How many have failed since there was a connection.
    failed: u32,
    /// Why it cannot be heard any more.
    lost: Option<String>,
    /// Whether that is because nothing is heard of its host.
    out_of_reach: bool,
    /// Since when not all connections are there that were.
    breaking: Option<Instant>,
    /// Whether it sent what cannot be, and what.
    pub(super) damage: Option<String>,
    /// By group, and whether it is messages: these may wait for ever, calls may not.
    flows: BTreeMap<(u64, bool), Flow>,
    /// On how many connections it has yet to say that it left a group.
    left: BTreeMap<u64, u64>,
    pub(super) last_words: LastWords,
}

/// What this process does about connections to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It opens them.
    Dials,
    /// It opens the first one if the other does not.
    LetsDial,
    /// The same, but there may be no way to the other's port: that it cannot be reached means nothing.
    Hopes,
}

/// How many bytes of a group went to it and came from it. Between two processes no more of a group's
/// bytes are on their way, or kept, than the other has said it has used up, and [`WINDOW`].
#[derive(Debug, Default)]
struct Flow {
    sent: u64,
    /// As it has said.
    used_there: u64,
    used_here: u64,
    /// What it was told of that.
    told: u64,
}

impl Peer {
    pub(super) fn new(me: u32, rank: u32, endpoint: SocketAddr, role: Role, is_near: bool) -> Self {
        Self {
            caller: Caller { from: me, to: rank, stream: 0 },
            endpoint,
            role,
            is_near,
            needed: None,
            streams: Vec::new(),
            dialling: None,
            again: None,
            failed: 0,
            lost: None,
            out_of_reach: false,
            breaking: None,
            damage: None,
            flows: BTreeMap::new(),
            left: BTreeMap::new(),
            last_words: LastWords::default(),
        }
    }

    pub(super) fn rank(&self) -> u32 {
        self.caller.to
    }

    /// Whether it cannot be heard any more. What it sent before is read first; but if only some of the
    /// connections end, what they had is gone.
    pub(super) fn is_lost(&self) -> bool {
        let is_heard = || self.streams.iter().any(|stream| !stream.is_over());
        self.lost.is_some()
            || self.breaking.is_some_and(|since| since.elapsed() > BREAK)
            || self.last_words.is_reported(is_heard())
    }

    /// How long its host has been silent, if it should not have been: what is sent to it is acknowledged
    /// by its system, whatever the process does, and so are the questions that ours asks in idle times.
    pub(super) fn silence(&self, liveness: Duration) -> Option<Duration> {
        let stream = self.streams.iter().find(|stream| !stream.is_over())?;
        let socket::Silence { since, is_owed } = socket::silence(stream.socket()).ok()?;
        (since > if is_owed { liveness } else { liveness.max(IDLE) }).then_some(since)
    }

    /// Takes notice that one connection has ended.
    pub(super) fn end_stream(&mut self, at: usize, why: &str) {
        self.streams[at].end();
        // One that ends in good order ends them all, however long it takes to read what is in them.
        if !self.last_words.has_begun() {
            self.breaking.get_or_insert_with(Instant::now);
        }
        if self.streams.iter().all(Stream::is_over) {
            self.lose(why);
        }
    }

    /// Takes notice that it cannot be heard any more.
    pub(super) fn lose(&mut self, why: &str) {
        if self.lost.is_none() {
            tracing::debug!("rank {} is lost: {why}", self.rank());
        }
        self.lost.get_or_insert_with(|| why.to_owned());
        self.streams.iter_mut().for_each(Stream::end);
        self.dialling = None;
    }

    /// Takes notice that its host has been silent for so long, though it should not have been.
    pub(super) fn lose_host(&mut self, silence: Duration) {
        self.out_of_reach |= self.lost.is_none();
        self.lose(&format!("its host has acknowledged nothing for {silence:.1?}"));
    }

    pub(super) fn is_out_of_reach(&self) -> bool {
        self.out_of_reach
    }

    /// Takes a connection that was made.
    pub(super) fn welcome(&mut self, stream: Stream) {
        if self.lost.is_none() {
            (self.again, self.failed) = (None, 0);
            if self.is_near {
                // Some systems meter out what is sent, so as not to fill the queues of networks.
                // There is none here. Those who cannot do without do with it.
                let _ = set_tcp_congestion(stream.socket(), UNMETERED);
            }
            self.streams.push(stream);
        }
    }

    /// Makes as many connections as are wanted, one after the other, if it is this process's part to; or
    /// the first one, if the other does not, which may not need it. If both do, there are two.
    pub(super) fn connect(&mut self, wanted: usize, secret: &Secret) -> Option<Connected> {
        if self.lost.is_some() {
            return None;
        }
        let mut is_overdue = || {
            let needed = self.needed.get_or_insert_with(Instant::now);
            self.streams.is_empty() && needed.elapsed() > COURTESY
        };
        let may_begin = match self.role {
            Role::Dials => true,
            Role::LetsDial | Role::Hopes => is_overdue(),
        };
        if !may_begin && self.dialling.is_none() {
            return None;
        }
        if self.dialling.is_none() && self.streams.len() < wanted && self.may_dial() {
            let stream = self.streams.len() as u32;
            match Dialling::begin(self.endpoint, Caller { stream, ..self.caller }) {
                Ok(dialling) => self.dialling = Some(dialling),
                Err(error) => self.fail(&error.to_string(), false),
            }
        }
        match self.dialling.take()?.go_on(secret) {
            Made::NotYet(dialling) => self.dialling = Some(dialling),
            Made::Refused(reason) => self.fail(&reason, false),
            Made::Closed => self.fail("nobody listens there", true),
            Made::Here(_, socket, session) => return Some((socket, session)),
        }
        None
    }

    /// How many bytes of a frame may be sent now, of which there is no part on its way.
    pub(super) fn may_send(&self, header: &Header) -> bool {
        self.flows.get(&flow(header)).is_none_or(|flow| {
            flow.sent.saturating_sub(flow.used_there).saturating_add(charge(header)) <= WINDOW
        })
    }

    pub(super) fn has_sent(&mut self, header: &Header) {
        self.flows.entry(flow(header)).or_default().sent += charge(header);
    }

    /// Takes notice of bytes that were used up here. They are told of when there are enough.
    pub(super) fn use_up(&mut self, header: &Header) {
        let flow = self.flows.entry(flow(header)).or_default();
        flow.used_here += charge(header);
        if flow.used_here - flow.told >= WINDOW / 4 {
            flow.told = flow.used_here;
            let number = flow.used_here;
            let label = Label { track: u16::from(header.kind == Kind::Letter), position: 0 };
            let credit = word(Kind::Credit, header.group, header.epoch, number);
            self.say(&Header { label, ..credit }, &[]);
        }
    }

    /// Takes notice of what it says it has used up.
    pub(super) fn credit(&mut self, credit: &Header) {
        let flow = self.flows.entry((credit.group, credit.label.track == 1)).or_default();
        flow.used_there = flow.used_there.max(credit.number.min(flow.sent));
    }

    /// Takes notice that it has left a group, which it says on so many connections. It reads nothing of
    /// it any more.
    pub(super) fn leave(&mut self, group: u64, times: u64) {
        self.abandon(group);
        let left = self.left.entry(group).or_insert(times);
        *left = left.saturating_sub(1);
    }

    /// Whether it has left a group, and nothing of it is on its way.
    pub(super) fn has_left(&self, group: u64) -> bool {
        self.left.get(&group) == Some(&0) || self.last_words.is_over()
    }

    /// Whether it has said that it has left a group: what it sent before may be on its way, on other
    /// connections than the one on which it was heard.
    pub(super) fn is_leaving(&self, group: u64) -> bool {
        self.left.contains_key(&group) || self.has_left(group)
    }

    /// Forgets a group that this process has left.
    pub(super) fn forget(&mut self, group: u64) {
        self.flows.remove(&(group, false));
        self.flows.remove(&(group, true));
        self.left.remove(&group);
        self.abandon(group);
    }

    /// Gives up what of a group is on its way to it.
    pub(super) fn abandon(&mut self, group: u64) {
        self.streams.iter_mut().for_each(|stream| stream.abandon(group));
    }

    /// Says something on the first connection, if there is one.
    pub(super) fn say(&mut self, header: &Header, data: &[u8]) {
        if !self.streams.is_empty() {
            self.say_on(0, header, data);
        }
    }

    /// Says that this process leaves a group: behind all that it has sent, on every connection.
    pub(super) fn say_farewell(&mut self, group: u64, epoch: u64) {
        self.say_on_all(word(Kind::Leave, group, epoch, self.streams.len() as u64));
    }

    /// Says that this process ends.
    pub(super) fn say_bye(&mut self, epoch: u64) {
        self.say_on_all(word(Kind::Bye, 0, epoch, self.streams.len() as u64));
    }

    fn say_on_all(&mut self, header: Header) {
        (0..self.streams.len()).for_each(|at| self.say_on(at, &header, &[]));
    }

    /// Sends what was said, as far as there is room.
    pub(super) fn flush(&mut self) {
        for at in 0..self.streams.len() {
            if self.streams[at].flush().is_err() {
                self.streams[at].fall_silent();
            }
        }
    }

    fn say_on(&mut self, at: usize, header: &Header, data: &[u8]) {
        self.streams[at].say(header, data);
        if self.streams[at].flush().is_err() {
            // What it has sent before is read first.
            self.streams[at].fall_silent();
        }
    }

    fn may_dial(&self) -> bool {
        self.again.is_none_or(|again| again <= Instant::now())
    }

    /// A connection could not be made. It may be a matter of time.
    fn fail(&mut self, reason: &str, is_refused: bool) {
        if self.again.is_none() {
            let (rank, endpoint) = (self.rank(), self.endpoint);
            tracing::warn!(
                "rank {rank} cannot be reached at {endpoint} ({reason}); it is tried again"
            );
        }
        self.again = Some(Instant::now() + PAUSE);
        self.failed += 1;
        // Its door was open before anybody knew of it.
        let is_telling = is_refused && self.role != Role::Hopes;
        if is_telling && self.failed >= TRIES && self.streams.is_empty() {
            self.lose(reason);
        }
    }
}

/// A connection that was made and its session.
type Connected = (Arc<TcpStream>, Session);

/// A frame without data that is about no call.
pub(super) fn word(kind: Kind, group: u64, epoch: u64, number: u64) -> Header {
    let label = Label { track: 0, position: 0 };
    let (bytes, sum, digest, call) = (0, None, 0, [0; 2]);
    Header { kind, label, bytes, sum, group, epoch, number, digest, call }
}

/// To which flow a frame belongs.
fn flow(header: &Header) -> (u64, bool) {
    (header.group, header.kind == Kind::Letter)
}

/// What a frame counts for. Small parts of calls count for more than they are: nobody shall be far ahead
/// of another, who could find out too late that they make different calls.
fn charge(header: &Header) -> u64 {
    let bytes = u64::from(header.bytes) + HEADER as u64;
    if header.kind == Kind::Part { bytes.max(LEAST) } else { bytes }
}

/// What nearly every Linux has for sending as much as the other side takes.
const UNMETERED: &str = "cubic";
/// So many small parts of calls may be on their way.
const LEAST: u64 = WINDOW / 80;
/// How many bytes of a group may be on their way between two processes, or kept.
const WINDOW: u64 = 16 << 20;
/// How long the one is left to open a connection whose part it is.
const COURTESY: Duration = Duration::from_millis(20);
/// When one connection ends, so long the others may take to.
const BREAK: Duration = Duration::from_millis(500);
/// A rank where so many dials in a row find nobody has ended.
const TRIES: u32 = 10;
/// A host that is owed nothing may be silent for so long.
const IDLE: Duration = Duration::from_secs(15);
/// Before a dial is repeated.
const PAUSE: Duration = Duration::from_millis(200);
