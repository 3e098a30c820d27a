//! Who is there.

use super::{Group, Rank};
use crate::error::{Error, Result};

/// What a rank knows of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Presence {
    /// Nothing speaks against its being there.
    Here,
    /// It has left the group: it makes no more calls in it.
    Left,
    /// Its process has ended, or its host cannot be reached any more.
    Gone,
}

impl Group {
    /// What this rank knows of another, without asking it: as [`error`](Self::error), it does not wait for
    /// ranks. Where [somebody else](Self::with_backend) carries out the calls, nothing is known.
    ///
    /// ```
    /// let group = consort::Builder::new().rank(0).world(1).init()?;
    /// assert_eq!(group.presence(0)?, consort::Presence::Here);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// When there is no such rank, and in a forked child.
    pub fn presence(&self, rank: impl Into<Rank>) -> Result<Presence> {
        self.shared.job.home.check()?;
        let rank = rank.into();
        if rank.index() >= self.world() {
            let what = format!("there is no rank {rank} in a group of {}", self.world());
            return Err(Error::Argument(what));
        }
        let Some(lookout) = &self.shared.lookout else { return Ok(Presence::Here) };
        lookout.listen();
        Ok(lookout.presence(rank.index()))
    }
}
