//! A small world: two stores, some clients, connections that are slow, stand still or end, and
//! processes that stop, end or vanish. One step is one millisecond; a seed decides everything.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use consort_testkit::net::Dice;

use crate::history::{Call, History, Op};
use crate::keeper::{Keeper, Standing};
use crate::machine::Ticket;
use crate::mirror::{Note, Times};
use crate::request::Reply;

pub(super) struct World {
    dice: Dice,
    shows: bool,
    start: Instant,
    now: u64,
    stores: [Store; 2],
    forth: Channel<FromFirst>,
    back: Channel<FromSecond>,
    /// The two stores cannot reach each other until then.
    cut_until: u64,
    clients: Vec<Client>,
    history: History,
    plan: Vec<(u64, Fault)>,
    took_over: bool,
}

/// What became of a world.
pub(super) struct End {
    pub(super) took_over: bool,
    pub(super) went_on_alone: bool,
}

struct Store {
    keeper: Keeper,
    life: Life,
    stopped_until: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Alive,
    /// Its process has ended, and its system says so.
    Ended,
    /// Its host is gone without a word.
    Vanished,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    End(usize),
    Vanish(usize),
    Stop(usize),
    Cut,
    CutClient(usize, usize),
    Break(usize),
    EndClient(usize),
}

struct Client {
    number: u64,
    alive: bool,
    next_call: u64,
    epoch: u64,
    /// Open calls with their place in the history.
    open: BTreeMap<u64, usize>,
    done: Vec<u64>,
    link: Option<Link>,
    dial_at: u64,
    /// It cannot reach this store until then.
    cut: [u64; 2],
}

struct Link {
    store: usize,
    up: Channel<Up>,
    down: Channel<(u64, Reply)>,
    /// Since when nothing has come though something is awaited.
    silent_since: u64,
    ended: bool,
}

enum Up {
    Hello { epoch: u64, open: Vec<u64> },
    Call { call: u64, done: Vec<u64>, op: Op },
    Closed,
}

enum FromFirst {
    Note(Note),
    Closed,
}

enum FromSecond {
    Have(u64),
    Took,
    Closed,
}

impl World {
    pub(super) fn new(seed: u64, shows: bool) -> Self {
        let mut dice = Dice::new(seed);
        let start = Instant::now();
        let mut first = Keeper::first(TIMES);
        assert!(first.attach(start));
        let store = |keeper| Store { keeper, life: Life::Alive, stopped_until: 0 };
        let plan = plan(&mut dice);
        Self {
            clients: (0..CLIENTS as u64).map(Client::new).collect(),
            dice,
            shows,
            start,
            now: 0,
            stores: [store(first), store(Keeper::second(start, TIMES))],
            forth: Channel::default(),
            back: Channel::default(),
            cut_until: 0,
            history: History::default(),
            plan,
            took_over: false,
        }
    }

    pub(super) fn run(mut self) -> End {
        while self.now < FAULTY + CALM {
            self.now += 1;
            self.break_things();
            for client in 0..self.clients.len() {
                self.move_client(client);
            }
            self.carry_notes();
            for store in 0..2 {
                self.move_store(store);
            }
        }
        let must_serve = match self.plan[..] {
            [] => true,
            [(at, fault)] => at > PAIRED && fault != Fault::Vanish(1),
            _ => false,
        };
        let serving: Vec<usize> = (0..2).filter(|&it| self.serves(it)).collect();
        assert!(serving.len() <= 1, "both serve");
        assert!(!must_serve || serving.len() == 1, "nobody serves after {:?}", self.plan);
        self.history.check(!serving.is_empty());
        if let [_] = serving[..] {
            for client in self.clients.iter().filter(|client| client.alive) {
                assert!(client.open.is_empty(), "client {} got no answer", client.number);
            }
        }
        let first = &self.stores[0];
        let alone = first.life == Life::Alive && first.keeper.epoch() == 3;
        End { took_over: self.took_over, went_on_alone: alone }
    }

    fn serves(&self, store: usize) -> bool {
        let Store { keeper, life, .. } = &self.stores[store];
        *life == Life::Alive && keeper.standing(self.clock()) == Standing::Serves
    }

    fn clock(&self) -> Instant {
        self.start + Duration::from_millis(self.now)
    }

