//! A group's ranks, who find different things at once while connections break.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use consort_store::{Deadline, Reply, Request, Store, Swap};
use consort_testkit::net::{End, Event, Net};

use super::{Ended, Ending, Header, is_of_now};
use crate::simulated::{Keeper, Line, Task, Wire, go_on};
use crate::wire::frame::HEADER;

/// One world: the store's host, a host of an earlier round, the ranks', and one whose clock tells when
/// something is to go wrong.
pub(super) struct World {
    net: Net,
    keeper: Keeper,
    ranks: Vec<Rc<Rank>>,
    tasks: Vec<Option<Task>>,
    /// Connections of one who does not know that there is a new round.
    stale: Vec<Wire>,
    /// Whether anything is to happen but stale words.
    is_calm: bool,
    lost: u64,
}

/// A rank, as its threads share it.
struct Rank {
    me: usize,
    net: Net,
    line: Line,
    peers: RefCell<BTreeMap<End, Wire>>,
    /// What it is about to find.
    finds: RefCell<VecDeque<Vec<u8>>>,
    has_found: OnceCell<()>,
    /// What it has heard.
    ended: Ended,
    /// What counts for it.
    settled: OnceCell<Ending>,
    when: OnceCell<Duration>,
}

impl World {
    pub(super) fn new(seed: u64, shows: bool) -> Self {
        let world = 2 + Net::new(seed, 1, false).pick(4);
        let net = Net::new(seed, FIRST + world, shows);
        let ranks: Vec<Rc<Rank>> = (0..world).map(|me| Rc::new(Rank::new(&net, me))).collect();
        // Some never met.
        let is_sparse = net.once_in(4);
        for (me, rank) in ranks.iter().enumerate() {
            for other in 0..me {
                if !is_sparse || !net.once_in(3) {
                    let socket = net.connect(FIRST + me, FIRST + other);
                    rank.peers.borrow_mut().insert(socket.end(), Wire::new(socket));
                }
            }
        }
        let tasks = ranks.iter().map(|rank| {
            net.alarm(FIRST + rank.me, net.clock(FIRST + rank.me), 0);
            Some(Box::pin(rank.clone().wait()) as Task)
        });
        let tasks = tasks.collect();
        let is_calm = net.once_in(8);
        let (keeper, stale) = (Keeper::default(), Vec::new());
        Self { net, keeper, ranks, tasks, stale, is_calm, lost: 0 }
    }

    pub(super) fn run(mut self) -> [u64; 6] {
        self.plan();
        while let Some((host, event)) = self.net.next() {
            match host {
                STORE => self.keeper.hear(event),
                PAST => {}
                FATE => self.happen(event),
                rank => self.act(rank - FIRST, event),
            }
            if self.net.now() > END {
                break;
            }
        }
        self.judge()
    }

    fn judge(self) -> [u64; 6] {
        let kept = self.keeper.store.get(KEY, Deadline::now()).ok();
        let kept = kept.and_then(|entry| Ending::of_entry(&entry));
        let mut deaf = 0;
        let left = || self.ranks.iter().zip(&self.tasks).filter(|(_, task)| task.is_some());
        for (rank, _) in left() {
            let me = rank.me;
            let Some(ending) = rank.settled.get() else {
                assert!(self.is_calm, "rank {me} does not know of the end");
                continue;
            };
            assert!(!self.is_calm, "rank {me} believes {ending:?}, of an earlier round");
            let when = *rank.when.get().unwrap();
            assert!(when < FAULTY + BOUND, "rank {me} heard of the end after {when:?}");
            match rank.line.was_silent() {
                true => deaf += 1,
                false => assert_eq!(Some(ending), kept.as_ref(), "rank {me} says something else"),
            }
        }
        let found = self.ranks.iter().filter(|rank| rank.has_found.get().is_some()).count();
        let faults = self.net.faults();
        let ended = left().count() as u64;
        let stale = self.stale.len() as u64;
        [ended, u64::from(found > 1), deaf, self.lost, faults.breaks, stale]
    }

