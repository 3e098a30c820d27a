//! A store with its place in a pair: a [`Machine`], and whether it serves, follows or neither. Pure.
//!
//! A driver passes on what comes from clients and from the other store, tells when a connection is
//! gone and what the clock says, and after each of these takes the [`answers`](Keeper::answers) for
//! clients and the [`notes`](Keeper::notes) for the second store.

use std::time::Instant;

use crate::machine::{Answers, Machine, Ticket};
use crate::mirror::{Entry, First, Follower, Heard, Note, Times};
use crate::request::{Limits, Request};

/// The mind of one server.
#[derive(Debug)]
pub(crate) struct Keeper {
    machine: Machine,
    role: Role,
    /// To be delivered to clients.
    pub(crate) answers: Answers,
    /// To be sent to the second store, in order.
    pub(crate) notes: Vec<Note>,
}

#[derive(Debug)]
enum Role {
    First(First),
    Second(Follower),
    /// Its copy is of no use; why.
    Useless(String),
}

/// What a store is to those who look for one that serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It answers.
    Serves,
    /// It follows another.
    Follows,
    /// It does not answer any more.
    Aside(String),
}

impl Keeper {
    /// A store that serves alone.
    pub(crate) fn first(times: Times) -> Self {
        Self::with(Role::First(First::new(1, 0, times)))
    }

    /// A store that follows another.
    pub(crate) fn second(now: Instant, times: Times) -> Self {
        Self::with(Role::Second(Follower::new(now, times)))
    }

    fn with(role: Role) -> Self {
        let machine = Machine::new(Limits::STANDARD);
        Self { machine, role, answers: Answers::new(), notes: Vec::new() }
    }

    /// Carries out a client's request, if this store serves. `done` are calls whose answers the
    /// client has.
    pub(crate) fn call(
        &mut self,
        ticket: Ticket,
        wait: bool,
        done: &[u64],
        request: &Request<'_>,
        now: Instant,
    ) {
        self.serve(now, |machine, answers| {
            machine.settle(ticket.client, done);
            machine.call(ticket, wait, request, answers);
        });
    }

    /// A client gives up on a call.
    pub(crate) fn cancel(&mut self, ticket: Ticket, now: Instant) {
        self.serve(now, |machine, answers| machine.cancel(ticket, answers));
    }

    /// A client is gone.
    pub(crate) fn forget(&mut self, client: u64, now: Instant) {
        self.serve(now, |machine, _| machine.forget(client));
    }

    /// A client is here, and has seen this epoch. If that is a later one, this store has been
    /// replaced.
    pub(crate) fn welcome(&mut self, client: u64, epoch: u64, open: &[u64], now: Instant) {
        if let Role::First(first) = &mut self.role
            && epoch > first.epoch()
        {
            first.depose();
        }
        self.serve(now, |machine, _| machine.welcome(client, open));
    }

    /// A second store asks to follow. False if it cannot.
    pub(crate) fn attach(&mut self, now: Instant) -> bool {
        let Role::First(first) = &mut self.role else { return false };
        if !first.wants_second() {
            return false;
        }
        self.notes.clear();
        self.notes.extend(self.machine.copy());
        self.notes.push(first.copied(now));
        self.machine.start_log();
        true
    }

    /// The second store has all entries up to this one.
    pub(crate) fn have(&mut self, index: u64, now: Instant) {
        let Role::First(first) = &mut self.role else { return };
        if let Some(paired) = first.have(index, &mut self.answers) {
            let note = first.number(paired, now);
            self.notes.push(note);
        }
    }

    /// The second store has taken over.
    pub(crate) fn depose(&mut self) {
        if let Role::First(first) = &mut self.role {
            first.depose();
            self.machine.end_log();
        }
    }

    /// The second store's connection is gone; `closed` if from the other side.
    pub(crate) fn second_lost(&mut self, closed: bool, now: Instant) {
        let Role::First(first) = &mut self.role else { return };
        first.second_lost(closed, now, &mut self.answers);
        self.machine.end_log();
        self.notes.clear();
    }

