//! Survivors who agree on a network without machines, while others of them die.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use consort_store::{Reply, Request, Swap};
use consort_testkit::net::{Event, Net, play};

use super::{Card, Heard, Meeting, Outcome, agree, decode};
use crate::error::Result;
use crate::simulated::{Keeper, Line, Task, go_on};

#[test]
fn whoever_dies_meanwhile_the_survivors_agree_on_one_group() {
    let found = play("consort", "whoever_dies_meanwhile_the_survivors", SEEDS, |seed, shows| {
        World::new(seed, shows).run()
    });
    let Some([agreed, died, late_deaths, left_out, stops]) = found else { return };
    // Worlds in which nothing happens would prove nothing.
    let least = [agreed / 2, died, late_deaths * 4, left_out * 4, stops * 2];
    assert!(least.iter().all(|&count| count > SEEDS / 4), "{found:?} of {SEEDS}");
}

/// One world: the store's host, the ranks', and one whose clock tells when something is to go wrong.
struct World {
    net: Net,
    keeper: Keeper,
    tasks: Vec<Option<Task>>,
    lines: Vec<Line>,
    record: Rc<RefCell<Record>>,
    late_deaths: u64,
}

/// What has become of the ranks.
#[derive(Default)]
struct Record {
    /// When they died, or left.
    gone: Vec<(u32, Duration, bool)>,
    /// Who has shown a card that it can be in.
    shown: BTreeSet<u32>,
    /// Who dies now.
    doomed: Vec<u32>,
    chosen: Option<Vec<u32>>,
    ended: BTreeSet<u32>,
    left_out: u64,
}

impl World {
    fn new(seed: u64, shows: bool) -> Self {
        let world = 2 + Net::new(seed, 1, false).pick(5);
        let net = Net::new(seed, FIRST + world, shows);
        let record = Rc::new(RefCell::new(Record::default()));
        let lines: Vec<Line> =
            (0..world).map(|rank| Line::new(&net, FIRST + rank, STORE)).collect();
        let tasks = (0..world).map(|rank| {
            let mut mine = Card { rank: rank as u32, ..Card::default() };
            mine.place = (!net.once_in(12)).then_some([0, 1, rank as u64]);
            if net.once_in(12) {
                let unwanted = (rank + 1) % world;
                mine.without.insert(unwanted as u32);
            }
            // On one host at once, or nearly; on another by silence.
            let hears_after =
                Duration::from_millis(net.roll(if net.once_in(2) { 10 } else { 2500 }));
            let dies_shown = net.once_in(5);
            let (net, line, record) = (net.clone(), lines[rank].clone(), record.clone());
            let survivor = Survivor { net, line, record, hears_after, dies_shown };
            Some(Box::pin(survivor.survive(mine, world)) as Task)
        });
        let tasks = tasks.collect();
        Self { net, keeper: Keeper::default(), tasks, lines, record, late_deaths: 0 }
    }

    fn run(mut self) -> [u64; 5] {
        for host in FIRST..FIRST + self.tasks.len() {
            self.net.alarm(host, self.net.clock(host), 0);
        }
        // At least one has died before, or nobody would want to know.
        self.lose(0);
        for _ in 0..self.net.roll(4) {
            let after = Duration::from_micros(self.net.roll(FAULTY.as_micros() as u64));
            self.net.alarm(FATE, self.net.clock(FATE) + after, self.net.roll(4));
        }
        while let Some((host, event)) = self.net.next() {
            match host {
                STORE => self.keeper.hear(event),
                FATE => self.happen(&event),
                rank => self.act(rank - FIRST, &event),
            }
            if self.net.now() > END {
                break;
            }
        }
        self.judge()
    }

    fn judge(self) -> [u64; 5] {
        let record = self.record.borrow();
        for (rank, task) in self.tasks.iter().enumerate().filter(|(_, task)| task.is_some()) {
            let has_ended = record.ended.contains(&(rank as u32));
            assert!(has_ended || task.is_none(), "rank {rank} has come to no end");
        }
        let chosen = record.chosen.clone().unwrap_or_default();
        let known = |rank: &u32| record.shown.contains(rank);
        assert!(chosen.iter().all(known), "{chosen:?} are in, {:?} can be", record.shown);
        [
            u64::from(chosen.len() > 1),
            record.gone.len() as u64,
            self.late_deaths,
            record.left_out,
            self.net.faults().stops,
        ]
    }

    fn happen(&mut self, event: &Event) {
        let Event::Alarm(what) = event else { return };
        let at = self.net.pick(self.tasks.len());
        let length = Duration::from_millis(1 + self.net.roll(6000));
        match what {
            0 | 1 => {
                self.late_deaths += 1;
                self.lose(at);
            }
            2 => self.net.stop(FIRST + at, length),
            _ => self.net.stop(STORE, length),
        }
    }

