//! A job's nodes, and what goes wrong with them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use consort_testkit::net::{Event, Net};

use super::line::Line;
use crate::deadline::{Deadline, clock_now};
use crate::error::{Error, Result};
use crate::member::{Node, NodeId};
use crate::rendezvous::heart::Beats;
use crate::rendezvous::seat::{Seat, Silence, beat_key};
use crate::rendezvous::{News, Round};
use crate::rounds::{Cause, Ending, JoinError, RoundOptions, Rounds};
use crate::tcp::simulated::server::Server;
use crate::tcp::simulated::{secret, see_clock};

/// One world: the store's host, the nodes', and one whose clock tells when something is to go wrong.
pub(super) struct World {
    net: Net,
    start: Instant,
    server: Server,
    options: RoundOptions,
    /// The node on each host, if there is one.
    nodes: Vec<Option<Process>>,
    lives: u64,
    record: Rc<RefCell<Record>>,
    /// Nothing happens but that processes end.
    is_quiet: bool,
    late: u64,
    crashed: u64,
}

/// A node's process: its way to the store, its heart, and its life.
struct Process {
    name: String,
    line: Line,
    tasks: Vec<Pin<Box<dyn Future<Output = ()>>>>,
}

/// What has become of the job, as its nodes have seen it.
#[derive(Default)]
struct Record {
    /// Who was in which round, and when the first of them knew.
    rounds: BTreeMap<u64, (Vec<NodeId>, Duration)>,
    ending: Option<Ending>,
    /// Nodes that were lost in silence, as the others say.
    silent: BTreeMap<String, Duration>,
    /// Nodes whose process has ended, and when.
    gone: BTreeMap<String, Duration>,
    /// When nodes came.
    begun: Vec<Duration>,
}

impl World {
    pub(super) fn new(seed: u64, shows: bool) -> Self {
        let net = Net::new(seed, FIRST + MOST, shows);
        let start = Instant::now();
        let min = 1 + net.roll(3) as u32;
        let options = RoundOptions {
            min,
            max: min + net.roll(3) as u32,
            max_restarts: net.roll(3) as u32,
            last_call: Duration::from_secs(1),
            liveness: LIVENESS,
            version: "1".to_owned(),
        };
        Self {
            server: Server::new(&net, STORE, &secret(1), start),
            start,
            options,
            nodes: (0..MOST).map(|_| None).collect(),
            lives: 0,
            record: Rc::default(),
            is_quiet: net.once_in(3),
            late: 0,
            crashed: 0,
            net,
        }
    }

    pub(super) fn run(mut self) -> [u64; 7] {
        self.plan();
        while let Some((host, event)) = self.net.next() {
            match host {
                STORE => self.server.hear(event),
                FATE => self.happen(event),
                node => self.act(node - FIRST, &event),
            }
            if self.net.now() > END {
                break;
            }
        }
        self.judge()
    }

    fn judge(self) -> [u64; 7] {
        let record = self.record.borrow();
        let left = self.nodes.iter().flatten().count();
        let goes_on = record.ending.is_none() && left >= self.options.min as usize;
        assert!(!goes_on, "{left} nodes are left, and they have not come to an end");
        assert!(record.ending.is_none() || left == 0, "{left} nodes do not know of the end");
        if self.is_quiet {
            for (node, found) in &record.silent {
                let lost = record.gone.get(node);
                let lost = lost.filter(|lost| *lost < found);
                let lost = lost.unwrap_or_else(|| panic!("{node} was alive and is left out"));
                // Each of those who should have listened may be dead itself, or nobody was there to.
                let limit =
                    FOUND * record.gone.values().filter(|gone| *gone < found).count() as u32;
                let began = record.begun.iter().filter(|begun| *begun < found).max();
                let took = *found - began.copied().unwrap_or_default().max(*lost);
                assert!(took < limit, "it took {took:?} to find that {node} was dead");
            }
        }
        let faults = self.net.faults();
        [
            record.rounds.len() as u64,
            record.silent.len() as u64,
            self.crashed,
            faults.stops,
            faults.cuts,
            self.late,
            u64::from(record.ending.is_some()),
        ]
    }

