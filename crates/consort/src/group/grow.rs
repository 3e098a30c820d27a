//! A group with those who came later.

use std::time::Duration;

use super::Group;
use crate::builder::Invitation;
use crate::error::{Error, Result};
use crate::meeting::{self, Lobby, Ticket, Welcome};

impl Group {
    /// How many processes wait to [join](crate::Builder::join) the job. Asks the job's store.
    ///
    /// ```
    /// let group = consort::Builder::new().rank(0).world(1).init()?;
    /// assert_eq!(group.newcomers()?, 0);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the store is gone.
    pub fn newcomers(&self) -> Result<usize> {
        self.shared.job.home.check()?;
        self.shared.job.lobby.as_ref().map_or(Ok(0), |(lobby, _)| lobby.waiting())
    }

    /// A new group of this one's ranks, with the same numbers, and the processes that wait to
    /// [join](crate::Builder::join), with numbers after them. Every rank of this group has to call it.
    /// If nobody waits, or nobody answers any more, it is this group.
    ///
    /// They all meet anew, in the same store: the new group has memory and connections of its own. This
    /// group goes on, whether or not that succeeds, until it is dropped.
    ///
    /// ```no_run
    /// # let mut group = consort::init()?;
    /// // Between two steps of training.
    /// let mut waiting = [group.newcomers()? as u64];
    /// group.broadcast(&mut waiting, 0)?;
    /// if waiting[0] > 0 {
    ///     group = group.grow()?;
    ///     // Rank 0 tells the newcomers where the training is, and the parameters.
    /// }
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// * [`Error::PeerUnable`]: rank 0 cannot reach the store, or a rank did not come through the meeting.
    /// * [`Error::Missing`]: somebody did not come to the meeting.
    /// * As any [`call`](Self::call).
    pub fn grow(&self) -> Result<Self> {
        let Some(entrance) = &self.shared.job.lobby else { return Ok(self.clone()) };
        self.check_can_wait("grow")?;
        let mut found = [0_u32; 2];
        let mut trouble = None;
        let mut tickets = Vec::new();
        if self.rank() == 0 {
            let (lobby, _) = entrance;
            match lobby.call_in() {
                Ok((called, growth)) => {
                    found = [called.len() as u32, growth];
                    tickets = called;
                }
                Err(error) => (found, trouble) = ([u32::MAX; 2], Some(error)),
            }
        }
        self.broadcast(&mut found, 0)?;
        match found {
            [u32::MAX, _] => {
                Err(trouble.unwrap_or_else(|| self.unable(0, "it cannot reach the store")))
            }
            [0, _] => Ok(self.clone()),
            [count, growth] => self.meet_with(entrance, &tickets, count, growth),
        }
    }

    fn meet_with(
        &self,
        (lobby, invitation): &(Lobby, Invitation),
        tickets: &[Ticket],
        count: u32,
        growth: u32,
    ) -> Result<Self> {
        let old = self.world() as u32;
        let world = old.saturating_add(count);
        let timeout = self.timeout.max(LEAST);
        let (rank, invitation) = (self.rank().get(), invitation.clone());
        let invitation = Invitation { rank, world, growth, timeout, ..invitation };
        // Whatever goes wrong here, the others wait for this rank's word of it.
        let admitted = lobby.admit(tickets, Welcome { rank: old, world, growth });
        let exits = self.shared.job.exits.clone();
        let met = admitted.and_then(|()| meeting::hold(&invitation, exits));
        let mut came = vec![1_u8; self.world()];
        let counted = self.all_gather(&[u8::from(met.is_ok())], &mut came);
        let group = met?.within(self.timeout);
        if counted.is_ok()
            && let Some(rank) = came.iter().position(|&came| came == 0)
        {
            return Err(self.unable(rank as u32, "it did not come through the meeting"));
        }
        // If somebody has died meanwhile, the next call says so.
        let _ = group.barrier();
        Ok(group)
    }

    fn unable(&self, rank: u32, reason: &str) -> Error {
        let (group, reason) = (self.name().to_owned(), reason.to_owned());
        Error::PeerUnable { group, rank, call: "grow", reason }
    }
}

/// A meeting takes longer than most calls.
const LEAST: Duration = Duration::from_secs(10);
