//! What a network is made of, and what happens next in it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io;
use std::time::Duration;

use super::pipe::{Closing, Pipe};
use super::{Dice, End, Socket};

/// What happens on a host.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Clone, Copy)]
pub enum Event<S = Socket> {
    /// Somebody has connected.
    Opened(S),
    /// Bytes have come, or the end of a connection.
    Readable(End),
    /// There is room again on a connection that had none.
    Writable(End),
    /// The clock shows what it was to be waited for.
    Alarm(u64),
}

impl Event<End> {
    pub(super) fn with(self, socket: impl FnOnce(End) -> Socket) -> Event {
        match self {
            Self::Opened(end) => Event::Opened(socket(end)),
            Self::Readable(end) => Event::Readable(end),
            Self::Writable(end) => Event::Writable(end),
            Self::Alarm(token) => Event::Alarm(token),
        }
    }
}

/// How often what went wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Bytes came in pieces.
    pub pieces: u64,
    /// Connections that broke.
    pub breaks: u64,
    /// Connections that were lost in silence.
    pub losses: u64,
    /// Processes that ended.
    pub ends: u64,
    /// Hosts that vanished.
    pub vanished: u64,
    /// Processes that stood still.
    pub stops: u64,
    /// Ways that were cut.
    pub cuts: u64,
}

/// All of it. Moments are in microseconds.
#[derive(Debug)]
pub(super) struct Fabric {
    now: u64,
    pub(super) dice: Dice,
    shows: bool,
    queue: BinaryHeap<Reverse<(u64, u64, Due)>>,
    queued: u64,
    hosts: Vec<Host>,
    connections: Vec<Connection>,
    /// Until when a way is cut.
    cuts: BTreeMap<[usize; 2], u64>,
    pub(super) faults: Faults,
}

#[derive(Debug)]
struct Host {
    state: State,
    /// Which of its processes this is.
    life: u64,
    stopped_until: u64,
    /// What its clock showed in the beginning, and how much it gains in a thousand.
    offset: u64,
    rate: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Alive,
    Ended,
    Vanished,
}

#[derive(Debug)]
struct Connection {
    hosts: [usize; 2],
    is_open: [bool; 2],
    /// What is on its way to each side.
    pipes: [Pipe; 2],
}

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// Somebody who connects is there.
    Arrive(usize),
    /// Bytes for this end are there.
    Bring(End),
    /// This end has heard nothing for too long.
    Lose(End),
    /// A process of a host is to hear of something.
    Tell { host: usize, life: u64, event: Event<End> },
}

impl Fabric {
    pub(super) fn new(seed: u64, hosts: usize, shows: bool) -> Self {
        let mut dice = Dice::new(seed);
        let mut host = || Host {
            state: State::Alive,
            life: 0,
            stopped_until: 0,
            offset: dice.below(1_000_000_000),
            rate: 1000 - DRIFT + dice.below(2 * DRIFT + 1),
        };
        let hosts = (0..hosts).map(|_| host()).collect();
        Self {
            now: 0,
            dice,
            shows,
            queue: BinaryHeap::new(),
            queued: 0,
            hosts,
            connections: Vec::new(),
            cuts: BTreeMap::new(),
            faults: Faults::default(),
        }
    }

    pub(super) fn next(&mut self) -> Option<(usize, Event<End>)> {
        loop {
            let Reverse((at, turn, due)) = self.queue.pop()?;
            self.now = self.now.max(at);
            match due {
                Due::Arrive(connection) => self.arrive(connection),
                Due::Bring(end) => self.bring(end),
                Due::Lose(end) => self.lose(end),
                Due::Tell { host, life, event } => {
                    let it = &self.hosts[host];
                    if it.state != State::Alive || it.life != life || !self.concerns(&event) {
                        continue;
                    }
                    if it.stopped_until > self.now {
                        // In its old turn: what has come keeps its order.
                        self.queue.push(Reverse((it.stopped_until, turn, due)));
                        continue;
                    }
                    self.show(|| format!("host {host}: {event:?}"));
                    return Some((host, event));
                }
            }
        }
    }

    pub(super) fn now(&self) -> Duration {
        Duration::from_micros(self.now)
    }

    pub(super) fn clock(&self, host: usize) -> Duration {
        let Host { offset, rate, .. } = self.hosts[host];
        Duration::from_micros(offset + self.now * rate / 1000)
    }

    pub(super) fn alarm(&mut self, host: usize, at: Duration, token: u64) {
        let Host { offset, rate, .. } = self.hosts[host];
        let at = u64::try_from(at.as_micros()).unwrap_or(u64::MAX);
        let moment = (at.saturating_sub(offset).saturating_mul(1000)).div_ceil(rate);
        self.tell(host, moment.max(self.now), Event::Alarm(token));
    }

