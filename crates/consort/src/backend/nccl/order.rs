//! Who comes next.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use consort_store::Deadline;

use crate::engine::Deadlines;

/// Has calls that come by two doors, now or later, go one after the other, in the order in which they came.
///
/// Each has its own deadline, and whoever has its turn keeps those of all others as if they were its own.
#[derive(Debug, Default)]
pub(super) struct Order {
    state: Mutex<State>,
    changed: Condvar,
    /// Those of everyone who has a place.
    deadlines: Deadlines,
}

#[derive(Debug, Default)]
struct State {
    /// How many tickets were given.
    given: u64,
    /// Whose turn it is.
    now: u64,
    /// Those who will not come any more, of the ones that have not had their turn.
    gone: BTreeSet<u64>,
    /// How many calls there were.
    calls: u64,
}

/// A place in the order. Whoever drops it gives it up, or has had its turn.
#[derive(Debug)]
pub(super) struct Ticket<'o> {
    order: &'o Order,
    place: Place,
}

/// The same, for one who comes back later.
#[derive(Debug)]
pub(super) struct Place {
    at: u64,
    /// The number of its first call, from 1.
    pub(super) number: u64,
}

impl Order {
    /// One that adds the deadlines of those who have a place to these.
    pub(super) fn keeping(deadlines: Deadlines) -> Self {
        Self { deadlines, ..Self::default() }
    }

    /// The next place, for so many calls, of one who waits for their end until then.
    pub(super) fn join(&self, calls: u64, until: Deadline) -> Place {
        let mut state = self.lock();
        let place = Place { at: state.given, number: state.calls + 1 };
        self.deadlines.add(place.at, until);
        state.given += 1;
        state.calls += calls;
        place
    }

    /// How many calls there were.
    pub(super) fn calls(&self) -> u64 {
        self.lock().calls
    }

    /// Whether all who had a place have had their turn.
    pub(super) fn is_idle(&self) -> bool {
        let state = self.lock();
        state.now == state.given
    }

    /// The deadlines of all who have a place.
    pub(super) fn deadlines(&self) -> &Deadlines {
        &self.deadlines
    }

    /// Waits for a place's turn; `None` if it has not come in time. Either way the others go on when what this
    /// gives is dropped.
    pub(super) fn wait(&self, place: Place, until: Deadline) -> Option<Ticket<'_>> {
        let ticket = Ticket { order: self, place };
        let mut state = self.lock();
        while state.now != ticket.place.at {
            state = match until.remaining() {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(left) if left.is_zero() => {
                    drop(state);
                    return None;
                }
                Some(left) => {
                    let waited = self.changed.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        drop(state);
        Some(ticket)
    }

    /// Takes notice that nobody comes for a place.
    pub(super) fn give_up(&self, place: Place) {
        drop(Ticket { order: self, place });
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.order.deadlines.remove(self.place.at);
        let mut state = self.order.lock();
        state.gone.insert(self.place.at);
        while let now = state.now
            && state.gone.remove(&now)
        {
            state.now += 1;
        }
        drop(state);
        self.order.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn calls_are_numbered_and_go_one_after_the_other() {
        let order = Order::default();
        let (first, second) = (order.join(1, Deadline::never()), order.join(3, Deadline::never()));
        assert_eq!((first.number, second.number, order.calls()), (1, 2, 4));
        assert!(!order.is_idle());
        let gone = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _ticket = order.wait(second, Deadline::never()).expect("it comes");
                gone.lock().unwrap().push(2);
            });
            let _ticket = order.wait(first, Deadline::never()).expect("it is the first");
            std::thread::sleep(Duration::from_millis(20));
            gone.lock().unwrap().push(1);
        });
        assert_eq!(gone.into_inner().unwrap(), [1, 2]);
        assert!(order.is_idle());
    }

    #[test]
    fn one_whose_turn_does_not_come_in_time_keeps_nobody() {
        let order = Order::default();
        let join = || order.join(1, Deadline::never());
        let (first, second, third) = (join(), join(), join());
        let first = order.wait(first, Deadline::never()).expect("it is the first");
        assert!(order.wait(second, Deadline::after(Duration::from_millis(10))).is_none());
        drop(first);
        order.give_up(join());
        assert!(order.wait(third, Deadline::never()).is_some());
        assert!(order.wait(join(), Deadline::never()).is_some());
    }

    #[test]
    fn the_deadline_of_whoever_has_a_place_is_known_until_it_has_had_its_turn() {
        let order = Order::default();
        let soonest = || order.deadlines().soonest();
        let [soon, late] = [10, 20].map(|seconds| Deadline::after(Duration::from_secs(seconds)));
        let (first, second) = (order.join(1, late), order.join(2, soon));
        assert_eq!(soonest(), soon);
        drop(order.wait(first, late));
        assert_eq!(soonest(), soon);
        drop(order.wait(second, soon));
        assert_eq!(soonest(), Deadline::never());
    }
}
