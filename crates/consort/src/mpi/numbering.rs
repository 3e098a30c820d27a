//! By which numbers MPI tells groups apart that are made at the same time.

use std::sync::Arc;
use std::time::Duration;

use consort_store::{Deadline, Error, Reply, Request, Result, Store};

/// What the members of a new group agree on before MPI makes its communicators.
///
/// Groups that are made at once, by threads of processes that are in both, MPI tells apart by a number alone. To make
/// one at a time in a process is no way out: threads that make groups in different orders would wait for each
/// other for ever, and one that waits for a process that is dead would keep all others from theirs. So each
/// group gets numbers of the job's that none was given before, until all were: its first member draws them, and tells
/// the others in the store.
#[derive(Debug)]
pub(crate) struct Numbering {
    /// The job's.
    pub(crate) store: Arc<dyn Store>,
    /// The group's name, which no other has that is made at the same time.
    pub(crate) group: String,
    /// Whether this process draws the numbers.
    pub(crate) is_first: bool,
    /// How long the group may take.
    pub(crate) timeout: Duration,
}

impl Numbering {
    /// Numbers for two communicators.
    ///
    /// # Errors
    /// When the store does not answer, or the first member does not come until long after the time is up.
    pub(super) fn agree(&self) -> Result<[i32; 2]> {
        let drawn = if self.is_first { self.draw()? } else { self.hear()? };
        Ok([0, 1].map(|which| ((drawn % NUMBERS * 2 + which) % NUMBERS) as i32))
    }

    /// Takes them out of the store. All members have them when one has made a communicator with all others.
    pub(super) fn forget(&self) {
        if self.is_first {
            // What stays there otherwise is a few bytes.
            let _ = self.store.delete(&self.key());
        }
    }

    fn draw(&self) -> Result<u64> {
        // The handle may be of somebody in haste, and the store be about to move.
        let until = Deadline::after(MOVING.min(self.timeout));
        let reply = self.store.call(&Request::Add { key: DRAWN, delta: 1 }, until)?;
        let Reply::Number(drawn) = reply else {
            let (peer, reason) = ("the store".to_owned(), format!("it answered {reply:?}"));
            return Err(Error::Lost { peer, reason });
        };
        let drawn = drawn.unsigned_abs();
        let (key, value) = (&*self.key(), &drawn.to_le_bytes()[..]);
        self.store.call(&Request::Set { key, value }, until)?;
        Ok(drawn)
    }

    fn hear(&self) -> Result<u64> {
        // That the first member is late is for those to say who wait for the group, and see who is alive.
        let until = Deadline::after(self.timeout.saturating_add(LONGER));
        let told = self.store.get(&self.key(), until)?;
        // Whatever else somebody has written there is a number, too, and MPI does not bring those together.
        Ok(told.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    fn key(&self) -> String {
        format!("mpi/numbers of/{}", self.group)
    }
}

/// How often numbers were drawn.
const DRAWN: &str = "mpi/drawn";
/// How many every MPI has.
const NUMBERS: u64 = 32_767;
/// How long a standby may take to be the store.
const MOVING: Duration = Duration::from_secs(15);
/// How much longer somebody waits for the numbers than for the group.
const LONGER: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use std::thread;

    use consort_store::{MemStore, Missing};

    use super::*;

    fn member(store: &Arc<MemStore>, group: &str, is_first: bool) -> Numbering {
        let timeout = Duration::from_secs(10);
        Numbering { store: store.clone(), group: group.to_owned(), is_first, timeout }
    }

    /// A store that takes so long to change something, for somebody in haste.
    #[derive(Debug)]
    struct Slow {
        store: Arc<MemStore>,
        pause: Duration,
    }

    impl Store for Slow {
        fn call(&self, request: &Request<'_>, until: Deadline) -> Result<Reply> {
            if request.can_change() {
                let waited = self.pause.min(until.remaining().unwrap_or(self.pause));
                thread::sleep(waited);
                if waited < self.pause {
                    let (verb, missing) = (request.verb(), Missing::default());
                    return Err(Error::Timeout { verb, waited, missing });
                }
            }
            self.store.call(request, until)
        }

        fn duplicate(&self) -> Result<Arc<dyn Store>> {
            self.store.duplicate()
        }

        fn patience(&self) -> Duration {
            self.pause / 2
        }
    }

    #[test]
    fn members_agree_and_groups_differ() {
        let store = Arc::new(MemStore::new());
        let mut all = Vec::new();
        for group in ["one", "another"] {
            let (first, second) = (member(&store, group, true), member(&store, group, false));
            thread::scope(|scope| {
                let waiting = scope.spawn(|| second.agree().unwrap());
                let numbers = first.agree().unwrap();
                assert_eq!(waiting.join().unwrap(), numbers);
                all.extend(numbers);
            });
            first.forget();
        }
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 4);
    }

    #[test]
    fn numbers_are_those_that_every_mpi_has() {
        let store = Arc::new(MemStore::new());
        store.add(DRAWN, i64::MAX - 5).unwrap();
        for at in 0..5 {
            let numbers = member(&store, &at.to_string(), true).agree().unwrap();
            assert!(numbers.iter().all(|&it| (0..32_767).contains(&it)), "{numbers:?}");
        }
    }

    #[test]
    fn a_store_that_is_slow_is_waited_for_whoever_is_in_haste_elsewhere() {
        let store = Arc::new(MemStore::new());
        let slow = Slow { store: store.clone(), pause: Duration::from_millis(200) };
        assert!(slow.add("else", 1).is_err(), "others do not wait");
        let first = Numbering { store: Arc::new(slow), ..member(&store, "one", true) };
        let numbers = first.agree().unwrap();
        assert_eq!(member(&store, "one", false).agree().unwrap(), numbers);
    }
}
