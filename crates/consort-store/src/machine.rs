//! The server's mind: a table, and who waits for what. Pure: no socket, no clock, no thread.
//!
//! A driver sorts its work into three commands — [`call`](Machine::call) for a client's request,
//! [`cancel`](Machine::cancel) when a client gives up on one, [`forget`](Machine::forget) when a
//! client is gone — and delivers the answers that each of them produces.
//!
//! A call that changed something is carried out once, however often it is made: a client may have
//! lost the answer together with its connection ([`receipts`](crate::receipts)). What was changed,
//! and for which call, can be kept in a log, from which a second machine becomes like this one
//! ([`mirror`](crate::mirror)).

use std::collections::{BTreeMap, HashMap, VecDeque};

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use crate::error::Refusal;
use crate::mirror::{Entry, Note};
use crate::receipts::{Receipts, tells_of_change};
use crate::request::{Limits, Reply, Request};
use crate::table::{Outcome, Part, Table};

/// One call of one client. Clients choose their numbers at random, calls are numbered by their
/// client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket {
    pub(crate) client: u64,
    pub(crate) call: u64,
}

/// Answers to deliver, in order.
pub(crate) type Answers = Vec<(Ticket, Reply)>;

/// The state of one server.
///
/// Each waiting call stands in one line: that of the first of its keys that is missing. When
/// somebody writes a key, its line is asked again, in order, and each call is either answered or
/// goes to stand at the next key it misses. So a call that waits for n keys moves at most n
/// times, and a write costs nothing to those who wait for other keys.
#[derive(Debug)]
pub(crate) struct Machine {
    table: Table,
    waiting: BTreeMap<Ticket, Want>,
    lines: HashMap<Box<str>, VecDeque<Ticket>>,
    limits: Limits,
    /// Bytes held by waiting calls.
    weight: usize,
    receipts: Receipts,
    /// What has happened since it was last taken, if somebody wants to know.
    log: Option<Vec<Entry>>,
}

/// A request that waits, with the key in whose line it stands.
#[derive(Debug)]
struct Want {
    verb: WaitingVerb,
    keys: Vec<Box<str>>,
    at: usize,
    weight: usize,
}

#[derive(Debug)]
enum WaitingVerb {
    Get,
    GetChanged { known: Box<[u8]> },
    MultiGet,
    Wait,
    Pop,
    Pass { generation: u64 },
}