    /// A rank dies, or leaves, unless it is the last.
    fn lose(&mut self, at: usize) {
        if self.tasks.iter().flatten().count() < 2 || self.tasks[at].take().is_none() {
            return;
        }
        let leaves = self.net.once_in(4);
        let now = self.net.now();
        self.record.borrow_mut().gone.push((at as u32, now, leaves));
        match self.net.once_in(2) {
            true => self.net.end(FIRST + at),
            false => self.net.vanish(FIRST + at),
        }
    }

    fn act(&mut self, at: usize, event: &Event) {
        let Some(task) = &mut self.tasks[at] else { return };
        self.lines[at].hear(event);
        if !self.record.borrow().ended.contains(&(at as u32)) {
            go_on(task);
        }
        let doomed = std::mem::take(&mut self.record.borrow_mut().doomed);
        for rank in doomed {
            self.late_deaths += 1;
            self.lose(rank as usize);
        }
    }
}

/// A rank that is left, with what it knows of the others.
struct Survivor {
    net: Net,
    line: Line,
    record: Rc<RefCell<Record>>,
    /// How long it takes to hear of a death.
    hears_after: Duration,
    /// Whether it dies as soon as all can see its card.
    dies_shown: bool,
}

impl Survivor {
    async fn survive(mut self, mut mine: Card, world: usize) {
        let begins = Duration::from_millis(self.net.roll(1500));
        self.line.wait(begins, || false).await;
        if mine.place.is_some() {
            self.record.borrow_mut().shown.insert(mine.rank);
        }
        let outcome = agree(&mut self, &mut mine, world).await.unwrap();
        self.net.show(|| format!("rank {}: {outcome:?}", mine.rank));
        let mut record = self.record.borrow_mut();
        record.ended.insert(mine.rank);
        let Outcome::Settled(chosen, table) = outcome else { panic!("{outcome:?}") };
        let known = record.chosen.get_or_insert(chosen.clone());
        assert_eq!(*known, chosen, "rank {} has another group", mine.rank);
        record.left_out += u64::from(!chosen.contains(&mine.rank));
        for rank in chosen {
            assert!(
                table.place_of(rank).is_some(),
                "rank {rank} is in, and {} knows no more",
                mine.rank
            );
        }
    }
}

impl Meeting for Survivor {
    fn look_round(&mut self, mine: &mut Card) -> bool {
        let now = self.net.now();
        let before = (mine.dead.len(), mine.left.len());
        for (rank, when, leaves) in &self.record.borrow().gone {
            if *when + self.hears_after <= now {
                let list = if *leaves { &mut mine.left } else { &mut mine.dead };
                list.insert(*rank);
            }
        }
        before != (mine.dead.len(), mine.left.len())
    }

    async fn show(&mut self, entry: &[u8]) -> Result<()> {
        self.line.ask(&Request::Append { key: "cards", value: entry }, PATIENCE).await?;
        if self.dies_shown {
            let card: Card = decode(&entry[4..]).unwrap();
            self.record.borrow_mut().doomed.push(card.rank);
        }
        Ok(())
    }

    async fn hear(&mut self, known: &[u8], waits: bool) -> Result<Heard> {
        if waits {
            let look = Duration::from_millis(self.net.roll(LOOK));
            self.line.wait(look, || false).await;
        }
        match self.line.ask(&Request::GetChanged { key: "cards", known }, ANSWER).await {
            Ok(Some(Reply::Value(log))) => Ok(Heard::Log(log)),
            Ok(_) => Ok(Heard::Nothing),
            Err(_) => Ok(Heard::NoAnswer),
        }
    }

    async fn settled(&mut self) -> Result<Option<Vec<u8>>> {
        match self.line.ask(&Request::Get { key: "settled" }, ANSWER).await {
            Ok(Some(Reply::Value(settled))) => Ok(Some(settled)),
            _ => Ok(None),
        }
    }

    async fn settle(&mut self, chosen: Vec<u8>) -> Result<Vec<u8>> {
        let settle = Request::CompareSet { key: "settled", expect: None, new: &chosen };
        match self.line.ask(&settle, PATIENCE).await? {
            Some(Reply::Swap(Swap::Differs(settled))) => Ok(settled),
            _ => Ok(chosen),
        }
    }

    fn is_late(&self) -> bool {
        false
    }
}

const STORE: usize = 0;
const FATE: usize = 1;
const FIRST: usize = 2;

/// So many worlds are played.
const SEEDS: u64 = 3000;
/// Until then ranks die and stand still.
const FAULTY: Duration = Duration::from_secs(4);
const END: Duration = Duration::from_secs(60);
/// In milliseconds.
const LOOK: u64 = 40;
/// How long a store has to answer what does not wait.
const ANSWER: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(30);
