//! A store and its clients, members and others.

use std::time::{Duration, Instant};

use consort_testkit::net::{Event, Net};

use super::client::Client;
use super::guests::{Impostor, Stranger, Trick};
use super::server::Server;
use super::{secret, see_clock};
use crate::history::{Call, History, Op};
use crate::request::{Reply, Request};

/// One world: the store's host, an impostor's, one for each member, one for strangers; and one on which
/// nothing goes wrong, whose clock tells when something is to.
pub(super) struct World {
    net: Net,
    start: Instant,
    server: Server,
    impostor: Impostor,
    members: Vec<Member>,
    strangers: Vec<Stranger>,
    history: History,
    /// Nothing goes wrong with the network, so nobody has to wait for long.
    is_quiet: bool,
    refused: u64,
    choked: u64,
}

struct Member {
    client: Client,
    is_alive: bool,
    /// It has asked for more than it reads.
    is_greedy: bool,
    /// The calls it has made, by number, and their places in the history, if they are of interest.
    calls: Vec<Option<usize>>,
}

impl World {
    pub(super) fn new(seed: u64, shows: bool) -> Self {
        let net = Net::new(seed, HOSTS, shows);
        let start = Instant::now();
        let members = (0..MEMBERS).map(|at| Member {
            client: Client::new(&net, FIRST + at, &secret(1), NUMBERS + at as u64),
            is_alive: true,
            is_greedy: false,
            calls: Vec::new(),
        });
        let is_quiet = net.once_in(4);
        Self {
            server: Server::new(&net, STORE, &secret(1), start),
            members: members.collect(),
            net,
            start,
            impostor: Impostor::default(),
            strangers: Vec::new(),
            history: History::default(),
            is_quiet,
            refused: 0,
            choked: 0,
        }
    }

    pub(super) fn run(mut self) -> [u64; 7] {
        for member in 0..MEMBERS {
            self.wake(FIRST + member, Duration::ZERO, BEGIN);
        }
        self.plan();
        while let Some((host, event)) = self.net.next() {
            match host {
                STORE => self.server.hear(event),
                IMPOSTOR => self.impostor.hear(event, &self.net),
                FATE => self.happen(event),
                STRANGERS => self.disturb(&event),
                member => self.act(member - FIRST, &event),
            }
            let alive = self.members.iter().filter(|member| member.client.opening.is_some());
            assert!(self.server.members() <= 2 * alive.count(), "somebody else is in");
            if self.net.now() > END {
                break;
            }
        }
        self.judge()
    }

    /// All members that are left have all answers, and all was as one store would have done it.
    fn judge(self) -> [u64; 7] {
        for (at, member) in self.members.iter().enumerate().filter(|(_, it)| it.is_alive) {
            for (call, place) in member.calls.iter().enumerate() {
                let &Some(place) = place else { continue };
                let Call { op, ended, .. } = &self.history.calls[place];
                assert!(ended.is_some(), "member {at}'s call {call} got no answer: {op:?}");
            }
        }
        self.history.check(true);
        if self.is_quiet {
            let others = self.members.iter().filter(|member| !member.is_greedy);
            for &place in others.flat_map(|member| &member.calls).flatten() {
                let Call { op, began, ended } = &self.history.calls[place];
                let Some((ended, _)) = ended.as_ref().filter(|_| !op.can_wait()) else { continue };
                let took = Duration::from_micros(ended - began);
                assert!(took < PROMPT, "{op:?} took {took:?} though nothing was wrong");
            }
        }
        let again = self.members.iter().map(|member| member.client.again).sum();
        let faults = self.net.faults();
        let (breaks, losses, stops) = (faults.breaks, faults.losses, faults.stops);
        [faults.pieces, breaks, losses, stops, again, self.refused, self.choked]
    }

    /// Decides what is to go wrong, and when.
    fn plan(&mut self) {
        for _ in 0..self.net.roll(6) {
            self.sometime(STRANGER);
        }
        if self.net.once_in(10) {
            self.sometime(GREEDY);
        }
        if !self.is_quiet {
            for _ in 0..2 + self.net.roll(6) {
                let what = FAULTS[self.net.pick(FAULTS.len())];
                self.sometime(what);
            }
        }
        self.net.alarm(FATE, self.net.clock(FATE) + CALM, RELEASE);
        self.net.alarm(FATE, self.net.clock(FATE) + CALM + SETTLED, CLEAR);
    }