    fn plan(&mut self) {
        let count = self.options.min as usize + self.net.pick(3);
        for host in 0..count.min(MOST) {
            let late = self.net.once_in(4);
            self.late += u64::from(late);
            self.sometime(START + host as u64, if late { FAULTY } else { SOON });
        }
        for _ in 0..1 + self.net.roll(5) {
            let what = if self.is_quiet { CRASH } else { self.net.roll(START) };
            self.sometime(what, FAULTY);
        }
        // One more comes in the end: who waits for another has waited for it.
        for host in 0..MOST as u64 {
            self.net.alarm(FATE, self.net.clock(FATE) + CALM, START + host);
        }
    }

    fn sometime(&mut self, what: u64, within: Duration) {
        let after = Duration::from_micros(self.net.roll(within.as_micros() as u64));
        self.net.alarm(FATE, self.net.clock(FATE) + after, what);
    }

    fn happen(&mut self, event: Event) {
        let Event::Alarm(what) = event else { return };
        let alive: Vec<usize> = (0..MOST).filter(|&at| self.nodes[at].is_some()).collect();
        let at = alive.get(self.net.pick(alive.len())).copied().unwrap_or(0);
        let host = FIRST + at;
        let length = Duration::from_millis(1 + self.net.roll(1000));
        let long = LIVENESS + Duration::from_millis(self.net.roll(10_000));
        match what {
            CRASH => self.crash(at),
            STOP => self.net.stop(host, length),
            STOP_LONG => self.net.stop(host, long),
            STOP_STORE => self.net.stop(STORE, length),
            CUT => self.net.cut([STORE, host], length),
            CUT_LONG => self.net.cut([STORE, host], long),
            BREAK => self.net.break_any(host),
            start => self.begin((start - START) as usize),
        }
    }

    fn crash(&mut self, at: usize) {
        let Some(process) = self.nodes[at].take() else { return };
        self.crashed += 1;
        self.record.borrow_mut().gone.insert(process.name, self.net.now());
        match self.net.once_in(2) {
            true => self.net.end(FIRST + at),
            false => self.net.vanish(FIRST + at),
        }
    }

    /// A node comes, if there is none on its host.
    fn begin(&mut self, at: usize) {
        if self.nodes[at].is_some() || self.record.borrow().ending.is_some() {
            return;
        }
        let host = FIRST + at;
        self.net.begin(host);
        see_clock(&self.net, host, self.start);
        self.lives += 1;
        self.record.borrow_mut().begun.push(self.net.now());
        let id = self.lives;
        let me = Node {
            id: NodeId::new(id),
            host: format!("host{at}"),
            address: id.to_string(),
            slots: 1,
            port: 1,
            rank: None,
        };
        let name = me.to_string();
        let number = (1 << 40) + id;
        let line = Line::new(&self.net, host, self.start, &secret(1), number, LIVENESS / 3);
        let silence = Silence::default();
        let beats = Beats::new(beat_key(&me), LIVENESS, &silence);
        let seat = Seat::new(line.clone(), me, self.options.clone(), silence);
        let member = Member {
            name: name.clone(),
            seat,
            line: line.clone(),
            net: self.net.clone(),
            record: self.record.clone(),
        };
        let tasks: Vec<Pin<Box<dyn Future<Output = ()>>>> =
            vec![Box::pin(member.live()), Box::pin(beat(beats, line.clone()))];
        self.nodes[at] = Some(Process { name, line, tasks });
        self.net.alarm(host, self.net.clock(host), 0);
    }

    fn act(&mut self, at: usize, event: &Event) {
        see_clock(&self.net, FIRST + at, self.start);
        let Some(Process { name, line, tasks }) = &mut self.nodes[at] else { return };
        line.hear(event, STORE);
        let mut context = Context::from_waker(Waker::noop());
        let is_over = tasks[0].as_mut().poll(&mut context).is_ready();
        if is_over {
            self.record.borrow_mut().gone.insert(name.clone(), self.net.now());
            self.nodes[at] = None;
            self.net.end(FIRST + at);
        } else {
            let _ = tasks[1].as_mut().poll(&mut context);
        }
    }
}

async fn beat(mut beats: Beats, line: Line) {
    while beats.beat(&line).await {
        line.sleep(beats.pause()).await;
    }
}

/// What a launcher does.
struct Member {
    name: String,
    seat: Seat<Line>,
    line: Line,
    net: Net,
    record: Rc<RefCell<Record>>,
}

