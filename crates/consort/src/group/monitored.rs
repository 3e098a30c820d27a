//! A barrier that names all who do not come.

use std::collections::BTreeSet;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use consort_store::{Deadline, Error as StoreError};

use super::Group;
use crate::engine::{Lookout, Since, Stakes, Waiting};
use crate::error::Result;

impl Group {
    /// Waits until every rank has come, and names all who have not when the group's
    /// [timeout](Self::timeout) is over: the same ranks on every rank that has come. A
    /// [`barrier`](Self::barrier) is much faster; it names those whom a rank has found to be late.
    ///
    /// The ranks meet in the job's [store](Self::store), so it also finds out who cannot be reached
    /// otherwise.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// group.within(std::time::Duration::from_secs(30)).monitored_barrier()?;
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// * [`Late`](crate::Error::Late): these ranks are alive, and have not come.
    /// * [`PeerLost`](crate::Error::PeerLost), [`Left`](crate::Error::Left): one of them cannot come any more.
    /// * [`Store`](crate::Error::Store): the store is gone.
    ///
    /// After each of the first three the group has ended.
    pub fn monitored_barrier(&self) -> Result<()> {
        let Some(lookout) = &self.shared.lookout else { return self.barrier() };
        self.check_can_wait(CALL)?;
        let mut number = self.shared.monitored.lock().unwrap_or_else(PoisonError::into_inner);
        // One that the store has failed in is made again.
        let next = *number + 1;
        self.wait_for_all(next, lookout)?;
        *number = next;
        if self.rank() == 0 {
            // Everyone has left the one before.
            let _ = self.shared.job.registry.delete(&self.monitored(next - 1));
        }
        Ok(())
    }

    fn wait_for_all(&self, number: u64, lookout: &Lookout) -> Result<()> {
        let store = &self.shared.job.registry;
        let (key, began) = (self.monitored(number), Instant::now());
        let until = Deadline::after(self.timeout);
        store.append(&key, &self.rank().get().to_le_bytes())?;
        let (mut log, mut since) = (Vec::new(), Since::default());
        loop {
            match store.get_changed(&key, &log, Deadline::after(LOOK).min(until)) {
                Ok(changed) => log = changed,
                Err(StoreError::Timeout { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            let missing = self.missing(&log);
            lookout.listen();
            if lookout.has_ended() {
                return Err(lookout.ended());
            }
            if missing.is_empty() {
                return Ok(());
            }
            let judged = missing.iter().try_for_each(|&rank| lookout.judge(&[rank], || false));
            let waiting = || Waiting { call: CALL.to_owned(), number: 0, waited: began.elapsed() };
            if since.is_to_warn(lookout.warn_after()) {
                lookout.warn(&waiting(), &missing);
            }
            if let Err(stuck) = judged.and_then(|()| lookout.judge(&[], || until.has_passed())) {
                let waiting = waiting();
                let missing = missing.into_iter().collect();
                return Err(lookout.give_up(stuck, waiting, missing, Stakes::Group));
            }
        }
    }

    /// Who has not come, of all.
    fn missing(&self, log: &[u8]) -> Vec<usize> {
        let (came, _) = log.as_chunks();
        let came: BTreeSet<u32> = came.iter().map(|rank| u32::from_le_bytes(*rank)).collect();
        (0..self.world()).filter(|&rank| !came.contains(&(rank as u32))).collect()
    }

    fn monitored(&self, number: u64) -> String {
        format!("{CALL}/{}/{number}", self.name())
    }
}

const CALL: &str = "monitored_barrier";
/// How often somebody looks whether others have died.
const LOOK: Duration = Duration::from_millis(20);