    /// The first store says something. Gives what to answer: the last entry that this store has.
    ///
    /// # Errors
    /// When it makes no sense: this store is of no use then.
    pub(crate) fn hear(&mut self, note: Note, now: Instant) -> Result<Option<u64>, String> {
        let Role::Second(follower) = &mut self.role else { return Ok(None) };
        let heard = follower.hear(note, now).and_then(|heard| match heard {
            Heard::Part(part) => self.machine.restore(part),
            Heard::Whole => Ok(()),
            Heard::Entry(entry) => self.machine.follow(entry),
        });
        match heard {
            Ok(()) => Ok(follower.has()),
            Err(reason) => {
                self.role = Role::Useless(reason.clone());
                Err(reason)
            }
        }
    }

    /// The first store's connection is gone; `closed` if from the other side, which proves that the
    /// first has ended. Otherwise the clock tells.
    pub(crate) fn first_lost(&mut self, closed: bool) {
        let Role::Second(follower) = &self.role else { return };
        if !follower.is_paired() {
            self.role = Role::Useless("the first store was lost before the copy was whole".into());
        } else if closed {
            self.take_over();
        }
    }

    /// What comes from the first store makes no sense. This store must not take over: the first
    /// takes the end of the connection for this store's end.
    pub(crate) fn give_up(&mut self, reason: &str) {
        if let Role::Second(_) = self.role {
            self.role = Role::Useless(reason.to_owned());
        }
    }

    /// Does what is due.
    pub(crate) fn tick(&mut self, now: Instant) {
        match &mut self.role {
            Role::First(first) if first.beat_is_due(now) => {
                let note = first.number(Entry::Mark, now);
                self.notes.push(note);
            }
            Role::Second(follower) if follower.is_due(now) => self.take_over(),
            _ => {}
        }
    }

    /// When [`tick`](Self::tick) has something to do, or [`standing`](Self::standing) changes.
    pub(crate) fn due_at(&self, now: Instant) -> Option<Instant> {
        match &self.role {
            Role::First(first) => {
                let stale = first.stale_at().filter(|moment| *moment > now);
                first.next_beat().into_iter().chain(stale).min()
            }
            Role::Second(follower) => follower.due_at(),
            Role::Useless(_) => None,
        }
    }

    pub(crate) fn epoch(&self) -> u64 {
        match &self.role {
            Role::First(first) => first.epoch(),
            Role::Second(follower) => follower.epoch(),
            Role::Useless(_) => 0,
        }
    }

    /// Bytes of answers that are held back until the second store knows of them.
    pub(crate) fn held(&self) -> usize {
        match &self.role {
            Role::First(first) => first.weight(),
            _ => 0,
        }
    }

    /// Whether clients may rely on the second store.
    pub(crate) fn is_paired(&self) -> bool {
        matches!(&self.role, Role::First(first) if first.is_paired())
    }

    /// Whether this store, which follows, has everything that clients were answered.
    pub(crate) fn is_ready(&self) -> bool {
        matches!(&self.role, Role::Second(follower) if follower.is_paired())
    }

    pub(crate) fn standing(&self, now: Instant) -> Standing {
        match &self.role {
            Role::First(first) if first.is_doubtful() || first.is_stale(now) => {
                Standing::Aside("its standby is out of reach and may have taken over".to_owned())
            }
            Role::First(_) => Standing::Serves,
            Role::Second(_) => Standing::Follows,
            Role::Useless(reason) => Standing::Aside(reason.clone()),
        }
    }

    fn take_over(&mut self) {
        let Role::Second(follower) = &self.role else { return };
        self.role = Role::First(follower.promoted());
        self.machine.take_over();
    }

    /// Does something to the table, and lets the second store know before anybody else does.
    fn serve(&mut self, now: Instant, what: impl FnOnce(&mut Machine, &mut Answers)) {
        let Role::First(first) = &mut self.role else { return };
        if first.is_doubtful() {
            return;
        }
        let mut answers = Answers::new();
        what(&mut self.machine, &mut answers);
        if first.is_mirrored() {
            let mut log = self.machine.take_log();
            if log.is_empty() && !answers.is_empty() {
                // Whether this store still serves is known when the second has heard this.
                log.push(Entry::Mark);
            }
            self.notes.extend(log.into_iter().map(|entry| first.number(entry, now)));
        }
        first.hold(&mut answers);
        self.answers.append(&mut answers);
    }
}

#[cfg(test)]
impl Keeper {
    /// All that it holds, in one order.
    pub(crate) fn contents(&self) -> Vec<String> {
        let mut contents: Vec<String> =
            self.machine.copy().map(|note| format!("{note:?}")).collect();
        contents.sort_unstable();
        contents
    }
}