    pub(super) fn connect(&mut self, from: usize, to: usize) -> End {
        let pipes = Default::default();
        self.connections.push(Connection { hosts: [from, to], is_open: [true, false], pipes });
        let connection = self.connections.len() - 1;
        let arrives = self.now + self.delay();
        self.push(arrives, Due::Arrive(connection));
        End { connection, side: 0 }
    }

    pub(super) fn read(&mut self, end: End, buffer: &mut [u8]) -> io::Result<usize> {
        let pipe = self.pipe(end);
        let read = pipe.give(buffer);
        if read.as_ref().is_ok_and(|&count| count > 0) && std::mem::take(&mut pipe.wants_room) {
            let other = end.other();
            let at = self.now + self.delay();
            self.tell(self.host(other), at, Event::Writable(other));
        }
        read
    }

    pub(super) fn write(&mut self, end: End, bytes: &[u8]) -> io::Result<usize> {
        let is_open = self.connections[end.connection].is_open[end.side];
        if !is_open || self.pipe(end).is_over() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let other = end.other();
        let written = self.pipe(other).take(bytes)?;
        self.move_on(other);
        Ok(written)
    }

    pub(super) fn is_over(&self, end: End) -> bool {
        self.connections[end.connection].pipes[end.side].is_over()
    }

    pub(super) fn close(&mut self, end: End) {
        let Connection { is_open, pipes, .. } = &mut self.connections[end.connection];
        if !std::mem::replace(&mut is_open[end.side], false) {
            return;
        }
        let has_unread = !pipes[end.side].is_empty();
        pipes[end.side].forget();
        let to_other = &mut pipes[1 - end.side];
        match has_unread {
            // The system cuts a connection off whose data nobody reads.
            true => to_other.cut_off(Some(Closing::Reset), &mut self.dice),
            false => to_other.finish(Closing::Closed),
        }
        self.move_on(end.other());
    }

    pub(super) fn end(&mut self, host: usize, vanishes: bool) {
        let it = &mut self.hosts[host];
        if it.state != State::Alive {
            return;
        }
        it.state = if vanishes { State::Vanished } else { State::Ended };
        self.faults.ends += u64::from(!vanishes);
        self.faults.vanished += u64::from(vanishes);
        self.show(|| format!("host {host} {}", if vanishes { "vanishes" } else { "ends" }));
        for end in self.ends_of(host) {
            self.connections[end.connection].is_open[end.side] = false;
            let how = (!vanishes).then_some(Closing::Closed);
            let other = end.other();
            let Self { connections, dice, .. } = self;
            connections[end.connection].pipes[other.side].cut_off(how, dice);
            self.move_on(other);
            if vanishes {
                self.push(self.now + micros(SILENCE), Due::Lose(other));
            }
        }
    }

    pub(super) fn begin(&mut self, host: usize) {
        let it = &mut self.hosts[host];
        (it.state, it.life, it.stopped_until) = (State::Alive, it.life + 1, 0);
        self.show(|| format!("host {host} begins"));
    }

    pub(super) fn stop(&mut self, host: usize, length: Duration) {
        self.faults.stops += 1;
        self.show(|| format!("host {host} stops for {length:?}"));
        let until = &mut self.hosts[host].stopped_until;
        *until = (*until).max(self.now + micros(length));
    }

    pub(super) fn cut(&mut self, hosts: [usize; 2], length: Duration) {
        self.faults.cuts += 1;
        self.show(|| format!("the way between {hosts:?} is cut for {length:?}"));
        let until = self.cuts.entry(sorted(hosts)).or_default();
        *until = (*until).max(self.now + micros(length));
        if length <= SILENCE {
            return;
        }
        for end in self.ends_of(hosts[0]) {
            if self.host(end.other()) == hosts[1] {
                for end in [end, end.other()] {
                    let at = self.now + micros(SILENCE) + self.delay();
                    self.push(at, Due::Lose(end));
                }
            }
        }
    }

    pub(super) fn break_off(&mut self, end: End) {
        self.faults.breaks += 1;
        self.show(|| format!("connection {} breaks", end.connection));
        for end in [end, end.other()] {
            let Self { connections, dice, .. } = self;
            connections[end.connection].pipes[end.side].cut_off(Some(Closing::Reset), dice);
            self.move_on(end);
        }
    }

    pub(super) fn break_any(&mut self, host: usize) {
        let ends = self.ends_of(host);
        if let Some(&end) = ends.get(self.dice.index(ends.len())) {
            self.break_off(end);
        }
    }