    fn break_things(&mut self) {
        let now = self.now;
        let due: Vec<Fault> =
            self.plan.iter().filter(|(at, _)| *at == now).map(|(_, fault)| *fault).collect();
        for fault in due {
            self.show(|| format!("{fault:?}"));
            let length = 1 + self.dice.below(2 * TAKEOVER);
            match fault {
                Fault::End(store) => self.end(store, Life::Ended),
                Fault::Vanish(store) => self.end(store, Life::Vanished),
                Fault::Stop(store) => self.stores[store].stopped_until = now + length,
                Fault::Cut => self.cut_until = now + length,
                Fault::CutClient(client, store) => self.clients[client].cut[store] = now + length,
                Fault::Break(client) => self.hang_up(client),
                Fault::EndClient(client) => {
                    self.hang_up(client);
                    self.clients[client].alive = false;
                }
            }
        }
    }

    fn end(&mut self, store: usize, life: Life) {
        self.stores[store].life = life;
        let closed = life == Life::Ended;
        match store {
            0 if closed => self.forth.send(self.now, &mut self.dice, FromFirst::Closed),
            1 if closed => self.back.send(self.now, &mut self.dice, FromSecond::Closed),
            0 => self.forth.queue.clear(),
            _ => self.back.queue.clear(),
        }
        for client in &mut self.clients {
            if let Some(link) = client.link.as_mut().filter(|link| link.store == store) {
                // What was on its way may still come, or may not.
                link.ended = closed;
                if !closed || self.dice.below(2) == 0 {
                    link.down.queue.clear();
                }
            }
        }
    }

    fn hang_up(&mut self, client: usize) {
        let Client { link, dial_at, .. } = &mut self.clients[client];
        *dial_at = self.now + 1 + self.dice.below(5);
        let Some(mut link) = link.take() else { return };
        link.up.send(self.now, &mut self.dice, Up::Closed);
        // The store reads to the end, of what came.
        let lost = self.dice.below(3) == 0;
        let number = self.clients[client].number;
        let store = link.store;
        if !self.takes_part(store) {
            return;
        }
        while let Some((_, up)) = link.up.queue.pop_front() {
            match up {
                Up::Closed => self.stores[store].keeper.forget(number, self.clock()),
                _ if lost => {}
                up => self.take(store, number, up),
            }
        }
    }

    fn takes_part(&self, store: usize) -> bool {
        let Store { life, stopped_until, .. } = &self.stores[store];
        *life == Life::Alive && *stopped_until <= self.now
    }

    fn move_client(&mut self, client: usize) {
        if !self.clients[client].alive {
            return;
        }
        if self.clients[client].link.is_none() {
            self.dial(client);
        }
        self.receive(client);
        let calm = self.now >= FAULTY;
        let busy = self.clients[client].open.len();
        let begins = !calm && busy < 3 && self.dice.below(6) == 0;
        if begins {
            let op = self.choose_op();
            self.begin(client, op);
        }
        let helps = calm && client == 0 && self.now < FAULTY + CALM - LAST;
        if helps && self.now.is_multiple_of(10) && busy < 12 {
            self.help(client);
        }
        self.carry_calls(client);
    }

    fn choose_op(&mut self) -> Op {
        let flag = self.dice.below(8);
        match self.dice.below(10) {
            0..4 => Op::Add,
            4 => Op::Read,
            5 | 6 => Op::Push(self.history.calls.len() as u64),
            7 => Op::Pop,
            8 => Op::Set(flag),
            _ => Op::Wait(flag),
        }
    }

    /// In the end one client sees to it that nobody has to wait, and takes what is left.
    fn help(&mut self, client: usize) {
        let turn = self.now / 10;
        let op = match (self.now - FAULTY) * 2 < CALM {
            true if turn.is_multiple_of(3) => Op::Set(turn / 3 % 8),
            true => Op::Push(self.history.calls.len() as u64),
            false => return self.take_the_rest(client),
        };
        self.begin(client, op);
        if turn.is_multiple_of(5) {
            self.begin(client, Op::Add);
        }
    }

    /// Takes elements, as long as there are enough to be sure to get one.
    fn take_the_rest(&mut self, client: usize) {
        let told = |op: &dyn Fn(&Op) -> bool, answered: bool| {
            let calls = self.history.calls.iter();
            calls.filter(|it| op(&it.op) && (it.ended.is_some() || !answered)).count()
        };
        let brought = told(&|op| matches!(op, Op::Push(_)), true);
        let taken = told(&|op| *op == Op::Pop, false);
        for _ in 0..brought.saturating_sub(taken).min(20) {
            self.begin(client, Op::Pop);
        }
    }

