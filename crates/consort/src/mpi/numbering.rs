//! By which numbers MPI tells groups apart that are made at the same time.

use std::sync::Arc;

use consort_store::{Deadline, Store};

use super::table::MpiError;

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
    /// How long the others wait for them.
    pub(crate) until: Deadline,
}

impl Numbering {
    /// Numbers for two communicators.
    ///
    /// # Errors
    /// When the store cannot be asked, or the first member does not come in time.
    pub(super) fn agree(&self) -> Result<[i32; 2], MpiError> {
        let agreed = if self.is_first { self.draw() } else { self.hear() };
        let drawn = agreed.map_err(|error| MpiError::new(WHAT, error.to_string()))?;
        Ok([0, 1].map(|which| ((drawn % NUMBERS * 2 + which) % NUMBERS) as i32))
    }

    /// Takes them out of the store. All members have them when one has made a communicator with all others.
    pub(super) fn forget(&self) {
        if self.is_first {
            // What stays there otherwise is a few bytes.
            let _ = self.store.delete(&self.key());
        }
    }

    fn draw(&self) -> consort_store::Result<u64> {
        let drawn = self.store.add(DRAWN, 1)?.unsigned_abs();
        self.store.set(&self.key(), &drawn.to_le_bytes())?;
        Ok(drawn)
    }

    fn hear(&self) -> consort_store::Result<u64> {
        let told = self.store.get(&self.key(), self.until)?;
        // Whatever else somebody has written there is a number, too, and MPI does not bring those together.
        Ok(told.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    fn key(&self) -> String {
        format!("mpi/numbers of/{}", self.group)
    }
}

/// How often numbers were drawn.
const DRAWN: &str = "mpi/drawn";
/// What fails if it does.
const WHAT: &str = "agreeing on numbers for MPI_Comm_create_group";
/// How many every MPI has.
const NUMBERS: u64 = 32_767;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use consort_store::MemStore;

    use super::*;

    fn member(store: &Arc<MemStore>, group: &str, is_first: bool) -> Numbering {
        let until = Deadline::after(Duration::from_secs(10));
        Numbering { store: store.clone(), group: group.to_owned(), is_first, until }
    }

    #[test]
    fn members_agree_and_groups_differ() {
        let store = Arc::new(MemStore::new());
        let mut all = Vec::new();
        for group in ["one", "another"] {
            let (first, second) = (member(&store, group, true), member(&store, group, false));
            std::thread::scope(|scope| {
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
    fn a_first_member_that_does_not_come_is_waited_for_until_the_deadline() {
        let until = Deadline::after(Duration::from_millis(10));
        let alone = Numbering { until, ..member(&Arc::new(MemStore::new()), "one", false) };
        let error = alone.agree().unwrap_err();
        assert!(error.to_string().contains("agreeing on numbers"), "{error}");
    }
}
