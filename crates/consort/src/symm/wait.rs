//! Waiting for another rank outside the group's calls.

use std::time::{Duration, Instant};

use crate::error::Error;
use crate::group::Group;

/// One wait. It looks at the clock only once it has to sleep.
#[derive(Debug)]
pub(super) struct Wait<'a> {
    group: &'a Group,
    began: Option<Instant>,
}

/// Why a wait ended in vain.
#[derive(Debug)]
pub(super) enum Stuck {
    /// The group has ended.
    Told { by: usize, reason: String },
    /// A rank that was waited for is gone.
    Dead(usize),
    /// What is waited for is damaged, and how.
    Damaged(String),
    /// The time is up.
    Late,
}

impl<'a> Wait<'a> {
    pub(super) fn new(group: &'a Group) -> Self {
        Self { group, began: None }
    }

    /// Whether it makes sense to wait for these ranks any longer.
    pub(super) fn look_round(&mut self, ranks: &[usize]) -> Result<(), Stuck> {
        let began = *self.began.get_or_insert_with(Instant::now);
        if let Ok(commons) = self.group.commons() {
            let lookout = commons.lookout();
            if let Some((by, reason)) = lookout.halted_by() {
                return Err(Stuck::Told { by, reason });
            }
            if let Some(&rank) = ranks.iter().find(|&&rank| lookout.is_dead(rank)) {
                // It may have ended the group before it went.
                return Err(match lookout.halted_by() {
                    Some((by, reason)) => Stuck::Told { by, reason },
                    None => Stuck::Dead(rank),
                });
            }
        }
        if began.elapsed() >= self.group.timeout() { Err(Stuck::Late) } else { Ok(()) }
    }

    /// The error for a wait that was stuck. If a rank is dead, the group ends.
    pub(super) fn give_up(
        &self,
        stuck: Stuck,
        call: String,
        late: impl FnOnce(String, Duration) -> Error,
    ) -> Error {
        let group = self.group.name().to_owned();
        let waited = self.began.map_or(Duration::ZERO, |began| began.elapsed());
        match stuck {
            Stuck::Told { by, reason } => Error::Aborted { group, by: by as u32, reason },
            Stuck::Dead(rank) => {
                self.end_group(&format!("rank {rank} is gone; it waited in {call}"));
                Error::PeerLost { group, rank: rank as u32, call, number: 0, waited }
            }
            Stuck::Damaged(how) => {
                let reason = format!("in {call} it found damage: {how}");
                self.end_group(&reason);
                Error::Aborted { group, by: self.group.rank().get(), reason }
            }
            Stuck::Late => late(call, waited),
        }
    }

    /// Ends the group. Not by a call of it: another thread may be waiting in one.
    pub(super) fn end_group(&self, reason: &str) {
        if let Ok(commons) = self.group.commons() {
            commons.lookout().halt(reason);
        }
    }
}
