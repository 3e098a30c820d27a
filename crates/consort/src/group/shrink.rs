//! The group of those who are left.

mod agreement;

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use consort_store::{Deadline, Error as StoreError, ErrorKind, Reply, Request, Store, Swap};

use self::agreement::{Card, Heard, Meeting, Outcome, Table, agree};
use super::{Carrier, Group, Presence, Shared};
use crate::engine::{Place, at_once};
use crate::error::{Error, Result};

impl Group {
    /// A new group of the ranks that are left, after some have died: in the order of their ranks here,
    /// numbered anew. Every rank that is alive has to call it, and gets it or learns that it is left out.
    /// The dead have no part in it.
    ///
    /// This group ends with it, if it has not ended: whoever waits in one of its calls gets an error, and
    /// can call this too. The ranks agree on who is left, also when they know of different deaths, and
    /// when others die meanwhile. When it returns, all ranks of the new group were there. What was on its
    /// way in this group does not reach the new one.
    ///
    /// It needs the job's [store](Self::store): where rank 0 holds that, and no launcher, rank 0's death
    /// is the end of the job.
    ///
    /// ```
    /// # let group = consort::Builder::new().rank(0).world(1).init()?;
    /// # let mut gradients = [1.0_f32];
    /// let group = match group.all_reduce(&mut gradients, consort::ReduceOp::Avg) {
    ///     Err(error) if error.kind() == consort::ErrorKind::PeerGone => group.shrink()?,
    ///     result => result.map(|()| group)?,
    /// };
    /// # assert_eq!(group.shrink()?.name(), "world~1");
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// * [`Error::Late`]: ranks that are alive have not called it within the group's
    ///   [timeout](Self::timeout). They can be [left out](Self::shrink_without).
    /// * [`Error::LeftOut`]: the others go on without this rank.
    /// * [`Error::Store`]: the store is gone.
    /// * [`Error::Argument`]: this rank has a smaller group already.
    pub fn shrink(&self) -> Result<Self> {
        self.shrink_without(&[])
    }

