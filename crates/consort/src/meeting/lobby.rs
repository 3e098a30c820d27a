//! Where processes wait that want to join a job that runs.
//!
//! ```text
//!  newcomer                    store                        first rank of the group
//!  leaves a ticket  ─────────▶ queue of tickets ──────────▶ takes them
//!  comes up         ◀───────── called/ticket    ◀────────── calls each
//!                   ─────────▶ here/ticket      ──────────▶ waits a little for each
//!  knows its rank   ◀───────── welcome/ticket   ◀────────── says who it is, and in which meeting
//! ```
//!
//! One that has died while it waited is called in vain, and holds up the others for a moment only.

use std::sync::Arc;
use std::time::Duration;

use consort_store::{Deadline, Error as StoreError, Store};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::verdict::{decode, encode};

/// The lobby of a round of a job.
#[derive(Clone, Debug)]
pub(crate) struct Lobby {
    store: Arc<dyn Store>,
}

/// One who has come up.
#[derive(Debug)]
pub(crate) struct Ticket(String);

/// What a newcomer is told, and comes to the meeting with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Welcome {
    pub(crate) rank: u32,
    pub(crate) world: u32,
    /// Which enlargement of the job it is.
    pub(crate) growth: u32,
}

impl Lobby {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Waits to be taken in.
    ///
    /// # Errors
    /// When nobody does in time, and when the store is gone.
    pub(super) fn enter(&self, until: Deadline) -> Result<Welcome> {
        let ticket = format!("{:016x}", getrandom::u64().map_err(|_| no_randomness())?);
        self.store.push(TICKETS, ticket.as_bytes())?;
        self.store.get(&called(&ticket), until)?;
        self.store.set(&here(&ticket), b"")?;
        let welcome = self.store.get(&welcome(&ticket), until)?;
        decode(&welcome).map_err(|what| Error::Argument(format!("the welcome {what}")))
    }

    /// How many wait, dead or alive.
    pub(crate) fn waiting(&self) -> Result<usize> {
        Ok(self.store.queue_len(TICKETS)?)
    }

    /// Calls those who wait. Says who has come up, and which enlargement of the job that is, if somebody
    /// has.
    pub(crate) fn call_in(&self) -> Result<(Vec<Ticket>, u32)> {
        let present = self.call()?;
        let growth = if present.is_empty() { 0 } else { self.next_growth()? };
        Ok((present, growth))
    }

    fn call(&self) -> Result<Vec<Ticket>> {
        let mut tickets = Vec::new();
        loop {
            match self.store.pop(TICKETS, Deadline::now()) {
                Ok(ticket) => tickets.push(String::from_utf8_lossy(&ticket).into_owned()),
                Err(StoreError::Timeout { .. }) => break,
                Err(error) => return Err(error.into()),
            }
        }
        for ticket in &tickets {
            self.store.set(&called(ticket), b"")?;
        }
        let until = Deadline::after(TO_COME_UP);
        let mut present = Vec::new();
        for ticket in tickets {
            match self.store.get(&here(&ticket), until) {
                Ok(_) => present.push(Ticket(ticket)),
                Err(StoreError::Timeout { .. }) => {
                    tracing::warn!(
                        "a process that wanted to join the job does not answer any more"
                    );
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(present)
    }

    fn next_growth(&self) -> Result<u32> {
        let growth = self.store.add(GROWTH, 1)?;
        u32::try_from(growth).map_err(|_| Error::Argument(format!("{growth} is no number")))
    }

    /// Tells those who have come up who they are.
    pub(crate) fn admit(&self, tickets: &[Ticket], first: Welcome) -> Result<()> {
        for (rank, Ticket(ticket)) in (first.rank..).zip(tickets) {
            self.store.set(&welcome(ticket), &encode(&Welcome { rank, ..first }))?;
        }
        Ok(())
    }
}

fn no_randomness() -> Error {
    Error::Argument("the system gives no random numbers".to_owned())
}

fn called(ticket: &str) -> String {
    format!("called/{ticket}")
}

fn here(ticket: &str) -> String {
    format!("here/{ticket}")
}

fn welcome(ticket: &str) -> String {
    format!("welcome/{ticket}")
}

const TICKETS: &str = "tickets";
const GROWTH: &str = "growth";
/// How long one who waits may take to answer.
const TO_COME_UP: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use std::thread;

    use consort_store::MemStore;

    use super::*;

    #[test]
    fn those_who_wait_are_called_and_those_who_have_gone_are_not_waited_for() {
        let store: Arc<dyn Store> = Arc::new(MemStore::new());
        let lobby = Lobby::new(store.clone());
        assert_eq!(lobby.waiting().unwrap(), 0);
        assert!(matches!(lobby.call_in(), Ok((tickets, 0)) if tickets.is_empty()));
        store.push(TICKETS, b"one who has died").unwrap();
        let welcomes = thread::scope(|scope| {
            let enter = || lobby.enter(Deadline::after(Duration::from_secs(60))).unwrap();
            let newcomers = [scope.spawn(enter), scope.spawn(enter)];
            while lobby.waiting().unwrap() < 3 {
                thread::yield_now();
            }
            let (tickets, growth) = lobby.call_in().unwrap();
            assert_eq!(tickets.len(), 2);
            lobby.admit(&tickets, Welcome { rank: 3, world: 5, growth }).unwrap();
            newcomers.map(|newcomer| newcomer.join().unwrap())
        });
        let mut ranks = welcomes.map(|welcome| (welcome.rank, welcome.world, welcome.growth));
        ranks.sort_unstable();
        assert_eq!(ranks, [(3, 5, 1), (4, 5, 1)]);
        assert_eq!(lobby.next_growth().unwrap(), 2);
    }

    #[test]
    fn one_whom_nobody_takes_in_is_told_after_its_time() {
        let lobby = Lobby::new(Arc::new(MemStore::new()));
        let error = lobby.enter(Deadline::after(Duration::from_millis(10))).unwrap_err();
        assert_eq!(error.kind(), consort_store::ErrorKind::Deadline, "{error}");
    }
}
