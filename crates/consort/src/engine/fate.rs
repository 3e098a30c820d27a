//! What becomes of a group, as every thread of a rank may know it.

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use consort_sys::board::End;

use super::company::Peers;
use super::diary::Diary;
use super::roster::Roster;
use super::verdict::{Cause, Failure, Ranks, Seen, Sighting, Waiting};
use crate::error::{Error, numbered};
use crate::metering::count_failure;
use crate::notice;
use crate::whereabouts::{CallStage, Condition, Reports, lines};

/// Whether a group has failed, and why. Clones are about the same group.
#[derive(Clone, Debug)]
pub(super) struct Fate {
    group: Arc<str>,
    /// If it is for calls that are counted [aside](Self::aside): under which name they are written down.
    aside: Option<Arc<str>>,
    peers: Peers,
    /// What all ranks have heard.
    failure: Arc<OnceLock<Failure>>,
    diary: Diary,
    /// Who the ranks are, once that was said.
    roster: Arc<OnceLock<Roster>>,
    /// When somebody who does not wait looked last whether all ranks are there.
    looked: Arc<Mutex<Option<Instant>>>,
}

impl Fate {
    pub(super) fn new(group: &str, peers: Peers) -> Self {
        let (failure, diary, roster, looked) = Default::default();
        Self { group: group.into(), aside: None, peers, failure, diary, roster, looked }
    }

    /// The same, for calls of the group that its ranks count by themselves, beside those that peers know of.
    /// They are written down under this name.
    pub(super) fn aside(&self, name: &str) -> Self {
        Self { aside: Some(name.into()), diary: Diary::default(), ..self.clone() }
    }

    /// Whose it is.
    pub(super) fn peers(&self) -> &Peers {
        &self.peers
    }

    pub(super) fn group(&self) -> &str {
        &self.group
    }

    #[inline]
    pub(super) fn diary(&self) -> &Diary {
        &self.diary
    }

    /// Says who the ranks are.
    pub(super) fn introduce(&self, roster: Roster) {
        // A group is formed once.
        let _ = self.roster.set(roster);
    }

    /// How long somebody waits before it says so, if it ever does.
    pub(super) fn warn_after(&self) -> Option<Duration> {
        self.roster()?.warn_after
    }

    /// Says that this rank has waited long for others, and still does.
    #[cold]
    pub(super) fn warn(&self, missing: Ranks, waiting: &Waiting) {
        let (group, me) = (&self.group, self.peers.me());
        let ranks: Vec<usize> = missing.iter().collect();
        let lines = lines(&self.in_words(&self.look_at(&ranks)), ADVICE);
        notice::warn(&format!(
            "group {group}: rank {me} has waited {:.1?} in {}, for ranks {ranks:?}, and waits \
             on{lines}",
            waiting.waited,
            numbered(waiting.number, &waiting.call),
        ));
    }

    /// Whether it is time to look whether all ranks are there: to ask the system of each takes a while.
    pub(super) fn is_to_look_round(&self) -> bool {
        // Whoever has it looks.
        let Ok(mut looked) = self.looked.try_lock() else { return false };
        let is_time = looked.is_none_or(|at| at.elapsed() >= PAUSE);
        if is_time {
            *looked = Some(Instant::now());
        }
        is_time
    }

    /// For whom a rank can be seen to wait in the end in this call of the group: if it is in it, for the
    /// one that it waits for, or for whom that one does.
    pub(super) fn awaited_through(&self, rank: usize, number: u64) -> usize {
        let (me, mut last) = (self.peers.me(), rank);
        for _ in 0..CHAIN {
            let seen = self
                .look_up(last)
                .filter(|seen| seen.elsewhere.as_deref() == self.aside.as_deref());
            match seen.filter(|seen| seen.number == number) {
                Some(Seen { stage: CallStage::Within { awaits: Some(next), .. }, .. })
                    if (next as usize) < self.peers.world() && next as usize != me =>
                {
                    last = next as usize;
                }
                _ => break,
            }
        }
        last
    }

    /// Those who can be seen not to have come to a call of the group yet.
    pub(super) fn behind(&self, number: u64) -> Vec<usize> {
        let is_behind = |&rank: &usize| {
            let last = self.last_noted(rank);
            rank != self.peers.me() && last.is_some_and(|last| last.number < number)
        };
        (0..self.peers.world()).filter(is_behind).collect()
    }

    /// Ends the group, here and for everyone else, unless it has ended. Says what for: if somebody
    /// was first, it is what that one has said.
    pub(super) fn decide(&self, cause: Cause) -> Error {
        self.remember(|| {
            let cause = self.diary.located(cause);
            let seen = self.look_for(&cause);
            self.tell(&cause, &seen);
            self.heard().unwrap_or_else(|| self.found(cause, seen))
        })
    }

    /// Ends the group, here and for everyone else, unless it has ended. Does not wait for anybody to say
    /// what for in the end.
    pub(super) fn end_with(&self, cause: Cause) {
        let cause = self.diary.located(cause);
        self.tell(&cause, &self.look_for(&cause));
    }

    /// What this rank's caller is told of something that does not end the group.
    pub(super) fn excuse(&self, cause: Cause) -> Error {
        let seen = self.look_for(&cause);
        self.found(self.diary.located(cause), seen).error(&self.group, self.roster())
    }

