//! Where the thread sleeps.
//!
//! What it waits for are words in shared memory, on which it can [sleep](ALERT) all at once, or
//! something that is noticed only in a [place](Sleep) of its own: sockets. If there is such a task,
//! the thread sleeps there. It looks at the words of other tasks then in short naps.
//!
//! Whoever has something for the thread puts it into the office and sees, in the same moment, where
//! the thread sleeps; then it rings the alert, and then there. No wake-up is lost:
//!
//! | the thread went to bed | what happens |
//! |---|---|
//! | before that moment | the place is rung after the alert. A place loses no wake-up, and the thread's last look there is at the alert |
//! | after it | it finds that it was told more than it knows, and sleeps on the alert only, which is about to be rung |

use std::sync::Arc;
use std::time::Duration;

use consort_sys::alert::Watch;

use super::task::Task;
use super::{ALERT, Heard, office};
use crate::engine::sleep::{NAP, Sleep};

/// What ends the thread's sleep.
pub(super) struct Bed {
    watches: Vec<Watch>,
    place: Option<Arc<dyn Sleep>>,
    /// Whether there are others, which the thread cannot sleep in meanwhile.
    has_more: bool,
}

impl Bed {
    /// For one who waits for all of these.
    pub(super) fn for_tasks(tasks: &[Task]) -> Self {
        let watches = tasks.iter().filter_map(Task::watch).collect();
        let mut places = tasks.iter().filter_map(Task::place);
        let place = places.next();
        let has_more = places.any(|it| place.is_some_and(|place| !Arc::ptr_eq(place, it)));
        Self { watches, place: place.cloned(), has_more }
    }

    /// Sleeps, but not if `look` finds what is waited for, nor longer than the limit.
    pub(super) fn doze(&self, heard: Heard, look: impl Fn() -> bool, limit: Duration) {
        let Self { watches, place, has_more } = self;
        let Some(place) = place else { return ALERT.doze(heard.rings, watches, look, limit) };
        let mut office = office();
        if office.told != heard.told {
            drop(office);
            return ALERT.doze(heard.rings, &[], look, NAP);
        }
        office.beds.push(place.clone());
        drop(office);
        let is_all = watches.is_empty() && !has_more;
        place.doze(&mut || look(), if is_all { limit } else { limit.min(NAP) });
        leave(place);
    }
}

/// Threads of two shifts may sleep in one place, each in a bed of its own.
fn leave(place: &Arc<dyn Sleep>) {
    let mut office = office();
    if let Some(at) = office.beds.iter().position(|bed| Arc::ptr_eq(bed, place)) {
        office.beds.swap_remove(at);
    }
}