    fn plan(&mut self) {
        for _ in 0..2 {
            self.sometime(STALE);
        }
        if self.is_calm {
            return;
        }
        if self.net.once_in(2) {
            // Somebody does not reach the store from the beginning.
            let host = FIRST + self.net.pick(self.ranks.len());
            self.net.cut([STORE, host], Duration::from_secs(20));
        }
        let first = Duration::from_micros(self.net.roll(FAULTY.as_micros() as u64 / 2));
        for _ in 0..1 + self.net.roll(3) {
            // At about the same time, more often than not.
            let after = first + Duration::from_micros(self.net.roll(1500));
            self.net.alarm(FATE, self.net.clock(FATE) + after, FIND);
        }
        self.net.alarm(FATE, self.net.clock(FATE) + LATE, TIME_IS_UP);
        for _ in 0..self.net.roll(5) {
            let what = self.net.roll(STALE);
            self.sometime(what);
        }
    }

    fn sometime(&mut self, what: u64) {
        let after = Duration::from_micros(self.net.roll(FAULTY.as_micros() as u64));
        self.net.alarm(FATE, self.net.clock(FATE) + after, what);
    }

    fn happen(&mut self, event: Event) {
        let Event::Alarm(what) = event else { return };
        let at = self.net.pick(self.ranks.len());
        let host = FIRST + at;
        let other = FIRST + self.net.pick(self.ranks.len());
        let length = Duration::from_millis(1 + self.net.roll(15_000));
        match what {
            FIND => self.ranks[at].find("something"),
            CUT => self.net.cut([STORE, host], length),
            CUT_RANKS if other != host => self.net.cut([host, other], length),
            STOP => self.net.stop(host, length / 10),
            BREAK => self.net.break_any(host),
            CRASH if self.lost + 1 < self.ranks.len() as u64 && self.tasks[at].is_some() => {
                self.lost += 1;
                self.tasks[at] = None;
                match self.net.once_in(2) {
                    true => self.net.end(host),
                    false => self.net.vanish(host),
                }
            }
            STALE => self.speak_of_the_past(host),
            // Every call has a deadline.
            TIME_IS_UP => {
                for rank in &self.ranks {
                    rank.find("others late");
                    self.net.alarm(FIRST + rank.me, self.net.clock(FIRST + rank.me), 0);
                }
            }
            _ => {}
        }
        // What it is told to find it finds when it looks.
        self.net.alarm(host, self.net.clock(host), 0);
    }

    /// A process of an earlier round tells a rank that the group has ended.
    fn speak_of_the_past(&mut self, host: usize) {
        let mut wire = Wire::new(self.net.connect(PAST, host));
        let ending = Ending { by: 0, verdict: b"long ago".to_vec(), is_settled: true };
        wire.send(&ending.word(GROUP, EPOCH - 1).encode());
        wire.send(&ending.verdict);
        self.stale.push(wire);
    }

    fn act(&mut self, at: usize, event: Event) {
        let Some(task) = &mut self.tasks[at] else { return };
        let rank = &self.ranks[at];
        rank.line.hear(&event);
        rank.hear(event);
        if rank.settled.get().is_none() {
            go_on(task);
        }
    }
}

impl Rank {
    fn new(net: &Net, me: usize) -> Self {
        Self {
            me,
            net: net.clone(),
            line: Line::new(net, FIRST + me, STORE),
            peers: RefCell::default(),
            finds: RefCell::default(),
            has_found: OnceCell::new(),
            ended: Ended::default(),
            settled: OnceCell::new(),
            when: OnceCell::new(),
        }
    }

    fn find(&self, what: &str) {
        let verdict = format!("rank {} has found {what}", self.me);
        self.finds.borrow_mut().push_back(verdict.into_bytes());
    }

    /// Waits in a call, until the group has ended.
    async fn wait(self: Rc<Self>) {
        let until_news = || self.ended.is_known() || !self.finds.borrow().is_empty();
        while self.settled.get().is_none() {
            self.line.wait(LOOK, until_news).await;
            let found = self.finds.borrow_mut().pop_front();
            match (found, self.ended.get().cloned()) {
                (_, Some(heard)) => self.settle(heard).await,
                (Some(verdict), None) => {
                    let _ = self.has_found.set(());
                    let ending = Ending::found(self.me as u32, verdict);
                    self.ended.hear(ending.clone());
                    self.say(&ending);
                }
                (None, None) => self.ask_store().await,
            }
        }
    }