    #[inline]
    pub(super) fn has_ended(&self) -> bool {
        self.peers.is_halted()
    }

    /// Why the group has failed, if it has as far as this rank knows.
    pub(super) fn error(&self) -> Option<Error> {
        (self.has_ended() || self.failure.get().is_some()).then(|| self.ended())
    }

    /// Why a group has failed of which this rank knows that it has.
    #[cold]
    pub(super) fn ended(&self) -> Error {
        self.remember(|| {
            self.heard().unwrap_or_else(|| {
                // Somebody has scribbled where the one should stand who has ended it. The others may
                // not know of anything.
                let word = match self.peers.end() {
                    Some(End::Nonsense { word }) => word,
                    _ => 0,
                };
                let what = format!("{word:#x} is no rank that could have ended the group");
                let cause = Cause::Damaged { rank: self.peers.me() as u32, what };
                self.tell(&cause, &[]);
                self.heard().unwrap_or_else(|| self.found(cause, Vec::new()))
            })
        })
    }

    fn tell(&self, cause: &Cause, seen: &[Sighting]) {
        self.peers.halt(&cause.encode_with(seen));
    }

    /// What the one has said who has ended the group, if there is one.
    fn heard(&self) -> Option<Failure> {
        let Some(End::By { rank, verdict }) = self.peers.end() else { return None };
        let by = rank as u32;
        let read = Cause::decode_with(&verdict, self.peers.world());
        let (cause, seen) = read.unwrap_or_else(|| {
            let what = "it has ended the group, and what it says of that cannot be read".to_owned();
            (Cause::Damaged { rank: by, what }, Vec::new())
        });
        Some(Failure { by, cause, seen })
    }

    /// What has ended the group, which is looked for if nobody has before, and then counted.
    fn remember(&self, look: impl FnOnce() -> Failure) -> Error {
        let mut is_new = false;
        let failure = self.failure.get_or_init(|| {
            is_new = true;
            let failure = look();
            // Other groups may have it too, whose ranks would only see that this one leaves.
            if let Cause::Dead { rank, .. } = failure.cause {
                self.peers.mourn(rank as usize);
            }
            failure
        });
        let error = failure.error(&self.group, self.roster());
        if is_new {
            // What counts is the program's own, and may ask how the group is.
            count_failure(&self.group, error.kind());
        }
        error
    }

    fn found(&self, cause: Cause, seen: Vec<Sighting>) -> Failure {
        Failure { by: self.peers.me() as u32, cause, seen }
    }

    fn roster(&self) -> Option<&Roster> {
        self.roster.get()
    }

    /// What can be seen of those whom a cause names, and who keep the others waiting.
    fn look_for(&self, cause: &Cause) -> Vec<Sighting> {
        let ranks: Vec<usize> = match cause {
            Cause::Dead { rank, waiting } => {
                let dead = *rank as usize;
                let others = self.behind(waiting.number).into_iter().filter(|&rank| rank != dead);
                [dead].into_iter().chain(others).collect()
            }
            Cause::Late { missing, .. } => missing.iter().collect(),
            _ => Vec::new(),
        };
        self.look_at(&ranks)
    }

    /// What was seen of ranks, as callers are told.
    pub(super) fn in_words(&self, seen: &[Sighting]) -> Reports {
        self.roster().map(|roster| roster.in_words(&self.group, seen)).unwrap_or_default()
    }

    /// What can be seen of ranks; of the first, if they are many.
    pub(super) fn look_at(&self, ranks: &[usize]) -> Vec<Sighting> {
        if self.roster().is_none() {
            return Vec::new();
        }
        let look = |&rank: &usize| {
            let last = self.look_up(rank).or_else(|| self.last_noted(rank));
            Sighting { rank: rank as u32, condition: self.condition(rank), last }
        };
        ranks.iter().take(Sighting::MOST).map(look).collect()
    }

    /// What a rank can be seen to have called last.
    fn look_up(&self, rank: usize) -> Option<Seen> {
        self.roster()?.look_up((&self.group, self.aside.as_deref()), rank)
    }

    /// The last of these calls that is known of a rank, though it cannot be seen.
    fn last_noted(&self, rank: usize) -> Option<Seen> {
        // What peers know is counted with the group's other calls.
        let (number, call) = self.peers.last_call(rank).filter(|_| self.aside.is_none())?;
        Some(Seen { elsewhere: None, number, call, stage: CallStage::Begun })
    }

    fn condition(&self, rank: usize) -> Condition {
        let is_dead = self.peers.is_dead(rank);
        match () {
            () if self.peers.has_left(rank) => Condition::Left,
            () if !is_dead => Condition::Alive,
            () if self.peers.is_out_of_reach(rank) => Condition::Unreachable,
            () => Condition::Ended,
        }
    }
}

/// So many who wait one for the other are followed. More are not needed to see that it is a circle.
const CHAIN: usize = 16;
/// How long nobody looks again.
const PAUSE: Duration = Duration::from_millis(5);
const ADVICE: &str =
    "`consort trace` shows what all ranks do; CONSORT_WARN_AFTER says when to warn";
