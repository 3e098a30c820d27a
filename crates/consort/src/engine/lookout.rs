//! What there is to know of the other ranks while waiting for them, and what to do when there is no
//! use in that: for calls, messages and symmetric memory alike.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use consort_sys::reach::Unread;

use super::company::Peers;
use super::deadlines::Deadlines;
use super::diary::Diary;
use super::fate::Fate;
use super::roster::Roster;
use super::verdict::{Cause, Ranks, Sighting, Waiting};
use crate::error::Error;
use crate::group::Presence;
use crate::recorder::Recorder;
use crate::whereabouts::Reports;

/// A group's ranks, for any thread that waits for one of them. Clones are about the same group.
#[derive(Clone, Debug)]
pub(crate) struct Lookout {
    fate: Fate,
    /// If only some of the group's ranks are looked out for, by numbers of their own.
    part: Option<Arc<Part>>,
    /// Those of others, for whose sake the group's calls are made.
    deadlines: Deadlines,
}

/// Some ranks of a group, all on this host.
#[derive(Debug)]
struct Part {
    peers: Peers,
    /// Their ranks in the group.
    ranks: Vec<u32>,
}

/// Why a wait is in vain.
#[derive(Clone, Debug)]
pub(crate) enum Stuck {
    /// The group has ended.
    Ended,
    /// A rank's process has ended. It is the group's number, also where only a part is looked out for.
    Dead { rank: usize },
    /// All who could help have left the group.
    Left { ranks: Vec<usize> },
    /// What a rank has written cannot be.
    Damaged { rank: usize, what: String },
    /// It takes too long.
    Late,
}

/// What a wait in vain means for the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stakes {
    /// It cannot go on without what was waited for.
    Group,
    /// It goes on, if all ranks can.
    Wait,
}

impl Lookout {
    pub(crate) fn new(group: &str, peers: Peers) -> Self {
        let (fate, deadlines) = (Fate::new(group, peers), Deadlines::default());
        Self { fate, part: None, deadlines }
    }

    /// For those who wait for some ranks of the group only, which `peers` numbers in the order of
    /// these, their ranks in the group. What becomes of the group is the same for them, and is told
    /// with the group's own numbers.
    pub(super) fn of_part(&self, peers: Peers, ranks: Vec<u32>) -> Self {
        Self { part: Some(Arc::new(Part { peers, ranks })), ..self.clone() }
    }

    /// For calls of the group that its ranks count by themselves, beside those on its road. What becomes of the group
    /// is the same for them; they are written down under another name.
    pub(crate) fn aside(&self, name: &str, recorder: &Recorder, members: &[u32]) -> Self {
        let aside = Self { fate: self.fate.aside(name), ..self.clone() };
        aside.record_as(name, recorder, members);
        aside
    }

    /// Whether it is for some ranks only.
    pub(super) fn is_of_part(&self) -> bool {
        self.part.is_some()
    }

    fn peers(&self) -> &Peers {
        self.part.as_ref().map_or(self.fate.peers(), |part| &part.peers)
    }

    pub(super) fn me(&self) -> usize {
        self.peers().me()
    }

    /// The group's name.
    pub(super) fn group(&self) -> &str {
        self.fate.group()
    }

    pub(super) fn world(&self) -> usize {
        self.peers().world()
    }

    /// Those that whoever carries out a call of the group keeps as if they were those of calls in its own line.
    pub(crate) fn deadlines(&self) -> &Deadlines {
        &self.deadlines
    }

    /// What is written down of the group's calls.
    #[inline]
    pub(crate) fn diary(&self) -> &Diary {
        self.fate.diary()
    }

    /// Has the group's calls written down. Its ranks have these in the world.
    pub(crate) fn record(&self, recorder: &Recorder, members: &[u32]) {
        self.record_as(self.group(), recorder, members);
    }

    fn record_as(&self, name: &str, recorder: &Recorder, members: &[u32]) {
        if let Some(journal) = recorder.journal(name, self.me() as u32, members) {
            self.diary().keep_in(journal);
        }
    }

    /// Says who the group's ranks are.
    pub(crate) fn introduce(&self, roster: Roster) {
        self.fate.introduce(roster);
    }

    /// How long somebody waits before it [says so](Self::warn), if it ever does.
    pub(crate) fn warn_after(&self) -> Option<Duration> {
        self.fate.warn_after()
    }