    /// Does what a route does with what was found or heard.
    async fn settle(&self, ending: Ending) {
        let ending = match ending.is_settled {
            true => ending,
            false => {
                let entry = ending.entry();
                let keep = Request::CompareSet { key: KEY, expect: None, new: &entry };
                let told = self.line.ask(&keep, HEARD).await.map(|reply| match reply {
                    Some(Reply::Swap(swap)) => swap,
                    _ => Swap::Missing,
                });
                let (ending, is_to_be_told) = self.ended.settle(ending, told);
                if is_to_be_told {
                    self.ended.hear(ending.clone());
                    self.say(&ending);
                }
                ending
            }
        };
        self.net.show(|| format!("rank {} has ended: {ending:?}", self.me));
        self.settled.set(ending).expect("it is settled once");
        self.when.set(self.net.now()).expect("it is settled once");
    }

    async fn ask_store(&self) {
        if let Ok(Some(Reply::Value(entry))) =
            self.line.ask(&Request::Get { key: KEY }, HEARD).await
            && let Some(ending) = Ending::of_entry(&entry)
        {
            self.ended.hear(ending.clone());
            self.say(&ending);
        }
    }

    fn say(&self, ending: &Ending) {
        for wire in self.peers.borrow_mut().values_mut() {
            wire.send(&ending.word(GROUP, EPOCH).encode());
            wire.send(&ending.verdict);
        }
    }

    /// Something has happened to a connection.
    fn hear(&self, event: Event) {
        let mut peers = self.peers.borrow_mut();
        match event {
            Event::Opened(socket) => {
                let mut wire = Wire::new(socket);
                if let Some(ending) = self.ended.get() {
                    wire.send(&ending.word(GROUP, EPOCH).encode());
                    wire.send(&ending.verdict);
                }
                peers.insert(wire.socket.end(), wire);
            }
            Event::Readable(end) | Event::Writable(end) => {
                let Some(wire) = peers.get_mut(&end) else { return };
                let is_over = wire.move_on().is_err();
                let mut news = Vec::new();
                while let Some((header, verdict)) = take_word(wire) {
                    let ending = Ending::heard(&header, verdict);
                    if is_of_now(&header, EPOCH, &VecDeque::new())
                        && self.ended.hear(ending.clone())
                    {
                        news.push(ending);
                    }
                }
                for ending in news {
                    let others = peers.iter_mut().filter(|(other, _)| **other != end);
                    for (_, wire) in others {
                        wire.send(&ending.word(GROUP, EPOCH).encode());
                        wire.send(&ending.verdict);
                    }
                }
                if is_over {
                    peers.remove(&end);
                    self.find("a connection broken");
                }
            }
            Event::Alarm(_) => {}
        }
    }
}

fn take_word(wire: &mut Wire) -> Option<(Header, Vec<u8>)> {
    let (header, rest) = wire.come.make_contiguous().split_first_chunk::<HEADER>()?;
    let header = Header::decode(header).unwrap();
    let verdict = rest.get(..header.bytes as usize)?.to_vec();
    wire.come.drain(..HEADER + verdict.len());
    Some((header, verdict))
}

const STORE: usize = 0;
const PAST: usize = 1;
const FATE: usize = 2;
const FIRST: usize = 3;
const GROUP: u64 = 7;
const EPOCH: u64 = 4;
const KEY: &str = "ended";

/// What may happen.
const FIND: u64 = 0;
const CUT: u64 = 1;
const CUT_RANKS: u64 = 2;
const STOP: u64 = 3;
const BREAK: u64 = 4;
const CRASH: u64 = 5;
const STALE: u64 = 6;
const TIME_IS_UP: u64 = 7;

/// Until then things go wrong.
const FAULTY: Duration = Duration::from_secs(4);
/// The deadline of all calls.
const LATE: Duration = Duration::from_secs(30);
/// So long after that, at most, every rank knows of the end.
const BOUND: Duration = Duration::from_secs(60);
const END: Duration = Duration::from_secs(90);
/// As ranks have it, or about.
const LOOK: Duration = Duration::from_millis(500);
const HEARD: Duration = Duration::from_secs(2);
