//! A call's messages, as the wire carries them.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use consort_sys::view::{Source, Target};

use super::Column;
use super::history::History;
use super::route::Route;
use crate::call::Description;
use crate::engine::lookout::Lookout;
use crate::engine::verdict::Cause;
use crate::error::{Error, Result};
use crate::exec::{Label, Links, Moved};
use crate::wire::{Header, Kind, Switch, Trouble, Wanted};

/// Ways to all ranks for the messages of one call.
#[derive(Debug)]
pub(super) struct CallLinks<'a> {
    route: &'a Route,
    lookout: &'a Lookout,
    history: &'a History,
    call: Description,
    /// If only these carry it out, by their own numbers.
    column: Option<&'a Column>,
    /// What was asked for in vain this time, by rank in the world.
    asked: Vec<(u32, Label)>,
    /// Whom something was sent to, if nothing was received.
    sent_to: Vec<u32>,
    has_received: bool,
    /// Whether the wire knows whom it waits for.
    has_waited: bool,
    /// How many bytes were sent.
    sent: usize,
    began: Option<Instant>,
}

impl<'a> CallLinks<'a> {
    pub(super) fn new(
        route: &'a Route,
        lookout: &'a Lookout,
        history: &'a History,
        call: Description,
        column: Option<&'a Column>,
    ) -> Self {
        let (asked, sent_to) = (Vec::new(), Vec::new());
        let (has_received, has_waited, sent, began) = (false, false, 0, None);
        Self {
            route,
            lookout,
            history,
            call,
            column,
            asked,
            sent_to,
            has_received,
            has_waited,
            sent,
            began,
        }
    }

    pub(super) fn wire(&self) -> &'a Arc<Switch> {
        self.route.wire()
    }

    /// Ranks of those who carry out the call, as ranks of the group.
    pub(super) fn in_group(&self, mut ranks: Vec<usize>) -> Vec<usize> {
        if let Some(column) = self.column {
            ranks.iter_mut().for_each(|rank| *rank = column.ranks[*rank]);
        }
        ranks
    }

    /// The same of one, as a rank of the world.
    fn in_world(&self, rank: usize) -> u32 {
        self.route.in_world(self.column.map_or(rank, |column| column.ranks[rank]))
    }

    /// The call is done. Ranks that only send would never find out that they make different calls.
    pub(super) fn finish(self) -> Result<()> {
        if let Some(began) = self.began {
            self.route.wire().note(self.sent, began.elapsed());
        }
        let is_time = self.history.number().is_multiple_of(PEEK);
        if self.has_received || self.sent_to.is_empty() || !is_time {
            return Ok(());
        }
        let peeked = self.route.wire().peek(&self.wanted(Label::NONE), &self.sent_to);
        peeked.map_err(|trouble| self.complain(trouble))
    }

    /// Tells those who are waited for what this rank waits in.
    pub(super) fn ask(&self, awaited: &[usize]) {
        let ranks = awaited.iter().map(|&rank| self.route.in_world(rank));
        self.route.wire().ask(&self.header(Kind::Ask, Label::NONE, 0), ranks);
    }

    /// Compares the calls in which others wait for this rank with its own.
    pub(super) fn hear(&self) -> Result<()> {
        match self.odd_ask() {
            Some((from, header)) => Err(self.complain(Trouble::Differs { from, header })),
            None => Ok(()),
        }
    }

    /// The first call that another has told of and this rank has not made.
    fn odd_ask(&self) -> Option<(u32, Header)> {
        let number = self.history.number();
        let mut asks = self.route.wire().asks(self.route.group(), number).into_iter();
        asks.find(|(_, header)| {
            let known = self.history.find(header.number);
            known.is_some_and(|(_, digest)| digest != header.digest)
        })
    }

    /// Finds the first call that a rank has not made as this one has: they tell each other their last
    /// ones. If the other does not find out that there is something to tell, nobody knows.
    fn trace_back(&self, rank: u32) -> Option<(u32, Header)> {
        let wire = self.route.wire();
        for number in self.history.numbers() {
            let Some((call, digest)) = self.history.find(number) else { continue };
            let ask = Header { number, digest, call, ..self.header(Kind::Ask, Label::NONE, 0) };
            wire.ask(&ask, [rank].into_iter());
        }
        let began = Instant::now();
        while !self.lookout.has_ended() && began.elapsed() < HELP {
            wire.clear(rank);
            if let Some(found) = self.odd_ask() {
                return Some(found);
            }
            // Says what is to be said; to sleep there is for those who are not within it already.
            wire.doze(|| false, Duration::ZERO);
            thread::sleep(HELP / 50);
        }
        None
    }

    fn wanted(&self, label: Label) -> Wanted {
        let (number, digest) = (self.history.number(), self.history.digest());
        Wanted { group: self.route.group(), number, digest, label }
    }

    fn header(&self, kind: Kind, label: Label, bytes: usize) -> Header {
        Header {
            kind,
            label,
            bytes: bytes as u32,
            sum: None,
            group: self.route.group(),
            epoch: self.route.wire().epoch(),
            number: self.history.number(),
            digest: self.history.digest(),
            call: self.call.pack(),
        }
    }

    /// Ends the group because of what came.
    #[cold]
    fn complain(&self, trouble: Trouble) -> Error {
        let cause = match trouble {
            Trouble::Differs { from, header } => self.differs_from(from, &header),
            Trouble::Length { from, header, expected } => {
                let from = self.route.in_group(from);
                return self.differs(from, expected as u64, u64::from(header.bytes));
            }
            Trouble::Damaged { from, what } => {
                Cause::Damaged { rank: self.route.in_group(from) as u32, what }
            }
        };
        self.lookout.decide(cause)
    }

    fn differs_from(&self, from: u32, header: &Header) -> Cause {
        let same = self.history.find(header.number);
        let is_later = same.is_some_and(|(call, digest)| {
            call == header.call && digest != header.digest && !scales(call)
        });
        match is_later.then(|| self.trace_back(from)).flatten() {
            Some((from, first)) => self.differs_in(from, &first),
            None => self.differs_in(from, header),
        }
    }

    fn differs_in(&self, from: u32, header: &Header) -> Cause {
        let (number, rank) = (header.number, self.route.in_group(from) as u32);
        let theirs = in_words(header.call);
        match self.history.find(number) {
            Some((_, digest)) if digest == header.digest => Cause::Damaged {
                rank,
                what: format!("it sent more of call {number}, {theirs}, than belongs to it"),
            },
            Some((call, _)) => {
                let mine = in_words(call);
                let theirs = match mine == theirs {
                    true if scales(header.call) => theirs + " with another factor",
                    true => theirs + " after another call",
                    false => theirs,
                };
                Cause::Differs { number, mine, rank, theirs }
            }
            None => {
                let mine = "something else, too long ago to tell".to_owned();
                Cause::Differs { number, mine, rank, theirs }
            }
        }
    }
}