    /// Says that this rank has waited long for these, and still does: for those of them in the end that
    /// are not known to have come, and for all others that are known not to have.
    #[cold]
    pub(crate) fn warn(&self, waiting: &Waiting, awaited: &[usize]) {
        let awaited = awaited.iter().map(|&rank| self.in_the_end(self.number(rank), waiting));
        let awaited: Vec<usize> = awaited.collect();
        let has_come = |rank: usize| {
            let last = self.fate.peers().last_call(rank);
            last.is_some_and(|(last, _)| waiting.number > 0 && last >= waiting.number)
        };
        let mut missing = self.fate.behind(waiting.number);
        missing.extend(awaited.iter().copied().filter(|&rank| !has_come(rank)));
        let missing = if missing.is_empty() { awaited } else { missing };
        self.fate.warn(missing.into_iter().collect(), waiting);
    }

    /// What can be seen of ranks of the group, to be told to others.
    pub(crate) fn sight(&self, ranks: &[usize]) -> Vec<Sighting> {
        self.fate.look_at(ranks)
    }

    /// What another rank of the group has seen, in words.
    pub(crate) fn in_words(&self, seen: &[Sighting]) -> Reports {
        self.fate.in_words(seen)
    }

    /// Writes down that a call has to wait for a rank.
    pub(super) fn note_wait(&self, number: u64, rank: usize) {
        self.diary().wait_for(number, self.number(rank));
    }

    /// Says that this rank sends and receives no more, and makes no more calls.
    pub(super) fn leave(&self) {
        self.peers().leave();
    }

    /// Whether a rank has said so.
    pub(super) fn has_left(&self, rank: usize) -> bool {
        self.peers().has_left(rank)
    }

    /// Whether a rank receives nothing any more. What it has sent may still be on its way.
    pub(super) fn is_leaving(&self, rank: usize) -> bool {
        self.peers().is_leaving(rank)
    }

    /// What is known of a rank.
    pub(crate) fn presence(&self, rank: usize) -> Presence {
        if self.has_left(rank) {
            Presence::Left
        } else if self.is_dead(rank) {
            Presence::Gone
        } else {
            Presence::Here
        }
    }

    /// Whether a rank's process has ended.
    pub(crate) fn is_dead(&self, rank: usize) -> bool {
        self.peers().is_dead(rank)
    }

    /// Whether a rank's process has ended, and not in good order: one that has may have said so only now.
    pub(crate) fn is_gone(&self, rank: usize) -> bool {
        self.is_dead(rank) && !self.has_left(rank)
    }

    /// Whether it makes sense to wait any longer for ranks of whom all have to be alive and one has
    /// to be there; if there are any, for it may be enough to know that the group goes on.
    /// If it does, the others hear for whom it is waited.
    pub(crate) fn judge(
        &self,
        ranks: &[usize],
        is_late: impl FnOnce() -> bool,
    ) -> Result<(), Stuck> {
        if self.part.is_some() {
            // They hear nothing else while they wait for each other.
            self.fate.peers().listen();
        }
        if self.has_ended() {
            return Err(Stuck::Ended);
        }
        let mut here = ranks.iter().copied().filter(|&rank| !self.has_left(rank)).peekable();
        if !ranks.is_empty() && here.peek().is_none() {
            // They may have left because another has ended.
            let mut others = (0..self.world()).filter(|&rank| !self.has_left(rank));
            let known = ranks.iter().find_map(|&rank| self.mourned(self.number(rank)));
            let found = || others.find(|&rank| self.is_dead(rank)).map(|rank| self.number(rank));
            return Err(match known.or_else(found) {
                Some(rank) => Stuck::Dead { rank: self.first_before(rank) },
                None => Stuck::Left { ranks: ranks.to_vec() },
            });
        }
        match here.find(|&rank| self.is_gone(rank)) {
            Some(rank) => Err(Stuck::Dead { rank: self.first_before(self.number(rank)) }),
            None if is_late() => Err(Stuck::Late),
            None => {
                if let [rank] = *ranks {
                    self.fate.peers().say_whom(self.last_behind(self.number(rank)));
                }
                Ok(())
            }
        }
    }

    /// Looks whether all ranks are there, for one who waits for none of them; but not if that was looked
    /// at a moment ago. If one is dead the group ends, as it would when somebody waits for it.
    pub(crate) fn look_round(&self, waiting: impl FnOnce() -> Waiting) -> Option<Error> {
        if !self.fate.is_to_look_round() {
            return None;
        }
        let others = (0..self.world()).filter(|&rank| rank != self.me());
        let dead = others.into_iter().find(|&rank| self.is_gone(rank))?;
        let rank = self.first_before(self.number(dead)) as u32;
        Some(self.fate.decide(Cause::Dead { rank, waiting: waiting() }))
    }