    fn sometime(&mut self, what: u64) {
        let after = Duration::from_micros(self.net.roll(FAULTY.as_micros() as u64));
        self.net.alarm(FATE, self.net.clock(FATE) + after, what);
    }

    fn happen(&mut self, event: Event) {
        let Event::Alarm(what) = event else { return };
        let at = self.net.pick(MEMBERS - 1);
        let host = FIRST + at;
        let length = Duration::from_millis(1 + self.net.roll(3000));
        let long = Net::SILENCE + Duration::from_millis(self.net.roll(3000));
        match what {
            BREAK => self.net.break_any(host),
            CUT => self.net.cut([STORE, host], length),
            CUT_LONG => self.net.cut([STORE, host], long),
            STOP => self.net.stop(host, length),
            STOP_STORE => self.net.stop(STORE, length),
            DAMAGE => self.members[at].client.damages = true,
            END_MEMBER => {
                self.members[at].is_alive = false;
                match self.net.once_in(2) {
                    true => self.net.end(host),
                    false => self.net.vanish(host),
                }
            }
            STRANGER => self.send_stranger(),
            GREEDY => self.be_greedy(at),
            RELEASE => self.release(),
            CLEAR => self.clear(),
            _ => unreachable!("nothing else is planned"),
        }
    }

    fn send_stranger(&mut self) {
        let openings: Vec<_> =
            self.members.iter().filter_map(|member| member.client.opening).collect();
        let opening = openings.get(self.net.pick(openings.len())).copied();
        let kind = self.net.roll(6);
        let trick = match (kind, opening) {
            (0, _) => Trick::OldVersion,
            (1, _) => Trick::Garbage,
            (2, _) => Trick::Nothing,
            (3, Some(opening)) => Trick::Recorded(opening),
            (4, Some(opening)) => Trick::Changed(opening),
            _ => Trick::WrongSecret,
        };
        self.net.show(|| format!("a stranger comes with {trick:?}"));
        self.strangers.push(Stranger::new(&self.net, STRANGERS, STORE, trick));
    }

    fn disturb(&mut self, event: &Event) {
        if let Event::Readable(end) = event
            && let Some(at) = self.strangers.iter().position(|it| it.end() == *end)
            && self.strangers[at].hear(&self.net)
        {
            self.refused += 1;
            self.strangers.swap_remove(at);
        }
    }

    /// A member asks for more than it reads, for a while.
    fn be_greedy(&mut self, at: usize) {
        let host = FIRST + at;
        see_clock(&self.net, host, self.start);
        let Member { client, is_alive, is_greedy, .. } = &mut self.members[at];
        if !*is_alive || !client.is_served() {
            return;
        }
        self.choked += 1;
        (client.is_deaf, *is_greedy) = (true, true);
        let set = Request::Set { key: "large", value: &[7; LARGE] };
        client.call(true, &set);
        for _ in 0..GETS {
            client.call(true, &Request::Get { key: "large" });
        }
        // Their answers only take room.
        self.members[at].calls.extend([None; GETS + 1]);
        self.wake(host, Duration::from_secs(2), LISTEN);
    }

    /// A member's turn.
    fn act(&mut self, at: usize, event: &Event) {
        let host = FIRST + at;
        see_clock(&self.net, host, self.start);
        let client = &mut self.members[at].client;
        let mut answers = client.hear(event);
        match event {
            Event::Alarm(BEGIN) if self.net.now() < FAULTY => {
                self.begin(at);
                let pause = Duration::from_millis(1 + self.net.roll(600));
                self.wake(host, pause, BEGIN);
            }
            Event::Alarm(DIAL) => {
                let lies = !self.is_quiet && self.net.once_in(8);
                client.dial(if lies { IMPOSTOR } else { STORE });
            }
            Event::Alarm(LISTEN) => {
                client.is_deaf = false;
                answers = client.catch_up();
            }
            _ => {}
        }
        for (call, reply) in answers {
            self.note(at, call, reply);
        }
        let client = &self.members[at].client;
        if !client.is_connected() && !matches!(event, Event::Alarm(DIAL)) {
            let pause = Duration::from_millis(1 + self.net.roll(500));
            self.wake(host, pause, DIAL);
        }
    }

