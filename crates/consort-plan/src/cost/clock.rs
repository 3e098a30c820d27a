//! The clock: tasks are ranks' segments, and go from round to round as messages come.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::hash::BuildHasherDefault;

use super::shape::{Receive, Send, Shape};
use super::{Case, Link};
use crate::mix::Mix;

/// A run of some ranks of a case. Where hosts are alike, the ranks of the first host stand for all: a
/// message to another host is one that comes from another host.
pub(super) struct Clock<'a> {
    case: &'a Case,
    shapes: &'a [Shape],
    chunk_bytes: f64,
    world: u32,
    segments: u64,
    /// Tasks by rank and lane.
    tasks: Vec<Task>,
    ports: Ports,
    due: BinaryHeap<Reverse<Due>>,
    /// How many there have been.
    events: u64,
    /// Messages that nobody waits for yet, and tasks that wait for a message.
    arrived: HashMap<Way, VecDeque<f64>, BuildHasherDefault<Mix>>,
    awaited: HashMap<Way, (usize, f64), BuildHasherDefault<Mix>>,
    end: f64,
}

/// From a rank, to a rank that is run, for a segment.
type Way = (u32, u32, u32);

/// A segment on a rank.
#[derive(Clone, Copy, Default)]
struct Task {
    segment: u64,
    round: u32,
    /// What it still waits for in its round.
    missing: u32,
    /// When all that is done so far in its round is done.
    ready: f64,
}

/// Something that happens at a time. What happens at the same time goes by slot, then by turn.
struct Due {
    at: f64,
    order: (u64, u64),
    event: Event,
}

enum Event {
    /// A task begins its next round.
    Begin { task: usize },
    /// A rank's next message leaves.
    Send { rank: usize },
    /// A message begins to arrive.
    Arrive(Message),
}

struct Message {
    way: Way,
    bytes: f64,
    link: Link,
    /// Whether it comes from another host.
    outside: bool,
}

/// Until when ports are busy: a rank's ways out and in, and those of hosts to the network.
struct Ports {
    /// Messages that wait for their rank's way out, with the tasks they belong to.
    waiting: Vec<VecDeque<(usize, Send)>>,
    out: Vec<f64>,
    inward: Vec<f64>,
    host_out: Vec<f64>,
    host_in: Vec<f64>,
    processor: Vec<f64>,
}

impl<'a> Clock<'a> {
    pub(super) fn new(case: &'a Case, shapes: &'a [Shape], chunk_bytes: f64) -> Self {
        let lanes = case.pipeline.lanes.max(1) as usize;
        let (ranks, hosts) = (shapes.len(), case.layout.count() as usize);
        Self {
            case,
            shapes,
            chunk_bytes,
            world: case.layout.world(),
            segments: 0,
            tasks: vec![Task::default(); ranks * lanes],
            ports: Ports {
                waiting: vec![VecDeque::new(); ranks],
                out: vec![0.0; ranks],
                inward: vec![0.0; ranks],
                host_out: vec![0.0; hosts],
                host_in: vec![0.0; hosts],
                processor: vec![0.0; ranks],
            },
            due: BinaryHeap::new(),
            events: 0,
            arrived: HashMap::default(),
            awaited: HashMap::default(),
            end: 0.0,
        }
    }

    /// When the last rank has ended so many segments.
    pub(super) fn run(mut self, segments: u64) -> f64 {
        self.segments = segments;
        let lanes = self.lanes();
        for task in 0..self.tasks.len() {
            let (rank, lane) = (task / lanes, (task % lanes) as u64);
            if lane < segments {
                let straggler = self.case.straggler.filter(|it| it.rank as usize == rank);
                let ready = straggler.map_or(0.0, |it| it.delay);
                self.tasks[task] = Task { segment: lane, ready, ..Task::default() };
                self.wake(task);
            }
        }
        while let Some(Reverse(Due { at, event, .. })) = self.due.pop() {
            match event {
                Event::Begin { task } => self.begin_round(task, at),
                Event::Send { rank } => self.send(rank, at),
                Event::Arrive(message) => self.arrive(message, at),
            }
        }
        assert!(self.awaited.is_empty(), "programs that are right end");
        self.end
    }

    /// Begins a task's next round, or its rank's next segment in this lane.
    fn begin_round(&mut self, index: usize, now: f64) {
        let task = self.tasks[index];
        let rank = index / self.lanes();
        let shapes = self.shapes;
        let shape = &shapes[rank];
        if task.round as usize == shape.len() {
            self.end = self.end.max(now);
            let segment = task.segment + self.lanes() as u64;
            if segment < self.segments {
                self.tasks[index] = Task { segment, ready: now, ..Task::default() };
                self.wake(index);
            }
            return;
        }
        let (copied, sends, receives) = shape.round(task.round as usize);
        let mut start = now;
        if copied > 0 {
            let processor = &mut self.ports.processor[rank];
            let cost = self.chunk_bytes * f64::from(copied) * self.case.network.copy;
            start = now.max(*processor) + cost;
            *processor = start;
        }
        self.tasks[index] = Task { round: task.round + 1, missing: 1, ready: start, ..task };
        for send in sends {
            self.post(index, *send, start);
        }
        for receive in receives {
            self.receive(index, rank as u32, task.segment, *receive);
        }
        self.settle(index, f64::NEG_INFINITY);
    }