impl Drop for CallLinks<'_> {
    fn drop(&mut self) {
        if self.has_waited {
            self.route.wire().await_nobody(self.route.group());
        }
    }
}

impl Links for CallLinks<'_> {
    fn look_again(&mut self) {
        self.asked.clear();
        self.route.wire().glance();
    }

    fn send(
        &mut self,
        to: usize,
        label: Label,
        parts: &[Source<'_>],
        done: &mut usize,
    ) -> Result<Moved> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        if bytes >= LARGE {
            self.began.get_or_insert_with(Instant::now);
        }
        let header = self.header(Kind::Part, label, bytes);
        let to = self.in_world(to);
        let moved = self.route.wire().send(to, &header, parts, done);
        let moved = moved.map_err(|trouble| self.complain(trouble))?;
        if moved == Moved::Whole {
            self.sent += bytes;
        }
        match moved {
            Moved::Nothing => {
                self.asked.push((to, Label::NONE));
            }
            Moved::Whole if !self.has_received && !self.sent_to.contains(&to) => {
                self.sent_to.push(to);
            }
            _ => {}
        }
        Ok(moved)
    }

    fn receive(
        &mut self,
        from: usize,
        label: Label,
        parts: &[Target<'_>],
        done: &mut usize,
    ) -> Result<Moved> {
        let from = self.in_world(from);
        let wanted = self.wanted(label);
        let moved = self.route.wire().receive(from, &wanted, parts, done);
        let moved = moved.map_err(|trouble| self.complain(trouble))?;
        match moved {
            Moved::Whole => self.has_received = true,
            _ => self.asked.push((from, label)),
        }
        Ok(moved)
    }

    fn make_way(&mut self) -> Result<bool> {
        let Self { route, history, asked, .. } = self;
        let moved = route.wire().make_way(route.group(), history.number(), asked);
        self.has_waited = true;
        moved.map_err(|trouble| self.complain(trouble))
    }

    fn differs(&self, from: usize, expected: u64, sent: u64) -> Error {
        let (call, to) = (&self.call, self.route.me());
        self.lookout.decide(Cause::Differs {
            number: self.history.number(),
            mine: format!("{call}, with {expected} bytes from rank {from} to rank {to}"),
            rank: from as u32,
            theirs: format!("{call}, with {sent}"),
        })
    }
}

/// Whether a call multiplies by a factor, which its header has no room for.
fn scales(call: [u64; 2]) -> bool {
    Description::unpack(call).is_some_and(|description| description.scales())
}

fn in_words(call: [u64; 2]) -> String {
    match Description::unpack(call) {
        Some(description) => description.to_string(),
        None => "a call of another version".to_owned(),
    }
}

/// Every how many calls a rank that only sends looks at what has come.
const PEEK: u64 = 8;
/// How long another may take to tell which calls it has made.
const HELP: Duration = Duration::from_millis(500);
/// Calls with messages of this size are timed.
const LARGE: usize = 64 << 10;
