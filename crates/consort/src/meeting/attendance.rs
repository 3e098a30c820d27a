//! Whether those who have come to the meeting are still there.
//!
//! Before the verdict nobody knows who the others are. So each process writes down on a list of its host
//! that it comes, before it does anything else, and whoever waits looks now and then whether one of them
//! has ended: then there is no use in waiting, and the first who finds out says so to all, in the place of
//! the verdict. Whoever gives up for another reason says that there, too, before it ends itself. A second
//! process that came as a rank has no part in the meeting, and may end. Of a process that has not come yet
//! nobody here knows; nor of one that was alone on its host.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use consort_store::{Deadline, Error as StoreError, Store, Swap};
use consort_sys::host::HostId;
use consort_sys::life::{Life, Sign};

use super::VERDICT;
use super::claim::holder_of;
use crate::error::{Error, Result};
use crate::verdict::{Verdict, decode, encode};

/// The processes of this host that have come, for one of them.
#[derive(Debug)]
pub(super) struct Attendance<'a> {
    meeting: &'a dyn Store,
    me: u32,
    world: u32,
    host: HostId,
    /// Those known so far.
    here: Vec<Attendant>,
}

#[derive(Debug)]
struct Attendant {
    rank: u32,
    process: u32,
    life: Life,
}

impl<'a> Attendance<'a> {
    /// Writes down that this process comes.
    ///
    /// # Errors
    /// When the store fails, or the system does not say which host this is.
    pub(super) fn sign(meeting: &'a dyn Store, me: u32, world: u32) -> Result<Self> {
        let host = HostId::here().map_err(|error| Error::Host(error.into()))?;
        let line = [me.to_le_bytes(), std::process::id().to_le_bytes()].concat();
        meeting.append(&list_of(&host), &line)?;
        Ok(Self { meeting, me, world, host, here: Vec::new() })
    }

    /// Waits until there is a verdict, which there is when one of this host has ended, or the time is
    /// over.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) fn await_verdict(&mut self, until: Deadline) -> Result<Option<Verdict>> {
        loop {
            match self.meeting.get(VERDICT, until.min(self.slice())) {
                Ok(told) => return Ok(Some(read(&told))),
                Err(StoreError::Timeout { missing, .. })
                    if missing.count > 0 || !until.has_passed() => {}
                Err(other) => return Err(other.into()),
            }
            if until.has_passed() {
                return Ok(None);
            }
            if let Some(verdict) = self.look_round()? {
                return Ok(Some(verdict));
            }
        }
    }

    /// Gives everyone this verdict, unless there is one. Says which counts.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) fn settle(&self, verdict: Verdict) -> Result<Verdict> {
        Ok(match self.meeting.compare_set(VERDICT, None, &encode(&verdict))? {
            Swap::Differs(earlier) => read(&earlier),
            _ => verdict,
        })
    }

    /// Until when to wait before it is time to look round.
    pub(super) fn slice(&self) -> Deadline {
        // All who wait ask the store, which has better things to do when there are many.
        Deadline::after(LOOK + self.world * PER_RANK)
    }

    /// Looks whether somebody has settled what comes of the meeting, or has to.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) fn look_round(&mut self) -> Result<Option<Verdict>> {
        // Looked for first: a verdict that was given before counts.
        let ended = self.find_ended()?;
        match self.meeting.get(VERDICT, Deadline::now()) {
            Ok(told) => return Ok(Some(read(&told))),
            Err(StoreError::Timeout { .. }) => {}
            Err(other) => return Err(other.into()),
        }
        ended.map(|verdict| self.settle(verdict)).transpose()
    }

    fn find_ended(&mut self) -> Result<Option<Verdict>> {
        let list = match self.meeting.get(&list_of(&self.host), Deadline::now()) {
            Ok(list) => list,
            // It is asked again.
            Err(StoreError::Timeout { .. }) => return Ok(None),
            Err(other) => return Err(other.into()),
        };
        let (words, _) = list.as_chunks::<4>();
        let (lines, _) = words.as_chunks::<2>();
        for line in lines.iter().skip(self.here.len()) {
            let [rank, process] = line.map(u32::from_le_bytes);
            self.here.push(Attendant { rank, process, life: Life::of(process) });
        }
        for &Attendant { rank, process, ref life } in &self.here {
            if life.sign() == Sign::Ended && self.is_expected(rank, process)? {
                let (host, by) = (self.host.clone(), self.me);
                return Ok(Some(Verdict::Ended { rank, process, host, by }));
            }
        }
        Ok(None)
    }

    /// Whether no other process has taken the place of one that came as a rank.
    fn is_expected(&self, rank: u32, process: u32) -> Result<bool> {
        match holder_of(self.meeting, rank) {
            Ok(None) => Ok(true),
            Ok(Some((host, holder))) => Ok(host == self.host && holder == process),
            // It is asked again.
            Err(StoreError::Timeout { .. }) => Ok(false),
            Err(other) => Err(other.into()),
        }
    }
}

fn read(told: &[u8]) -> Verdict {
    decode(told).unwrap_or_else(|reason| {
        Verdict::Differs(format!("  consort version: the verdict {reason}"))
    })
}

/// Where those of a host write down that they have come. Programs of different versions, which cannot meet
/// anyway, may have different lists.
fn list_of(host: &HostId) -> String {
    let mut hasher = DefaultHasher::new();
    host.hash(&mut hasher);
    format!("here/{:016x}", hasher.finish())
}

/// How often to look whether those who have come are alive,
const LOOK: Duration = Duration::from_millis(40);
/// and how much less often for each of the world.
const PER_RANK: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use std::process::Command;

    use consort_store::MemStore;

    use super::super::claim::take_place;
    use super::*;
    use crate::builder::Invitation;

    #[test]
    fn one_who_has_come_and_ended_is_found_and_the_first_verdict_counts() {
        let meeting = MemStore::new();
        let mut first = Attendance::sign(&meeting, 0, 3).unwrap();
        let mut second = Attendance::sign(&meeting, 1, 3).unwrap();
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let line = [2_u32.to_le_bytes(), child.id().to_le_bytes()].concat();
        meeting.append(&list_of(&first.host), &line).unwrap();
        assert_eq!(first.look_round().unwrap(), None);
        assert_eq!(first.await_verdict(Deadline::now()).unwrap(), None);
        child.kill().unwrap();
        child.wait().unwrap();
        let found = first.await_verdict(Deadline::after(Duration::from_secs(60))).unwrap().unwrap();
        let (process, host) = (child.id(), HostId::here().unwrap());
        assert_eq!(found, Verdict::Ended { rank: 2, process, host, by: 0 });
        let heard = second.look_round().unwrap();
        assert_eq!(heard, Some(found.clone()));
        assert_eq!(second.settle(Verdict::Missing(String::new())).unwrap(), found);
    }

    #[test]
    fn a_second_process_with_a_rank_may_end() {
        let meeting = MemStore::new();
        let mut first = Attendance::sign(&meeting, 0, 2).unwrap();
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let line = [1_u32.to_le_bytes(), child.id().to_le_bytes()].concat();
        meeting.append(&list_of(&first.host), &line).unwrap();
        let group = crate::Builder::new().rank(0).world(1);
        let invitation = Invitation { rank: 1, ..group.complete().unwrap() };
        take_place(&meeting, &invitation).unwrap();
        assert_eq!(first.look_round().unwrap(), None);
    }
}