    /// A message of a task waits for its rank's way out.
    fn post(&mut self, index: usize, send: Send, now: f64) {
        let rank = index / self.lanes();
        self.tasks[index].missing += 1;
        let queue = &mut self.ports.waiting[rank];
        queue.push_back((index, send));
        if queue.len() == 1 {
            let at = now.max(self.ports.out[rank]);
            self.schedule(at, Event::Send { rank });
        }
    }

    /// The next message of a rank leaves.
    fn send(&mut self, rank: usize, now: f64) {
        let (task, send) = *self.ports.waiting[rank].front().expect("there is one to send");
        let bytes = self.chunk_bytes * f64::from(send.chunks);
        let seen = send.to % self.shapes.len() as u32;
        let from = (rank as u32 + self.world + seen - send.to) % self.world;
        let layout = &self.case.layout;
        let outside = !layout.together(rank as u32, send.to);
        let link = self.link(rank as u32, send.to);
        let (mut start, shared) = (now, self.shared(bytes));
        if outside {
            let port = &mut self.ports.host_out[layout.host(rank as u32) as usize];
            start = start.max(*port);
            *port = start + shared;
        }
        let done = start + link.gap + bytes * link.beta;
        self.ports.out[rank] = done;
        let way = (from, seen, self.tasks[task].segment as u32);
        let message = Message { way, bytes, link, outside };
        self.schedule(start + link.alpha, Event::Arrive(message));
        self.ports.waiting[rank].pop_front();
        if !self.ports.waiting[rank].is_empty() {
            self.schedule(done, Event::Send { rank });
        }
        self.settle(task, done);
    }

    /// A message begins to arrive.
    fn arrive(&mut self, message: Message, now: f64) {
        let Message { way, bytes, link: Link { gap, beta, .. }, outside } = message;
        let rank = way.1 as usize;
        let (mut start, shared) = (now.max(self.ports.inward[rank]), self.shared(bytes));
        if outside {
            let port = &mut self.ports.host_in[self.case.layout.host(way.1) as usize];
            start = start.max(*port);
            *port = start + shared;
        }
        let end = start + bytes * beta;
        self.ports.inward[rank] = end + gap;
        match self.awaited.remove(&way) {
            Some((task, combine)) => self.settle(task, end + combine),
            None => self.arrived.entry(way).or_default().push_back(end),
        }
    }

    /// How long a message keeps one of a host's ports.
    fn shared(&self, bytes: f64) -> f64 {
        bytes * self.case.network.between.beta / f64::from(self.case.network.ports.max(1))
    }

    /// Takes a message that has come, or waits for it.
    fn receive(&mut self, task: usize, rank: u32, segment: u64, receive: Receive) {
        let combine = self.chunk_bytes * f64::from(receive.combined) * self.case.network.gamma;
        let way = (receive.from, rank, segment as u32);
        self.tasks[task].missing += 1;
        match self.arrived.get_mut(&way).and_then(VecDeque::pop_front) {
            Some(arrival) => {
                if self.arrived[&way].is_empty() {
                    self.arrived.remove(&way);
                }
                self.settle(task, arrival + combine);
            }
            None => {
                self.awaited.insert(way, (task, combine));
            }
        }
    }

    /// One of the things that a task's round consists of is done at this time.
    fn settle(&mut self, index: usize, at: f64) {
        let task = &mut self.tasks[index];
        task.ready = task.ready.max(at);
        task.missing -= 1;
        if task.missing == 0 {
            self.wake(index);
        }
    }

    fn wake(&mut self, index: usize) {
        let task = self.tasks[index];
        let slot = task.segment * u64::from(self.case.pipeline.stagger) + u64::from(task.round);
        self.events += 1;
        let (at, event) = (task.ready, Event::Begin { task: index });
        self.due.push(Reverse(Due { at, order: (slot, self.events), event }));
    }

    fn schedule(&mut self, at: f64, event: Event) {
        self.events += 1;
        self.due.push(Reverse(Due { at, order: (0, self.events), event }));
    }

    fn link(&self, from: u32, to: u32) -> Link {
        let Case { layout, network, slow_link, .. } = self.case;
        let (home, away) = (layout.host(from), layout.host(to));
        if home == away {
            return network.inside;
        }
        let Link { alpha, gap, beta } = network.between;
        match slow_link {
            Some(slow)
                if (slow.one, slow.other) == (home, away)
                    || (slow.other, slow.one) == (home, away) =>
            {
                Link { alpha: alpha * slow.factor, gap, beta: beta * slow.factor }
            }
            _ => network.between,
        }
    }

    fn lanes(&self) -> usize {
        self.case.pipeline.lanes.max(1) as usize
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> Ordering {
        self.at.total_cmp(&other.at).then(self.order.cmp(&other.order))
    }
}
