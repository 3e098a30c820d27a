//! What other ranks have told this one, and nobody has waited for yet.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

use super::super::lock;
use super::super::watch::{LAST_BREATH, LOOK_ROUND};
use crate::engine::Stuck;
use crate::error::Error;

/// What is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Bell {
    /// A signal on this channel.
    Signal(u32),
    /// That the sender has come to a barrier of this channel.
    Barrier(u32),
}

/// Why nothing was heard.
#[derive(Debug)]
pub(crate) enum Missed {
    /// There is no use in waiting.
    Stuck(Stuck),
    /// The rank has dropped the memory, and told nothing of this before.
    Dropped,
    /// Nobody can tell this rank anything any more.
    Closed(Error),
}

/// The notes that have come.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// By sender, in their order: how many puts there were before each.
    notes: HashMap<(usize, Bell), VecDeque<u64>>,
    /// Who tells nothing any more.
    dropped: HashSet<usize>,
    /// Why there will be no more.
    closed: Option<Error>,
}

impl State {
    fn has(&self, from: usize, bell: Bell) -> bool {
        self.notes.get(&(from, bell)).is_some_and(|notes| !notes.is_empty())
    }

    fn take(&mut self, from: usize, bell: Bell) -> Option<u64> {
        self.notes.get_mut(&(from, bell))?.pop_front()
    }
}

impl Mailbox {
    /// A note has come.
    pub(super) fn put(&self, from: usize, bell: Bell, puts: u64) {
        lock(&self.state).notes.entry((from, bell)).or_default().push_back(puts);
        self.changed.notify_all();
    }

    /// No more will come of a rank, which has dropped the memory.
    pub(super) fn drop_sender(&self, from: usize) {
        lock(&self.state).dropped.insert(from);
        self.changed.notify_all();
    }

    /// No more will come.
    pub(super) fn close(&self, why: Error) {
        lock(&self.state).closed.get_or_insert(why);
        self.changed.notify_all();
    }

    /// Whether there is one.
    pub(super) fn has(&self, from: usize, bell: Bell) -> bool {
        lock(&self.state).has(from, bell)
    }

    /// Takes the first of them, and waits for it as long as `look_round` sees a sense in that. What a rank has told
    /// before it left or died may be still on its way, so it is waited for that a moment longer; and who has dropped the
    /// memory may be about to leave.
    pub(super) fn take(
        &self,
        from: usize,
        bell: Bell,
        mut look_round: impl FnMut() -> Result<(), Stuck>,
    ) -> Result<u64, Missed> {
        let mut in_doubt = None;
        let mut state = lock(&self.state);
        loop {
            if let Some(puts) = state.take(from, bell) {
                return Ok(puts);
            }
            if let Some(error) = &state.closed {
                return Err(Missed::Closed(error.clone()));
            }
            let has_dropped = state.dropped.contains(&from);
            drop(state);
            let missed = match look_round() {
                Ok(()) => has_dropped.then_some(Missed::Dropped),
                Err(stuck @ (Stuck::Dead { .. } | Stuck::Left { .. })) => {
                    Some(Missed::Stuck(stuck))
                }
                Err(stuck) => return Err(Missed::Stuck(stuck)),
            };
            match missed {
                None => in_doubt = None,
                Some(missed) => {
                    let since = in_doubt.get_or_insert_with(Instant::now);
                    if since.elapsed() > LAST_BREATH {
                        return Err(missed);
                    }
                }
            }
            state = lock(&self.state);
            // It may have come while nobody looked.
            if !state.has(from, bell) {
                let waited = self.changed.wait_timeout(state, LOOK_ROUND);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn notes_are_kept_apart_by_sender_and_kind_and_taken_in_their_order() {
        let mailbox = Mailbox::default();
        for (from, bell, puts) in [
            (1, Bell::Signal(0), 3),
            (1, Bell::Barrier(0), 4),
            (1, Bell::Signal(0), 5),
            (2, Bell::Signal(0), 6),
        ] {
            mailbox.put(from, bell, puts);
        }
        let take = |from, bell| mailbox.take(from, bell, || Err(Stuck::Late)).ok();
        assert_eq!(take(1, Bell::Signal(0)), Some(3));
        assert_eq!(take(1, Bell::Signal(0)), Some(5));
        assert_eq!(take(1, Bell::Signal(0)), None);
        assert_eq!(take(1, Bell::Signal(1)), None);
        assert!(mailbox.has(1, Bell::Barrier(0)) && !mailbox.has(2, Bell::Barrier(0)));
        assert_eq!(take(2, Bell::Signal(0)), Some(6));
    }

    #[test]
    fn what_has_come_can_be_taken_though_no_more_will() {
        let mailbox = Mailbox::default();
        mailbox.put(0, Bell::Signal(7), 1);
        mailbox.close(Error::Fake);
        assert_eq!(mailbox.take(0, Bell::Signal(7), || Ok(())).unwrap(), 1);
        let missed = mailbox.take(0, Bell::Signal(7), || Ok(()));
        assert!(matches!(missed, Err(Missed::Closed(Error::Fake))), "{missed:?}");
    }

    #[test]
    fn what_one_has_told_who_has_dropped_the_memory_can_be_taken_and_then_no_more() {
        let mailbox = Mailbox::default();
        mailbox.put(1, Bell::Signal(0), 4);
        mailbox.drop_sender(1);
        assert_eq!(mailbox.take(1, Bell::Signal(0), || Ok(())).unwrap(), 4);
        let missed = mailbox.take(1, Bell::Signal(0), || Ok(()));
        assert!(matches!(missed, Err(Missed::Dropped)), "{missed:?}");
        let of_another = mailbox.take(2, Bell::Signal(0), || Err(Stuck::Late));
        assert!(matches!(of_another, Err(Missed::Stuck(Stuck::Late))), "{of_another:?}");
    }

    #[test]
    fn the_last_word_of_one_who_has_left_is_waited_for() {
        let mailbox = Mailbox::default();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(30));
                mailbox.put(3, Bell::Signal(0), 9);
            });
            let has_left = || Err(Stuck::Left { ranks: vec![3] });
            assert_eq!(mailbox.take(3, Bell::Signal(0), has_left).unwrap(), 9);
            let missed = mailbox.take(3, Bell::Signal(0), has_left);
            assert!(matches!(missed, Err(Missed::Stuck(Stuck::Left { .. }))), "{missed:?}");
        });
    }
}