impl Member {
    async fn live(mut self) {
        match self.take_part().await {
            Ok(ending) => self.hear_of_end(ending),
            Err(Error::Join(JoinError::Over(ending))) => self.hear_of_end(ending),
            // Whose store does not answer goes.
            Err(error) => self.net.show(|| format!("{} gives up: {error}", self.name)),
        }
    }

    async fn take_part(&mut self) -> Result<Ending> {
        loop {
            let round = loop {
                let joined = self.seat.join("job", Deadline::after(LOOK)).await?;
                self.hear_of_cause();
                if let Some(round) = joined {
                    break round;
                }
            };
            self.hear_of_round(&round);
            let works = Duration::from_millis(self.net.roll(15_000));
            let done = Deadline::after(works);
            let mut is_told = false;
            loop {
                if done.has_passed() && !std::mem::replace(&mut is_told, true) {
                    self.tell(&round).await?;
                }
                let look = Deadline::after(LOOK);
                let until = if is_told { look } else { look.min(done) };
                match self.seat.watch(&round, until).await? {
                    News::Nothing => {}
                    News::Round(_) => break,
                    News::Over(ending) => return Ok(ending),
                }
            }
            // Its ranks take leave.
            let leave = Duration::from_millis(self.net.roll(2000));
            self.line.sleep(leave).await;
        }
    }

    async fn tell(&mut self, round: &Round) -> Result<()> {
        if !self.net.once_in(5) {
            return self.seat.report(round, Rounds::finish).await;
        }
        self.seat.report(round, Rounds::claim_failure).await?;
        self.line.sleep(LOOK).await;
        let account = self.name.clone().into_bytes();
        self.seat.report(round, |rounds, id| rounds.fail(id, account.clone())).await
    }

    fn hear_of_round(&self, round: &Round) {
        self.net.show(|| format!("{} is in round {} {:?}", self.name, round.epoch, round.cause));
        let now = self.net.now();
        let mut record = self.record.borrow_mut();
        let nodes: Vec<NodeId> = round.nodes.iter().map(|node| node.id).collect();
        let options = &self.seat.state().unwrap().options;
        assert!((options.min..=options.max).contains(&(nodes.len() as u32)), "{nodes:?}");
        assert_eq!(round.nodes[round.place].to_string(), self.name, "this is another's place");
        let (known, _) = record.rounds.entry(round.epoch).or_insert((nodes.clone(), now));
        assert_eq!(*known, nodes, "two rounds have the number {}", round.epoch);
    }

    /// Why there is a new round is known before it has begun.
    fn hear_of_cause(&self) {
        let cause = &self.seat.state().unwrap().cause;
        self.record.borrow_mut().note(cause, self.net.now());
    }

    fn hear_of_end(&self, ending: Ending) {
        self.net.show(|| format!("{} knows the end: {ending:?} at {:?}", self.name, clock_now()));
        let mut record = self.record.borrow_mut();
        if let Ending::TooFew(cause) = &ending {
            record.note(cause, self.net.now());
        }
        let known = record.ending.get_or_insert(ending.clone());
        assert_eq!(*known, ending, "the job has two ends");
    }
}

impl Record {
    fn note(&mut self, cause: &Cause, now: Duration) {
        if let Cause::Silent { node, since } = cause {
            assert!(*since >= LIVENESS, "{node} was given up after {since:?}");
            self.silent.entry(node.clone()).or_insert(now);
        }
    }
}

const STORE: usize = 0;
const FATE: usize = 1;
const FIRST: usize = 2;
const MOST: usize = 6;

/// What may happen; beyond these, a node comes.
const CRASH: u64 = 0;
const STOP: u64 = 1;
const STOP_LONG: u64 = 2;
const STOP_STORE: u64 = 3;
const CUT: u64 = 4;
const CUT_LONG: u64 = 5;
const BREAK: u64 = 6;
const START: u64 = 7;

const LIVENESS: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(700);
const SOON: Duration = Duration::from_secs(2);
/// Until then things go wrong,
const FAULTY: Duration = Duration::from_secs(20);
/// and then whoever is not there comes, and nothing goes wrong any more.
const CALM: Duration = Duration::from_secs(60);
const END: Duration = Duration::from_secs(240);
/// How long it takes at most to find that a node is dead, if the one is alive that listens to it.
const FOUND: Duration = Duration::from_secs(10);
