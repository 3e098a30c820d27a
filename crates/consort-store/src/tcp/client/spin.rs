//! When to look again instead of going to sleep.

use std::time::Duration;

use crate::deadline::Deadline;

/// Whom a wait is for. An answer that only the server has to give comes soon; one that others have
/// to bring about may be far away. So what was learnt from one kind says nothing about the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Awaited {
    Server,
    Others,
}

/// What has been learnt from the waits on one connection.
#[derive(Debug, Default)]
pub(super) struct Spins {
    server: Spin,
    others: Spin,
}

impl Spins {
    /// For a wait of this kind.
    pub(super) fn of(&mut self, awaited: Awaited) -> &mut Spin {
        match awaited {
            Awaited::Server => &mut self.server,
            Awaited::Others => &mut self.others,
        }
    }
}

/// Looks for an answer again and again for a moment before going to sleep, and lets others run in
/// between. On an idle machine the answer is there sooner than a sleeper could be woken; on a
/// crowded one the server is spared the waking, which costs more than a turn of everybody. Where
/// it does not pay, because the answer is far away, it is not tried again but for a probe now and
/// then.
#[derive(Debug, Default)]
pub(super) struct Spin {
    misses: u32,
}

impl Spin {
    /// What `look` finds, if it finds it in this moment.
    pub(super) fn look<T>(
        &mut self,
        until: Deadline,
        mut look: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        if self.misses >= Self::PATIENCE && !self.misses.is_multiple_of(Self::PROBE) {
            self.misses = self.misses.wrapping_add(1).max(Self::PATIENCE);
            return None;
        }
        let mut end = None;
        loop {
            std::thread::yield_now();
            if let Some(found) = look() {
                self.misses = 0;
                return Some(found);
            }
            if end.get_or_insert_with(|| until.min(Deadline::after(Self::LIMIT))).has_passed() {
                self.misses = self.misses.wrapping_add(1).max(1);
                return None;
            }
        }
    }

    /// A few turns of some hundred clients on a core.
    const LIMIT: Duration = Duration::from_millis(10);
    /// So many misses in a row are forgiven.
    const PATIENCE: u32 = 3;
    /// Every so many-th wait is a probe.
    const PROBE: u32 = 32;
}