impl Machine {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            table: Table::new(limits),
            waiting: BTreeMap::new(),
            lines: HashMap::new(),
            limits,
            weight: 0,
            receipts: Receipts::default(),
            log: None,
        }
    }

    /// Carries out a request. It is answered now or, if it has to wait and `wait` allows it,
    /// later; others' calls that waited for what it wrote are answered too.
    pub(crate) fn call(
        &mut self,
        ticket: Ticket,
        wait: bool,
        request: &Request<'_>,
        answers: &mut Answers,
    ) {
        if request.can_change() {
            if let Some(reply) = self.receipts.of(ticket.client, ticket.call) {
                answers.push((ticket, reply.clone()));
                return;
            }
            if let Err(refusal) = self.check_receipts(ticket.client) {
                answers.push((ticket, Reply::Refused(refusal)));
                return;
            }
        }
        match self.table.apply(request) {
            Outcome::Settled(reply) => {
                note_change(&mut self.receipts, &mut self.log, ticket, request, &reply);
                let refused = matches!(reply, Reply::Refused(_));
                answers.push((ticket, reply));
                if request.can_wake() && !refused && !self.lines.is_empty() {
                    for key in request.keys() {
                        self.ask_line(key, answers);
                    }
                }
            }
            Outcome::Blocked(_) if !wait => {
                answers.push((ticket, Reply::Missing(self.table.missing(request))));
            }
            Outcome::Blocked(at) => {
                if let Err(refusal) = self.queue_up(ticket, request, at) {
                    answers.push((ticket, Reply::Refused(refusal)));
                }
            }
        }
    }

    /// Ends a call's wait. It is answered with what it misses, unless it has been answered before.
    pub(crate) fn cancel(&mut self, ticket: Ticket, answers: &mut Answers) {
        if let Some(want) = self.leave(ticket) {
            answers.push((ticket, Reply::Missing(self.table.missing(&want.request()))));
        }
    }

    /// Ends all waits of a client that is gone. If it comes back it makes its calls again.
    pub(crate) fn forget(&mut self, client: u64) {
        self.end_waits(client);
        self.receipts.gone(client);
        self.write_down(|| Entry::Gone { client });
    }

    /// A client is here, perhaps again, and these of its calls have no answer yet.
    pub(crate) fn welcome(&mut self, client: u64, open: &[u64]) {
        self.end_waits(client);
        self.receipts.here(client, open);
        self.write_down(|| Entry::Here { client, open: open.to_vec() });
    }

    /// A client has the answers to these calls, or has given up on them.
    pub(crate) fn settle(&mut self, client: u64, calls: &[u64]) {
        if !calls.is_empty() {
            self.receipts.settle(client, calls);
            self.write_down(|| Entry::Settled { client, calls: calls.to_vec() });
        }
    }

    /// From now on what happens is written down.
    pub(crate) fn start_log(&mut self) {
        self.log = Some(Vec::new());
    }

    /// Nobody reads the log any more.
    pub(crate) fn end_log(&mut self) {
        self.log = None;
    }

    /// What has happened since this was last asked.
    pub(crate) fn take_log(&mut self) -> Vec<Entry> {
        self.log.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// All that another machine needs to become like this one, but for those who wait: they make
    /// their calls again.
    pub(crate) fn copy(&self) -> impl Iterator<Item = Note> {
        let parts = self.table.parts().map(|part| Note::Part(encode(&part)));
        let receipts = self.receipts.all().map(|(client, call, reply)| Note::Receipt {
            client,
            call,
            reply: reply.clone(),
        });
        parts.chain(receipts).chain(self.receipts.absent().map(|client| Note::Absent { client }))
    }

    /// Takes a part of another machine's copy.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn restore(&mut self, note: Note) -> Result<(), String> {
        match note {
            Note::Part(bytes) => {
                let part: Part<'_> = decode(&bytes)?;
                self.table.restore(&part).map_err(|refusal| refusal.to_string())
            }
            Note::Receipt { client, call, reply } => {
                self.receipts.keep(client, call, reply);
                Ok(())
            }
            Note::Absent { client } => {
                self.receipts.gone(client);
                Ok(())
            }
            Note::Whole { .. } | Note::Entry { .. } => Err("this is no part of a copy".to_owned()),
        }
    }

    /// Does what has happened on another machine.
    ///
    /// # Errors
    /// When it cannot have happened to a machine like this one.
    pub(crate) fn follow(&mut self, entry: Entry) -> Result<(), String> {
        match entry {
            Entry::Change { client, call, request } => {
                let request: Request<'_> = decode(&request)?;
                match self.table.apply(&request) {
                    Outcome::Settled(reply) if tells_of_change(&reply) => {
                        self.receipts.keep(client, call, reply);
                    }
                    other => {
                        return Err(format!(
                            "{} cannot have had effect: {other:?}",
                            request.verb()
                        ));
                    }
                }
            }
            Entry::Settled { client, calls } => self.receipts.settle(client, &calls),
            Entry::Here { client, open } => self.receipts.here(client, &open),
            Entry::Gone { client } => self.receipts.gone(client),
            Entry::Paired { .. } | Entry::Mark => {}
        }
        Ok(())
    }

    /// Nobody is connected yet: this machine was a copy until now.
    pub(crate) fn take_over(&mut self) {
        self.receipts.all_gone();
    }

    fn end_waits(&mut self, client: u64) {
        let calls: Vec<Ticket> = self.calls_of(client).collect();
        for ticket in calls {
            self.leave(ticket);
        }
    }

    fn write_down(&mut self, entry: impl FnOnce() -> Entry) {
        if let Some(log) = &mut self.log {
            log.push(entry());
        }
    }

    /// A client that never says which answers it has must not fill the store.
    fn check_receipts(&self, client: u64) -> Result<(), Refusal> {
        let (waiting, held) = (self.receipts.count(client), self.receipts.weight());
        if waiting >= WAITING_PER_CLIENT {
            return Err(Refusal::TooManyWaiting { waiting, limit: WAITING_PER_CLIENT });
        }
        if held > self.limits.store {
            return Err(Refusal::Full { held, limit: self.limits.store });
        }
        Ok(())
    }

    fn queue_up(
        &mut self,
        ticket: Ticket,
        request: &Request<'_>,
        at: usize,
    ) -> Result<(), Refusal> {
        let waiting = self.calls_of(ticket.client).count();
        if waiting >= WAITING_PER_CLIENT {
            return Err(Refusal::TooManyWaiting { waiting, limit: WAITING_PER_CLIENT });
        }
        if self.waiting.contains_key(&ticket) {
            let reason = format!("call {} is waiting already", ticket.call);
            return Err(Refusal::Unknown { reason });
        }
        if self.weight + request.weight() > self.limits.store {
            return Err(Refusal::Full { held: self.weight, limit: self.limits.store });
        }
        let want = Want::new(request, at);
        self.weight += want.weight;
        self.lines.entry(want.keys[at].clone()).or_default().push_back(ticket);
        self.waiting.insert(ticket, want);
        Ok(())
    }

    /// Asks everyone in a key's line again, after something was written to it.
    fn ask_line(&mut self, key: &str, answers: &mut Answers) {
        for ticket in self.lines.remove(key).unwrap_or_default() {
            let want = self.waiting.get_mut(&ticket).expect("who stands in a line is waiting");
            let outcome = match want.next_missing(&self.table) {
                Some(at) => Outcome::Blocked(at),
                None => self.table.apply(&want.request()),
            };
            match outcome {
                Outcome::Settled(reply) => {
                    let request = want.request();
                    note_change(&mut self.receipts, &mut self.log, ticket, &request, &reply);
                    self.weight -= want.weight;
                    self.waiting.remove(&ticket);
                    answers.push((ticket, reply));
                }
                Outcome::Blocked(at) => {
                    want.at = at;
                    self.lines.entry(want.keys[at].clone()).or_default().push_back(ticket);
                }
            }
        }
    }

    fn leave(&mut self, ticket: Ticket) -> Option<Want> {
        let want = self.waiting.remove(&ticket)?;
        self.weight -= want.weight;
        let key = &want.keys[want.at];
        let line = self.lines.get_mut(key).expect("who waits stands in a line");
        line.retain(|other| *other != ticket);
        if line.is_empty() {
            self.lines.remove(key);
        }
        Some(want)
    }

    fn calls_of(&self, client: u64) -> impl Iterator<Item = Ticket> {
        let all = Ticket { client, call: 0 }..=Ticket { client, call: u64::MAX };
        self.waiting.range(all).map(|(ticket, _)| *ticket)
    }
}

