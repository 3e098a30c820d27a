//! The ranks of a host at their meeting: what they tell each other through the store.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use consort_store::{Deadline, Error as StoreError, Store, Swap};
use consort_sys::life::{Life, Sign};
use consort_sys::pass::PassError;

use crate::error::{Error, Result};
use crate::group::Member;
use crate::verdict::{decode, encode};

/// The ranks of this host. Each tells the others something under a name, and hears what they told.
///
/// A rank that cannot go on says so first, so that nobody waits for it; nor is a rank waited for that
/// has ended.
#[derive(Debug)]
pub(crate) struct Round<'a> {
    meeting: &'a dyn Store,
    pub(super) me: u32,
    /// Those on this host, this one among them.
    pub(super) here: Vec<&'a Member>,
    pub(super) until: Deadline,
}

impl<'a> Round<'a> {
    pub(crate) fn new(
        meeting: &'a dyn Store,
        me: u32,
        members: &'a [Member],
        until: Deadline,
    ) -> Self {
        let host = &members[me as usize].host;
        let here = members.iter().filter(|member| member.host == *host).collect();
        Self { meeting, me, here, until }
    }

    /// How many of them the process has that has the most.
    pub(super) fn most_together(&self) -> usize {
        let mut counts = HashMap::new();
        self.here.iter().for_each(|member| *counts.entry(member.process).or_insert(0) += 1);
        counts.into_values().max().unwrap_or(1)
    }

    /// Tells the others.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) fn tell(&self, what: &str, told: &[u8]) -> Result<()> {
        Ok(self.meeting.set(&key(what, self.me), told)?)
    }

    /// Tells the others, as far as that is possible, that this rank cannot go on. What they hear of
    /// is what went wrong first, and on which rank; so does this one, unless it failed by itself.
    pub(crate) fn give_up(&self, why: Error) -> Error {
        let why = self.explain(why);
        let (at_fault, ended) = match &why {
            Error::PeerUnable { .. } => return why,
            Error::Sharing(PassError::Ended { rank, process }) => (Some(*rank), Some(*process)),
            Error::Sharing(error) => (error.rank(), None),
            _ => (None, None),
        };
        let told = encode(&(at_fault.unwrap_or(self.me), why.to_string(), ended));
        match self.meeting.compare_set(GIVEN_UP, None, &told) {
            Ok(Swap::Differs(earlier)) if at_fault.is_some() => read_why(&earlier).unwrap_or(why),
            _ => why,
        }
    }

    /// A door is closed most likely because who stood there has ended, or has given up, and says why in a
    /// moment.
    fn explain(&self, why: Error) -> Error {
        let Error::Sharing(PassError::Closed { rank, .. }) = why else { return why };
        let member = self.here.iter().find(|member| member.rank == rank);
        match member.filter(|member| Life::of(member.process).sign() == Sign::Ended) {
            Some(member) => PassError::Ended { rank, process: member.process }.into(),
            None => self.word_of_who_gave_up(Deadline::after(A_MOMENT)).unwrap_or(why),
        }
    }

    /// Waits until every rank has told something under this name, and says what, in the order of
    /// ranks.
    ///
    /// # Errors
    /// When a rank gives up, has ended, or tells nothing in time.
    pub(super) fn hear(&self, what: &str) -> Result<Vec<Vec<u8>>> {
        let start = Instant::now();
        let keys: Vec<String> =
            self.here.iter().map(|member| key(what, member.rank.get())).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        match self.await_keys(&keys) {
            Err(Error::Store(StoreError::Timeout { missing, .. })) if missing.count > 0 => {
                let mut ranks = Vec::new();
                for (key, member) in keys.iter().zip(&self.here) {
                    if !self.meeting.check(&[*key])? {
                        ranks.push(member.rank.get());
                    }
                }
                let (waited, turned_away) = (start.elapsed(), Vec::new());
                Err(PassError::Missing { ranks, waited, turned_away }.into())
            }
            heard => heard,
        }
    }

    /// Waits until all of these keys are there, whoever writes them, and says what they hold.
    ///
    /// # Errors
    /// When a rank of any host gives up, when one of this host has ended, and when the time is over.
    pub(crate) fn await_keys(&self, keys: &[&str]) -> Result<Vec<Vec<u8>>> {
        let mut lives = Vec::new();
        loop {
            let late = match self.meeting.multi_get(keys, self.until.min(Deadline::after(SLICE))) {
                Ok(told) => return Ok(told),
                Err(error) if self.is_end_of_slice(&error) => error,
                Err(other) => return Err(other.into()),
            };
            if lives.is_empty() {
                lives.extend(self.here.iter().map(|member| Life::of(member.process)));
            }
            self.look_round(&lives)?;
            if self.until.has_passed() {
                return Err(late.into());
            }
        }
    }

    /// Whether what was waited for has not come, and it is not the store that does not answer.
    fn is_end_of_slice(&self, error: &StoreError) -> bool {
        let StoreError::Timeout { missing, .. } = error else { return false };
        missing.count > 0 || !self.until.has_passed()
    }

    /// Whether it makes sense to wait any longer.
    fn look_round(&self, lives: &[Life]) -> Result<()> {
        // Looked for first: what they have said before is heard below.
        let ended = lives.iter().position(|life| life.sign() == Sign::Ended);
        self.hear_who_gave_up()?;
        match ended.map(|index| self.here[index]) {
            None => Ok(()),
            Some(member) => {
                let (rank, process) = (member.rank.get(), member.process);
                Err(PassError::Ended { rank, process }.into())
            }
        }
    }

    /// Hears whether somebody has given up.
    ///
    /// # Errors
    /// What that one has told; and when the store fails.
    pub(super) fn hear_who_gave_up(&self) -> Result<()> {
        match self.meeting.get(GIVEN_UP, Deadline::now()) {
            Ok(told) => Err(read_why(&told).unwrap_or_else(Error::Argument)),
            Err(StoreError::Timeout { .. }) => Ok(()),
            Err(other) => Err(other.into()),
        }
    }

    /// What somebody has told who gave up, if that is told until then.
    fn word_of_who_gave_up(&self, until: Deadline) -> Option<Error> {
        read_why(&self.meeting.get(GIVEN_UP, until).ok()?).ok()
    }
}

/// What a rank has told that gave up.
fn read_why(told: &[u8]) -> Result<Error, String> {
    let (rank, reason, ended): (u32, String, Option<u32>) = decode(told)?;
    if let Some(process) = ended {
        return Ok(PassError::Ended { rank, process }.into());
    }
    Ok(Error::PeerUnable { group: "world".to_owned(), rank, call: "the meeting", reason })
}

fn key(what: &str, rank: u32) -> String {
    format!("{what}/{rank}")
}

const GIVEN_UP: &str = "given up";
/// How often to look whether those who are waited for are alive.
const SLICE: Duration = Duration::from_millis(100);
/// How long to wait for the word of a rank that has closed its door.
const A_MOMENT: Duration = Duration::from_secs(1);