    pub(super) fn show(&self, what: impl FnOnce() -> String) {
        if self.shows {
            println!("{:12.3} ms  {}", self.now as f64 / 1000.0, what());
        }
    }

    /// Somebody who connects is at the host, if there is a way and anybody there.
    fn arrive(&mut self, connection: usize) {
        let [from, to] = self.connections[connection].hosts;
        let caller = End { connection, side: 0 };
        if self.is_cut([from, to]) || self.hosts[to].state == State::Vanished {
            return self.push(self.now + micros(SILENCE), Due::Lose(caller));
        }
        if self.hosts[to].state == State::Ended || !self.connections[connection].is_open[0] {
            self.pipe(caller).finish(Closing::Reset);
            return self.move_on(caller);
        }
        self.connections[connection].is_open[1] = true;
        self.tell(to, self.now, Event::Opened(caller.other()));
        self.move_on(caller.other());
    }

    fn bring(&mut self, end: End) {
        let Connection { hosts, is_open, .. } = self.connections[end.connection];
        let until = self.cuts.get(&sorted(hosts)).copied().unwrap_or(0);
        if until > self.now {
            let at = until + self.delay();
            return self.push(at, Due::Bring(end));
        }
        let Self { connections, dice, faults, .. } = self;
        let pipe = &mut connections[end.connection].pipes[end.side];
        pipe.is_moving = false;
        if is_open[end.side] && pipe.bring(dice, &mut faults.pieces) {
            self.tell(self.host(end), self.now, Event::Readable(end));
            self.move_on(end);
        }
    }

    fn lose(&mut self, end: End) {
        let is_open = self.connections[end.connection].is_open[end.side];
        if is_open && !self.pipe(end).is_over() {
            self.faults.losses += 1;
            self.pipe(end).lose();
            self.tell(self.host(end), self.now, Event::Readable(end));
        }
    }

    /// Has what is on its way to this end come, if somebody is there.
    fn move_on(&mut self, end: End) {
        let Connection { is_open, pipes, .. } = &mut self.connections[end.connection];
        let pipe = &mut pipes[end.side];
        if is_open[end.side] && pipe.has_more() && !std::mem::replace(&mut pipe.is_moving, true) {
            let at = self.now + self.delay();
            self.push(at, Due::Bring(end));
        }
    }

    /// Whether whoever is told of this has the connection still.
    fn concerns(&self, event: &Event<End>) -> bool {
        match event {
            Event::Readable(end) | Event::Writable(end) | Event::Opened(end) => {
                self.connections[end.connection].is_open[end.side]
            }
            Event::Alarm(_) => true,
        }
    }

    fn tell(&mut self, host: usize, at: u64, event: Event<End>) {
        let life = self.hosts[host].life;
        self.push(at, Due::Tell { host, life, event });
    }

    fn push(&mut self, at: u64, due: Due) {
        self.queued += 1;
        self.queue.push(Reverse((at, self.queued, due)));
    }

    /// Most of what is sent comes soon, some much later.
    fn delay(&mut self) -> u64 {
        let most = if self.dice.once_in(20) { SLOW } else { QUICK };
        1 + self.dice.below(micros(most))
    }

    fn is_cut(&self, hosts: [usize; 2]) -> bool {
        self.cuts.get(&sorted(hosts)).is_some_and(|&until| until > self.now)
    }

    fn ends_of(&self, host: usize) -> Vec<End> {
        let ends = (0..self.connections.len())
            .flat_map(|connection| [0, 1].map(|side| End { connection, side }));
        ends.filter(|&end| {
            self.host(end) == host && self.connections[end.connection].is_open[end.side]
        })
        .collect()
    }

    fn host(&self, end: End) -> usize {
        self.connections[end.connection].hosts[end.side]
    }

    fn pipe(&mut self, end: End) -> &mut Pipe {
        &mut self.connections[end.connection].pipes[end.side]
    }
}

impl End {
    fn other(self) -> Self {
        Self { side: 1 - self.side, ..self }
    }
}

fn sorted(hosts: [usize; 2]) -> [usize; 2] {
    [hosts[0].min(hosts[1]), hosts[0].max(hosts[1])]
}

fn micros(length: Duration) -> u64 {
    u64::try_from(length.as_micros()).unwrap_or(u64::MAX)
}

/// As real connections of consort have it at least.
pub(super) const SILENCE: Duration = Duration::from_secs(10);
const QUICK: Duration = Duration::from_millis(2);
const SLOW: Duration = Duration::from_millis(200);
/// How many in a thousand a clock may gain or lose.
const DRIFT: u64 = 100;