impl Want {
    fn new(request: &Request<'_>, at: usize) -> Self {
        let verb = match request {
            Request::Get { .. } => WaitingVerb::Get,
            Request::GetChanged { known, .. } => {
                WaitingVerb::GetChanged { known: Box::from(*known) }
            }
            Request::MultiGet { .. } => WaitingVerb::MultiGet,
            Request::Pop { .. } => WaitingVerb::Pop,
            Request::Pass { generation, .. } => WaitingVerb::Pass { generation: *generation },
            _ => WaitingVerb::Wait,
        };
        let keys = request.keys().map(Box::from).collect();
        Self { verb, keys, at, weight: request.weight() }
    }

    /// The first missing key from where it stands onward. Keys before that were there when they
    /// were passed; whether they still are is seen when the request is carried out.
    fn next_missing(&self, table: &Table) -> Option<usize> {
        (self.at..self.keys.len()).find(|&at| !table.contains(&self.keys[at]))
    }

    fn request(&self) -> Request<'_> {
        let keys = || self.keys.iter().map(|key| &**key).collect();
        match &self.verb {
            WaitingVerb::Get => Request::Get { key: &self.keys[0] },
            WaitingVerb::GetChanged { known } => Request::GetChanged { key: &self.keys[0], known },
            WaitingVerb::MultiGet => Request::MultiGet { keys: keys() },
            WaitingVerb::Wait => Request::Wait { keys: keys() },
            WaitingVerb::Pop => Request::Pop { key: &self.keys[0] },
            WaitingVerb::Pass { generation } => {
                Request::Pass { key: &self.keys[0], generation: *generation }
            }
        }
    }
}

/// Keeps the receipt of a call that changed something, and writes it down.
fn note_change(
    receipts: &mut Receipts,
    log: &mut Option<Vec<Entry>>,
    ticket: Ticket,
    request: &Request<'_>,
    reply: &Reply,
) {
    if !request.can_change() || !tells_of_change(reply) {
        return;
    }
    let Ticket { client, call } = ticket;
    receipts.keep(client, call, reply.clone());
    if let Some(log) = log {
        log.push(Entry::Change { client, call, request: encode(request) });
    }
}

fn encode(what: &impl Serialize) -> ByteBuf {
    ByteBuf::from(postcard::to_allocvec(what).expect("memory can be extended"))
}

fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, String> {
    postcard::from_bytes(bytes).map_err(|error| error.to_string())
}