    fn begin(&mut self, client: usize, op: Op) {
        let place = self.history.calls.len();
        self.history.calls.push(Call { op: op.clone(), began: self.now, ended: None });
        let Client { next_call, open, link, done, .. } = &mut self.clients[client];
        let call = *next_call;
        *next_call += 1;
        open.insert(call, place);
        if let Some(link) = link {
            let done = std::mem::take(done);
            link.up.send(self.now, &mut self.dice, Up::Call { call, done, op });
        }
    }

    /// Tries one of the stores, and makes its open calls again if that one serves.
    fn dial(&mut self, client: usize) {
        if self.now < self.clients[client].dial_at {
            return;
        }
        self.clients[client].dial_at = self.now + 2 + self.dice.below(10);
        let store = self.dice.below(2) as usize;
        let reachable = self.clients[client].cut[store] <= self.now && self.takes_part(store);
        let epoch = self.stores[store].keeper.epoch();
        let Client { epoch: known, open, link, done, .. } = &mut self.clients[client];
        if !reachable || epoch < *known || !serves_at(&self.stores[store], self.start, self.now) {
            return;
        }
        *known = epoch;
        done.clear();
        let mut up = Channel::default();
        let calls = open.keys().copied().collect();
        up.send(self.now, &mut self.dice, Up::Hello { epoch, open: calls });
        for (&call, &place) in &*open {
            let op = self.history.calls[place].op.clone();
            up.send(self.now, &mut self.dice, Up::Call { call, done: Vec::new(), op });
        }
        let down = Channel::default();
        *link = Some(Link { store, up, down, silent_since: self.now, ended: false });
    }

    fn receive(&mut self, client: usize) {
        let Client { link, open, done, cut, epoch, .. } = &mut self.clients[client];
        let Some(it) = link else { return };
        let mut gives_up = false;
        if cut[it.store] <= self.now {
            while let Some((call, reply)) = it.down.receive(self.now) {
                it.silent_since = self.now;
                if let Some(place) = open.remove(&call) {
                    done.push(call);
                    let before = self.history.calls[place].ended.replace((self.now, reply));
                    assert_eq!(before, None);
                }
            }
            let store = &self.stores[it.store];
            if store.life == Life::Alive && store.stopped_until <= self.now {
                // The store says when something changes.
                *epoch = (*epoch).max(store.keeper.epoch());
                gives_up = !serves_at(store, self.start, self.now);
            }
            gives_up |= it.ended && it.down.queue.is_empty();
        }
        gives_up |= !open.is_empty() && it.silent_since + PATIENCE < self.now;
        if gives_up {
            self.hang_up(client);
        }
    }

    fn carry_calls(&mut self, client: usize) {
        let number = self.clients[client].number;
        loop {
            let Client { link, cut, .. } = &mut self.clients[client];
            let Some(link) = link else { return };
            let store = link.store;
            let Store { life, stopped_until, .. } = self.stores[store];
            if cut[store] > self.now || life != Life::Alive || stopped_until > self.now {
                return;
            }
            let Some(up) = link.up.receive(self.now) else { return };
            self.take(store, number, up);
        }
    }

    fn take(&mut self, store: usize, client: u64, up: Up) {
        let now = self.clock();
        let keeper = &mut self.stores[store].keeper;
        match up {
            Up::Hello { epoch, open } => keeper.welcome(client, epoch, &open, now),
            Up::Call { call, done, op } => {
                let ticket = Ticket { client, call };
                op.with_request(|request| keeper.call(ticket, true, &done, request, now));
            }
            Up::Closed => keeper.forget(client, now),
        }
    }

    fn carry_notes(&mut self) {
        if self.cut_until > self.now {
            return;
        }
        let now = self.clock();
        while self.takes_part(1) {
            let Some(message) = self.forth.receive(self.now) else { break };
            let keeper = &mut self.stores[1].keeper;
            match message {
                FromFirst::Note(note) => {
                    if let Some(index) = keeper.hear(note, now).expect("notes make sense") {
                        self.back.send(self.now, &mut self.dice, FromSecond::Have(index));
                    }
                }
                FromFirst::Closed => keeper.first_lost(true),
            }
        }
        while self.takes_part(0) {
            let Some(message) = self.back.receive(self.now) else { break };
            let keeper = &mut self.stores[0].keeper;
            match message {
                FromSecond::Have(index) => keeper.have(index, now),
                FromSecond::Took => keeper.depose(),
                FromSecond::Closed => keeper.second_lost(true, now),
            }
        }
    }