    /// As [`shrink`](Self::shrink), without these ranks of this group, alive or not: those that are stuck,
    /// or too slow. It is enough if one rank names them. They get [`Error::LeftOut`] if they come.
    ///
    /// ```
    /// # let group = consort::Group::fake(0, 4)?;
    /// let rest = group.shrink_without(&[1, 3])?;
    /// assert_eq!(rest.world_ranks(), [0, 2]);
    /// # Ok::<(), consort::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`shrink`](Self::shrink); and when a rank does not exist or is this one.
    pub fn shrink_without(&self, ranks: &[u32]) -> Result<Self> {
        if let Some(rank) = ranks.iter().find(|&&rank| rank as usize >= self.world()) {
            let what = format!("there is no rank {rank} in a group of {}", self.world());
            return Err(Error::Argument(what));
        }
        if ranks.contains(&self.rank().get()) {
            let what = "a rank cannot leave itself out: it need not call this".to_owned();
            return Err(Error::Argument(what));
        }
        if self.shared.job.neighbourhood.is_none() {
            let is_in = |rank: &usize| !ranks.contains(&(*rank as u32));
            return self.fake_part(&(0..self.world()).filter(is_in).collect::<Vec<_>>());
        }
        self.check_can_wait("shrink")?;
        let until = Deadline::after(self.timeout);
        let mut smaller = self.survivors(ranks, until)?;
        loop {
            let rest = until.remaining().unwrap_or(self.timeout);
            match smaller.within(rest).barrier() {
                Ok(()) => return Ok(smaller),
                // Somebody has died since.
                Err(error) if error.kind() == ErrorKind::PeerGone => {
                    smaller = smaller.survivors(&[], until)?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Agrees with the others on the new group. They need not all be alive by now.
    fn survivors(&self, without: &[u32], until: Deadline) -> Result<Self> {
        let mut succession = self.shared.succession.lock().unwrap_or_else(PoisonError::into_inner);
        if let Succession::Had = *succession {
            let what = format!("group {} was made smaller before: use that one", self.name());
            return Err(Error::Argument(what));
        }
        self.abort("it is made smaller");
        let mut assembly = Assembly::of(self, until);
        let without = without.iter().copied().collect();
        let mut mine = Card { rank: self.rank().get(), without, ..Card::default() };
        if let Succession::None = *succession {
            match self.shared.job.neighbourhood()?.take_place(self.world()) {
                Ok(place) => *succession = Succession::Offered(place),
                Err(error) => {
                    // Without this rank's card the others would wait for it.
                    at_once(assembly.show(&mine.entry()))?;
                    return Err(error);
                }
            }
        }
        mine.place = succession.place().map(Place::offsets);
        let (chosen, table) = assembly.agree(&mut mine)?;
        let Succession::Offered(place) = std::mem::replace(&mut *succession, Succession::Had)
        else {
            unreachable!("it was offered before")
        };
        self.remainder(place, &chosen, &table)
    }

    /// The new group of these ranks of this one.
    fn remainder(&self, mine: Place, chosen: &[u32], table: &Table) -> Result<Self> {
        let place_of = |&rank: &u32| {
            let unknown = || Error::Argument(format!("rank {rank} is in, but has shown nothing"));
            table.place_of(rank).ok_or_else(unknown)
        };
        let places = chosen.iter().map(place_of).collect::<Result<Vec<_>>>()?;
        let chosen: Vec<usize> = chosen.iter().map(|&rank| rank as usize).collect();
        // MPI may still be at what the others have given up.
        self.of_some(successor(self.name()), &chosen, mine, &places, Carrier::Host)
            .map(Self::recorded)
    }
}

/// How far a rank has come with making its group smaller.
#[derive(Debug, Default)]
pub(super) enum Succession {
    #[default]
    None,
    /// It has set memory aside for the new group, and told the others. They may count on it even if this
    /// rank has given up meanwhile.
    Offered(Place),
    /// It has the new group.
    Had,
}

impl Succession {
    fn place(&self) -> Option<&Place> {
        match self {
            Self::Offered(place) => Some(place),
            Self::None | Self::Had => None,
        }
    }
}

impl Drop for Shared {
    /// What was offered is left to those who may use it.
    fn drop(&mut self) {
        let succession = self.succession.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Succession::Offered(place) = std::mem::take(succession) {
            place.abandon();
        }
    }
}

/// The survivors of a group, as they meet in the store.
struct Assembly<'a> {
    group: &'a Group,
    store: &'a dyn Store,
    until: Deadline,
    began: Instant,
}

impl<'a> Assembly<'a> {
    fn of(group: &'a Group, until: Deadline) -> Self {
        Self { group, store: &*group.shared.job.registry, until, began: Instant::now() }
    }

    /// Waits until it is settled who is in, or settles it.
    fn agree(&mut self, mine: &mut Card) -> Result<(Vec<u32>, Table)> {
        let group = self.group;
        match at_once(agree(self, mine, group.world()))? {
            Outcome::Settled(chosen, table) if chosen.contains(&mine.rank) => Ok((chosen, table)),
            Outcome::Settled(others, _) => {
                Err(Error::LeftOut { group: group.name().to_owned(), rank: mine.rank, others })
            }
            Outcome::Late(missing) => Err(self.late(missing, mine.rank)),
            Outcome::Unreadable(what) => {
                let what = format!("group {} cannot be made smaller: {what}", group.name());
                Err(Error::Argument(what))
            }
        }
    }

    fn late(&self, missing: Vec<u32>, by: u32) -> Error {
        Error::Late {
            group: self.group.name().into(),
            missing,
            by,
            call: "shrink".into(),
            number: 0,
            waited: self.began.elapsed(),
            whereabouts: Default::default(),
        }
    }

    fn key(&self, what: &str) -> String {
        format!("shrink/{}/{what}", self.group.name())
    }

    /// How long the store has to take what the others wait for: it may be moving to another host.
    fn patiently(&self) -> Deadline {
        Deadline::after(MOVING).min(self.until)
    }
}

impl Meeting for Assembly<'_> {
    fn look_round(&mut self, mine: &mut Card) -> bool {
        let Some(lookout) = &self.group.shared.lookout else { return false };
        let (dead, left) = (mine.dead.len(), mine.left.len());
        lookout.listen();
        for rank in 0..self.group.world() {
            match lookout.presence(rank) {
                Presence::Gone => mine.dead.insert(rank as u32),
                Presence::Left => mine.left.insert(rank as u32),
                Presence::Here => continue,
            };
        }
        (dead, left) != (mine.dead.len(), mine.left.len())
    }

    async fn show(&mut self, entry: &[u8]) -> Result<()> {
        let append = Request::Append { key: &self.key("cards"), value: entry };
        self.store.call(&append, self.patiently())?;
        Ok(())
    }

    async fn hear(&mut self, known: &[u8], waits: bool) -> Result<Heard> {
        let until = if waits { Deadline::after(LOOK).min(self.until) } else { Deadline::now() };
        match self.store.get_changed(&self.key("cards"), known, until) {
            Ok(log) => Ok(Heard::Log(log)),
            Err(StoreError::Timeout { missing, .. }) if missing.count > 0 => Ok(Heard::Nothing),
            Err(StoreError::Timeout { .. }) => Ok(Heard::NoAnswer),
            Err(error) => Err(error.into()),
        }
    }

    async fn settled(&mut self) -> Result<Option<Vec<u8>>> {
        match self.store.get(&self.key("settled"), Deadline::now()) {
            Ok(settled) => Ok(Some(settled)),
            Err(StoreError::Timeout { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn settle(&mut self, chosen: Vec<u8>) -> Result<Vec<u8>> {
        let (key, new) = (&*self.key("settled"), &*chosen);
        match self.store.call(&Request::CompareSet { key, expect: None, new }, self.patiently())? {
            Reply::Swap(Swap::Differs(settled)) => Ok(settled),
            _ => Ok(chosen),
        }
    }

    fn is_late(&self) -> bool {
        self.until.has_passed()
    }
}

/// The name of the group that follows one.
fn successor(name: &str) -> String {
    let numbered = name.rsplit_once('~').and_then(|(name, last)| Some((name, last.parse().ok()?)));
    let (name, last): (&str, u64) = numbered.unwrap_or((name, 0));
    format!("{name}~{}", last.saturating_add(1))
}

/// How often somebody looks whether others have died.
const LOOK: Duration = Duration::from_millis(20);
/// How long a standby may take to be the store.
const MOVING: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_that_follow_each_other_are_counted() {
        assert_eq!(successor("world"), "world~1");
        assert_eq!(successor("world~9"), "world~10");
        assert_eq!(successor("world~1/0#3"), "world~1/0#3~1");
    }
}