    /// For whom is waited in the end by those who wait for a rank of the group, which may itself be
    /// waiting for another.
    fn last_behind(&self, awaited: usize) -> usize {
        let peers = self.fate.peers();
        peers.whom(awaited).filter(|&rank| rank != peers.me()).unwrap_or(awaited)
    }

    /// The same, as far as it was said or can be looked up, for one who gives up or warns.
    fn in_the_end(&self, awaited: usize, waiting: &Waiting) -> usize {
        self.fate.awaited_through(self.last_behind(awaited), waiting.number)
    }

    /// A rank's number in the group.
    fn number(&self, rank: usize) -> usize {
        self.part.as_ref().map_or(rank, |part| part.ranks[rank] as usize)
    }

    /// Whom of the group a rank of it knew to be dead when it ended or left.
    fn mourned(&self, by: usize) -> Option<usize> {
        self.fate.peers().mourned(by).filter(|&rank| rank != by)
    }

    /// Who was first of those who have ended one because of the other, and this rank of the group last.
    fn first_before(&self, last: usize) -> usize {
        let mut first = last;
        // Two who have lost each other take each other for dead.
        for _ in 0..self.fate.peers().world() {
            match self.mourned(first) {
                Some(rank) if rank != last => first = rank,
                _ => break,
            }
        }
        first
    }

    /// The error for a wait in vain, for ranks of whom those `missing` did not come.
    #[cold]
    pub(crate) fn give_up(
        &self,
        stuck: Stuck,
        waiting: Waiting,
        missing: Ranks,
        stakes: Stakes,
    ) -> Error {
        let (cause, is_everyones) = match stuck {
            Stuck::Ended => return self.ended(),
            Stuck::Dead { rank } => {
                return self.fate.decide(Cause::Dead { rank: rank as u32, waiting });
            }
            Stuck::Damaged { rank, what } => (Cause::Damaged { rank: rank as u32, what }, true),
            Stuck::Left { ranks } => {
                (Cause::Left { ranks: ranks.into_iter().collect(), waiting }, false)
            }
            Stuck::Late => (Cause::Late { missing, waiting }, false),
        };
        let cause = self.in_group(cause);
        match cause {
            Cause::Late { missing, waiting } if stakes == Stakes::Group => {
                let missing = missing.map(|rank| self.in_the_end(rank, &waiting));
                self.fate.decide(Cause::Late { missing, waiting })
            }
            cause if is_everyones || stakes == Stakes::Group => self.fate.decide(cause),
            cause => self.fate.excuse(cause),
        }
    }

    /// Ends the group because a rank's memory could not be read: most likely it has died, or is about
    /// to, which takes a moment to be known.
    #[cold]
    pub(super) fn lose(&self, rank: usize, error: Unread, waiting: Waiting, what: &str) -> Error {
        let begun = Instant::now();
        let mut is_dead = self.is_dead(rank);
        while !is_dead && error.may_be_its_end() && begun.elapsed() < LAST_BREATH {
            thread::sleep(Duration::from_millis(1));
            is_dead = self.is_dead(rank);
        }
        self.decide(match is_dead {
            true => Cause::Dead { rank: rank as u32, waiting },
            false => Cause::Unable { reason: format!("{what}: {error}") },
        })
    }

    /// Ends the group, here and for everyone else, unless it has ended. Says what for.
    pub(crate) fn decide(&self, cause: Cause) -> Error {
        self.fate.decide(self.in_group(cause))
    }

    fn in_group(&self, cause: Cause) -> Cause {
        match &self.part {
            None => cause,
            Some(part) => cause.renumbered(|rank| part.ranks[rank as usize]),
        }
    }

    /// Ends the group by this rank's own will, or because something has panicked.
    pub(crate) fn abort(&self, reason: &str) {
        self.fate.end_with(self.in_group(Cause::Aborted { reason: reason.to_owned() }));
    }

    /// Whether the group has ended, as far as this rank knows.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        self.fate.has_ended()
    }

    /// Hears what others have said, for one who waits elsewhere, or not at all.
    pub(crate) fn listen(&self) {
        self.fate.peers().listen();
    }

    /// Why the group has ended, if it has as far as this rank knows.
    #[inline]
    pub(crate) fn error(&self) -> Option<Error> {
        self.fate.error()
    }

    /// Why a group has ended that has.
    pub(crate) fn ended(&self) -> Error {
        self.fate.ended()
    }
}

/// Between the end of a process's memory and its own.
const LAST_BREATH: Duration = Duration::from_millis(500);