    fn move_store(&mut self, store: usize) {
        if !self.takes_part(store) {
            return;
        }
        let now = self.clock();
        let before = self.serves(store);
        let Store { keeper, .. } = &mut self.stores[store];
        keeper.tick(now);
        let (answers, notes) =
            (std::mem::take(&mut keeper.answers), std::mem::take(&mut keeper.notes));
        if store == 0 {
            for note in notes {
                self.forth.send(self.now, &mut self.dice, FromFirst::Note(note));
            }
        }
        for (Ticket { client, call }, reply) in answers {
            let link = self.clients[client as usize].link.as_mut();
            if let Some(link) = link.filter(|link| link.store == store) {
                link.down.send(self.now, &mut self.dice, (call, reply));
            }
        }
        if store == 1 && self.serves(1) && !self.took_over {
            self.took_over = true;
            if self.cut_until > self.now && self.dice.below(2) == 0 {
                // The systems give the connection up, and what was to be said on it is lost.
                self.back.queue.clear();
            } else {
                self.back.send(self.now, &mut self.dice, FromSecond::Took);
            }
        }
        if before != self.serves(store) {
            self.show(|| format!("store {store} serves: {}", !before));
        }
    }

    fn show(&self, what: impl FnOnce() -> String) {
        if self.shows {
            println!("{:5} {}", self.now, what());
        }
    }
}

fn serves_at(store: &Store, start: Instant, now: u64) -> bool {
    store.keeper.standing(start + Duration::from_millis(now)) == Standing::Serves
}

impl Client {
    fn new(number: u64) -> Self {
        Self {
            number,
            alive: true,
            next_call: 0,
            epoch: 0,
            open: BTreeMap::new(),
            done: Vec::new(),
            link: None,
            dial_at: 0,
            cut: [0; 2],
        }
    }
}

/// What goes wrong, and when. Every third world has one fault only, so that one can say what must
/// come of it.
fn plan(dice: &mut Dice) -> Vec<(u64, Fault)> {
    let count = if dice.below(3) == 0 { 1 } else { dice.below(6) };
    let fault = |dice: &mut Dice| {
        let (store, client) = (dice.below(2) as usize, 1 + dice.below(CLIENTS as u64 - 1) as usize);
        match dice.below(9) {
            0 | 1 => Fault::End(store),
            2 => Fault::Vanish(store),
            3 => Fault::Stop(store),
            4 | 5 => Fault::Cut,
            6 => Fault::CutClient(client, store),
            7 => Fault::Break(client),
            _ => Fault::EndClient(client),
        }
    };
    if dice.below(6) == 0 {
        // The second may have taken over when it ends, and the first may not have heard of it.
        let cut = PAIRED + dice.below(FAULTY / 2);
        return vec![(cut, Fault::Cut), (cut + TAKEOVER / 2 + dice.below(TAKEOVER), Fault::End(1))];
    }
    (0..count).map(|_| (1 + dice.below(FAULTY), fault(dice))).collect()
}

/// An ordered way with delays.
struct Channel<T> {
    queue: VecDeque<(u64, T)>,
}

impl<T> Default for Channel<T> {
    fn default() -> Self {
        Self { queue: VecDeque::new() }
    }
}

impl<T> Channel<T> {
    fn send(&mut self, now: u64, dice: &mut Dice, what: T) {
        let after = self.queue.back().map_or(0, |(at, _)| *at);
        self.queue.push_back(((now + 1 + dice.below(5)).max(after), what));
    }

    fn receive(&mut self, now: u64) -> Option<T> {
        self.queue.pop_front_if(|(at, _)| *at <= now).map(|(_, what)| what)
    }
}

const CLIENTS: usize = 4;
const TAKEOVER: u64 = 80;
const TIMES: Times = Times {
    beat: Duration::from_millis(TAKEOVER / 8),
    lease: Duration::from_millis(TAKEOVER / 2),
    takeover: Duration::from_millis(TAKEOVER),
};
/// How long a client waits for an answer before it tries the other store. Waiting for others counts,
/// too: that only makes it come again.
const PATIENCE: u64 = 60;
/// By then the copy is whole.
const PAIRED: u64 = 60;
const FAULTY: u64 = 350;
const CALM: u64 = 800;
/// Enough for what was begun to be answered.
const LAST: u64 = 150;
