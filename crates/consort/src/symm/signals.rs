//! Telling other ranks that something was done.

use consort_sys::window::Plain;

use super::Symmetric;
use super::anywhere::check_channel;
use super::wait::Wait;
use crate::engine::Stakes;
use crate::error::Result;
use crate::group::Rank;

/// # Signals
impl<T: Plain> Symmetric<T> {
    /// Sends a signal to a rank. What this rank has put before is there when it is waited for.
    /// Never waits.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let memory = group.symmetric::<u8>(0)?;
    /// memory.put_signal(0, 3)?;
    /// memory.put_signal(0, 3)?;
    /// memory.wait_signal(0, 3)?;
    /// assert_eq!(memory.signals(0, 3)?, 1);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When there is no such rank or channel, or the group has ended.
    #[inline]
    pub fn put_signal(&self, to: impl Into<Rank>, channel: usize) -> Result<()> {
        let to = self.index(to)?;
        self.check_channel(channel)?;
        self.memory.windows().signal(to, channel);
        Ok(())
    }

    /// Waits for a signal from a rank, and takes it.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let memory = group.symmetric::<u8>(0)?;
    /// let early = memory.within(Duration::from_millis(5)).wait_signal(0, 0);
    /// assert_eq!(early.unwrap_err().kind(), consort::ErrorKind::Deadline);
    /// memory.put_signal(0, 0)?;
    /// memory.wait_signal(0, 0)?;
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Late`](crate::Error::Late) at the deadline: no signal is lost, and it can be waited for again.
    /// [`Error::PeerLost`](crate::Error::PeerLost) when the rank is gone, which ends the group; and what has ended it, if
    /// the group has ended.
    #[inline]
    pub fn wait_signal(&self, from: impl Into<Rank>, channel: usize) -> Result<()> {
        let from = self.index(from)?;
        self.check_channel(channel)?;
        let mut wait = Wait::new(&self.group)?;
        let look_round = || wait.look_round(&[from]);
        let waited = self.memory.windows().await_signal(from, channel, look_round);
        waited.map_err(|stuck| {
            let call = self.describe(&format!("wait_signal on channel {channel}"));
            wait.give_up(stuck, call, [from].into_iter(), Stakes::Wait)
        })
    }

    /// How many signals of a rank have come that were not waited for yet.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let memory = group.symmetric::<u8>(0)?;
    /// memory.put_signal(0, 1)?;
    /// if memory.signals(0, 1)? > 0 {
    ///     memory.wait_signal(0, 1)?; // does not wait
    /// }
    /// assert_eq!(memory.signals(0, 1)?, 0);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When there is no such rank or channel, or the group has ended.
    pub fn signals(&self, from: impl Into<Rank>, channel: usize) -> Result<u32> {
        let from = self.index(from)?;
        self.check_channel(channel)?;
        Ok(self.memory.windows().signals(from, channel))
    }

    /// Waits until every rank has come to the same barrier of a channel. What each has put before
    /// is there for all. It is no call of the group, and does not take signals.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// let memory = group.symmetric::<u64>(1)?;
    /// memory.put(memory.rank(), 0, &[17])?;
    /// memory.barrier(0)?;
    /// for rank in 0..memory.world() as u32 {
    ///     assert_eq!(memory.peer(rank)?[0], 17);
    /// }
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Late`](crate::Error::Late) at the deadline and [`Error::PeerLost`](crate::Error::PeerLost) when a rank is
    /// gone, each of which ends the group; and what has ended it, if the group has ended.
    pub fn barrier(&self, channel: usize) -> Result<()> {
        self.index(self.rank())?;
        self.check_channel(channel)?;
        let windows = self.memory.windows();
        let mut wait = Wait::new(&self.group)?;
        let round = windows.arrive(channel);
        for rank in 0..self.world() {
            let look_round = || wait.look_round(&[rank]);
            let Err(stuck) = windows.await_arrival(rank, channel, round, look_round) else {
                continue;
            };
            let call = self.describe(&format!("barrier on channel {channel}"));
            let is_missing = |&rank: &usize| !windows.has_arrived(rank, channel, round);
            let missing = (0..self.world()).filter(is_missing);
            return Err(wait.give_up(stuck, call, missing, Stakes::Group));
        }
        Ok(())
    }

    pub(super) fn check_channel(&self, channel: usize) -> Result<()> {
        check_channel(channel, self.channels())
    }
}
