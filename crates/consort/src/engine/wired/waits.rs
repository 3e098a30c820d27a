//! For whom a rank waits, as it tells the others now and then.

use std::time::{Duration, Instant};

/// For whom a rank waits, as it tells the others.
#[derive(Debug)]
pub(super) struct Waits {
    rank: usize,
    /// When it has told that.
    told: Instant,
    /// Since when it waits.
    since: Instant,
    /// When it has looked round last.
    looked: Instant,
}

impl Waits {
    pub(super) fn for_nobody(me: usize) -> Self {
        let now = Instant::now();
        Self { rank: me, told: now, since: now, looked: now }
    }

    /// Takes notice of a look round. Whether there is something to tell.
    pub(super) fn look(&mut self, rank: usize) -> bool {
        let now = Instant::now();
        if now - self.looked > PAST {
            self.since = now;
        }
        self.looked = now;
        let pause = if self.rank == rank { AGAIN } else { SOON };
        let is_time = now - self.told >= pause;
        if is_time {
            (self.rank, self.told) = (rank, now);
        }
        is_time
    }

    /// Since when it waits.
    pub(super) fn since(&self) -> Instant {
        self.since
    }
}

/// For whom a rank waits it tells so often, if that changes,
const SOON: Duration = Duration::from_millis(30);
/// and if it does not.
const AGAIN: Duration = Duration::from_millis(250);
/// Who has not looked round for so long has not waited meanwhile.
const PAST: Duration = Duration::from_millis(300);
