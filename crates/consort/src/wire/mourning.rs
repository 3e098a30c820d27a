//! Who is dead, as processes tell each other.
//!
//! Whoever loses another process says so to all it is connected to, once, before anything that it does
//! because of that: before it leaves a group, and before it ends. So those who see it end have heard why,
//! and of many who end one after the other they can name the first. Those who never were connected to the
//! dead hear of it at all.
//!
//! What is said of another is believed at once where there is no connection to that one. Where there is
//! one, its own end is awaited for a while: behind it may be what was sent before.

use std::time::{Duration, Instant};

use super::frame::{Header, Kind};
use super::peer::word;
use super::{Hub, Switch};

/// What a process has said of the end of others, or of its own.
#[derive(Debug, Default)]
pub(super) struct LastWords {
    /// On how many connections it has yet to say that it ends.
    byes: Option<u64>,
    /// Whom it knew to be dead first.
    mourned: Option<u32>,
    /// Since when others say that it is dead.
    reported: Option<Instant>,
}

impl LastWords {
    /// Takes notice that it ends, which it says on so many connections.
    pub(super) fn hear_bye(&mut self, times: u64) {
        let byes = self.byes.get_or_insert(times);
        *byes = byes.saturating_sub(1);
    }

    /// Whether it has said that it ends, on some connection.
    pub(super) fn has_begun(&self) -> bool {
        self.byes.is_some()
    }

    /// Whether it has ended in good order, and nothing is on its way from it.
    pub(super) fn is_over(&self) -> bool {
        self.byes == Some(0)
    }

    /// Whether others say that it is dead; for long enough, if something may still come from it.
    pub(super) fn is_reported(&self, may_come: bool) -> bool {
        self.reported.is_some_and(|since| !may_come || since.elapsed() > GRACE)
    }
}

impl Switch {
    /// Says to all that a rank of the world is dead.
    pub(crate) fn mourn(&self, rank: u32) {
        self.mourn_with(&mut self.lock(), rank);
    }

    /// Whom a rank of the world knew to be dead first.
    pub(crate) fn mourned(&self, by: u32) -> Option<u32> {
        self.lock().peers[by as usize].last_words.mourned
    }

    pub(super) fn mourn_with(&self, hub: &mut Hub, rank: u32) {
        let is_over = hub.peers[rank as usize].last_words.is_over();
        if rank == self.me || is_over || hub.mourned.contains(&rank) {
            return;
        }
        hub.mourned.push(rank);
        let header = self.obituary(rank);
        hub.peers.iter_mut().for_each(|peer| peer.say(&header, &[]));
    }

    /// Tells a process of all who are dead, to which there was no connection before.
    pub(super) fn tell_of_the_dead(&self, hub: &mut Hub, to: u32) {
        for at in 0..hub.mourned.len() {
            let header = self.obituary(hub.mourned[at]);
            hub.peers[to as usize].say(&header, &[]);
        }
    }

    fn obituary(&self, rank: u32) -> Header {
        word(Kind::Mourn, 0, self.epoch, u64::from(rank))
    }
}

impl Hub {
    /// Takes notice of what a process says of a rank of the world.
    pub(super) fn hear_of_death(&mut self, from: u32, rank: u64) {
        let Some(dead) = usize::try_from(rank).ok().and_then(|rank| self.peers.get_mut(rank))
        else {
            return;
        };
        dead.last_words.reported.get_or_insert_with(Instant::now);
        let rank = dead.rank();
        self.peers[from as usize].last_words.mourned.get_or_insert(rank);
    }
}

/// How long a connection may go on of whose other end somebody says that it is dead.
const GRACE: Duration = Duration::from_secs(1);