    fn begin(&mut self, at: usize) {
        let flag = self.net.roll(FLAGS);
        let op = match self.net.roll(10) {
            0..4 => Op::Add,
            4 if self.history.has_counted() => Op::Read,
            5 | 6 => Op::Push(self.history.calls.len() as u64),
            7 => Op::Pop,
            8 => Op::Wait(flag),
            _ => Op::Set(flag),
        };
        self.ask(at, op, true);
    }

    fn ask(&mut self, at: usize, op: Op, wait: bool) {
        let place = self.history.calls.len();
        let began = self.net.now().as_micros() as u64;
        let Member { client, calls, .. } = &mut self.members[at];
        let call = op.with_request(|request| client.call(wait, request));
        assert_eq!(call as usize, calls.len(), "calls are counted");
        self.net.show(|| format!("member {at} begins call {call}: {op:?}"));
        calls.push(Some(place));
        self.history.calls.push(Call { op, began, ended: None });
    }

    fn note(&mut self, at: usize, call: u64, reply: Reply) {
        let Some(place) = self.members[at].calls[call as usize] else { return };
        let now = self.net.now().as_micros() as u64;
        self.net.show(|| format!("member {at}'s call {call} is answered: {reply:?}"));
        let before = self.history.calls[place].ended.replace((now, reply));
        assert_eq!(before, None, "member {at}'s call {call} was answered twice");
    }

    /// Lets go whoever waits: the last member, to whom nothing happens, sees to it.
    fn release(&mut self) {
        self.act(HELPER, &Event::Alarm(0));
        for flag in 0..FLAGS {
            self.ask(HELPER, Op::Set(flag), true);
        }
        let waiting = self.history.calls.iter().filter(|it| it.op == Op::Pop && it.ended.is_none());
        for _ in 0..waiting.count() {
            let element = self.history.calls.len() as u64;
            self.ask(HELPER, Op::Push(element), true);
        }
    }

    /// Takes all that is left.
    fn clear(&mut self) {
        let is_push = |it: &&Call| matches!(it.op, Op::Push(_));
        for _ in 0..=self.history.calls.iter().filter(is_push).count() {
            self.ask(HELPER, Op::Pop, false);
        }
    }

    fn wake(&self, host: usize, after: Duration, what: u64) {
        self.net.alarm(host, self.net.clock(host) + after, what);
    }
}

const STORE: usize = 0;
const IMPOSTOR: usize = 1;
const FATE: usize = 2;
const STRANGERS: usize = 3;
const FIRST: usize = 4;
const MEMBERS: usize = 4;
const HELPER: usize = MEMBERS - 1;
const HOSTS: usize = FIRST + MEMBERS;
const FLAGS: u64 = 4;
/// Members' own numbers are far from those of connections, as those are that clients choose by chance.
const NUMBERS: u64 = 1 << 40;

/// What members wake up for.
const BEGIN: u64 = 1;
const DIAL: u64 = 2;
const LISTEN: u64 = 3;

/// What may happen.
const BREAK: u64 = 0;
const CUT: u64 = 1;
const CUT_LONG: u64 = 2;
const STOP: u64 = 3;
const STOP_STORE: u64 = 4;
const DAMAGE: u64 = 5;
const END_MEMBER: u64 = 6;
const FAULTS: [u64; 10] =
    [BREAK, BREAK, BREAK, CUT, CUT_LONG, STOP, STOP_STORE, DAMAGE, DAMAGE, END_MEMBER];
const STRANGER: u64 = 7;
const GREEDY: u64 = 8;
const RELEASE: u64 = 9;
const CLEAR: u64 = 10;

/// Until then things go wrong,
const FAULTY: Duration = Duration::from_secs(6);
/// by then every loss has been noticed,
const CALM: Duration = Duration::from_secs(45);
/// and so long after that everybody has what it waited for.
const SETTLED: Duration = Duration::from_secs(20);
const END: Duration = Duration::from_secs(120);
/// What nobody waits for is answered within this if nothing is wrong, whoever else is there.
const PROMPT: Duration = Duration::from_secs(5);
/// More than a server keeps for one who does not read.
const LARGE: usize = 60 << 10;
const GETS: usize = 30;