/// A client's calls that may wait at one time, or be answered without its having said so.
const WAITING_PER_CLIENT: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(client: u64, call: u64) -> Ticket {
        Ticket { client, call }
    }

    /// Carries out one request as client 1, call 1, and gives the answers of all.
    fn write(machine: &mut Machine, request: &Request<'_>) -> Answers {
        let mut answers = Answers::new();
        machine.call(ticket(1, 1), true, request, &mut answers);
        machine.settle(1, &[1]);
        answers
    }

    fn wait(machine: &mut Machine, who: Ticket, request: &Request<'_>) {
        let mut answers = Answers::new();
        machine.call(who, true, request, &mut answers);
        assert_eq!(answers, []);
    }

    #[test]
    fn a_wait_for_many_keys_ends_with_the_last_of_them() {
        let mut machine = Machine::new(Limits::STANDARD);
        wait(&mut machine, ticket(2, 7), &Request::Wait { keys: vec!["a", "b", "c"] });
        for key in ["c", "a"] {
            assert_eq!(write(&mut machine, &Request::Add { key, delta: 1 }).len(), 1);
        }
        let answers = write(&mut machine, &Request::Append { key: "b", value: b"" });
        assert_eq!(answers[1], (ticket(2, 7), Reply::Done));
    }

    #[test]
    fn a_key_that_is_deleted_again_is_missing_again() {
        let mut machine = Machine::new(Limits::STANDARD);
        wait(&mut machine, ticket(2, 7), &Request::MultiGet { keys: vec!["a", "b"] });
        write(&mut machine, &Request::Set { key: "a", value: b"1" });
        write(&mut machine, &Request::Delete { key: "a" });
        assert_eq!(write(&mut machine, &Request::Set { key: "b", value: b"2" }).len(), 1);
        let answers = write(&mut machine, &Request::Set { key: "a", value: b"3" });
        let values = [b"3", b"2"].map(|value| serde_bytes::ByteBuf::from(value.to_vec()));
        assert_eq!(answers[1], (ticket(2, 7), Reply::Values(values.to_vec())));
    }

    #[test]
    fn an_element_goes_to_the_first_who_waits_and_to_nobody_else() {
        let mut machine = Machine::new(Limits::STANDARD);
        for client in 2..5 {
            wait(&mut machine, ticket(client, 1), &Request::Pop { key: "q" });
        }
        machine.forget(2);
        for client in 3..5 {
            let answers = write(&mut machine, &Request::Push { key: "q", value: b"x" });
            assert_eq!(answers[1..], [(ticket(client, 1), Reply::Value(b"x".to_vec()))]);
        }
        assert_eq!(write(&mut machine, &Request::Push { key: "q", value: b"x" }).len(), 1);
    }

    #[test]
    fn a_cancelled_call_is_told_what_it_missed_once() {
        let mut machine = Machine::new(Limits::STANDARD);
        write(&mut machine, &Request::Set { key: "a", value: b"" });
        wait(&mut machine, ticket(2, 7), &Request::Wait { keys: vec!["a", "b"] });
        let mut answers = Answers::new();
        machine.cancel(ticket(2, 7), &mut answers);
        machine.cancel(ticket(2, 7), &mut answers);
        let [(_, Reply::Missing(missing))] = &answers[..] else { panic!("{answers:?}") };
        assert_eq!(missing.names, ["\"b\""]);
        assert!(machine.lines.is_empty() && machine.waiting.is_empty() && machine.weight == 0);
    }

    #[test]
    fn a_client_that_is_gone_leaves_nothing() {
        let mut machine = Machine::new(Limits::STANDARD);
        for call in 0..10 {
            let keys = vec!["a", "b"];
            wait(&mut machine, ticket(2, call), &Request::Wait { keys });
        }
        machine.forget(2);
        assert!(machine.lines.is_empty() && machine.waiting.is_empty() && machine.weight == 0);
    }

    #[test]
    fn one_client_cannot_wait_without_bound() {
        let mut machine = Machine::new(Limits::STANDARD);
        for call in 0..WAITING_PER_CLIENT as u64 {
            wait(&mut machine, ticket(2, call), &Request::Get { key: "a" });
        }
        let mut answers = Answers::new();
        machine.call(ticket(2, u64::MAX), true, &Request::Get { key: "a" }, &mut answers);
        assert!(matches!(answers[0].1, Reply::Refused(Refusal::TooManyWaiting { .. })));
        wait(&mut machine, ticket(3, 1), &Request::Get { key: "a" });
    }

    #[test]
    fn a_watcher_hears_of_a_change_and_of_nothing_else() {
        let mut machine = Machine::new(Limits::STANDARD);
        write(&mut machine, &Request::Set { key: "a", value: b"1" });
        wait(&mut machine, ticket(2, 7), &Request::GetChanged { key: "a", known: b"1" });
        assert_eq!(write(&mut machine, &Request::Set { key: "a", value: b"1" }).len(), 1);
        let answers = write(&mut machine, &Request::Append { key: "a", value: b"2" });
        assert_eq!(answers[1], (ticket(2, 7), Reply::Value(b"12".to_vec())));
    }

    #[test]
    fn a_call_number_in_use_is_refused() {
        let mut machine = Machine::new(Limits::STANDARD);
        wait(&mut machine, ticket(2, 1), &Request::Get { key: "a" });
        let mut answers = Answers::new();
        machine.call(ticket(2, 1), true, &Request::Get { key: "b" }, &mut answers);
        assert!(matches!(answers[0].1, Reply::Refused(Refusal::Unknown { .. })));
    }
}
