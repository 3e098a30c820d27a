//! Who waits for the device, and notices what it cannot.

use std::thread;
use std::time::{Duration, Instant};

use super::{Inner, Wait};
use crate::device::Event;
use crate::engine::{Cause, Stakes, Stuck, Waiting};
use crate::error::{Error, Result};
use crate::nccl::{Code, Comm};

impl Inner {
    /// Waits until the device is done with something that a communicator of the group's does.
    ///
    /// # Errors
    /// When it fails, when a rank has died, when the time is up, and when somebody has ended the group. The
    /// device does nothing more for the group then.
    pub(super) fn watch(&self, comm: &Comm, event: &Event, wait: &Wait<'_>) -> Result<()> {
        let watched = self.watch_closely(comm, event, wait);
        if watched.is_err() {
            self.await_aftermath(event);
        }
        watched
    }

    /// Waits until the device does nothing any more of what it was given by a call that has failed: the communicator
    /// was aborted, which ends it soon, not at once.
    #[cold]
    pub(super) fn clear_away(&self) {
        if let Ok(event) = self.stream.record() {
            self.await_aftermath(&event);
        }
    }

    /// Waits for what the device was given before the communicator was aborted. A device that does not even end then may
    /// never do so, and nobody waits for ever.
    #[cold]
    fn await_aftermath(&self, event: &Event) {
        if !happens_within(event, AFTERMATH) {
            tracing::error!(
                "rank {} of group {}: device {} goes on with a call that was aborted {AFTERMATH:?} ago: what it writes to \
                 must not be used for anything else before the process has ended",
                self.me,
                self.control.name(),
                self.device.number()
            );
        }
    }

    fn watch_closely(&self, comm: &Comm, event: &Event, wait: &Wait<'_>) -> Result<()> {
        let began = Instant::now();
        let (mut looked_round, mut in_doubt) = (began, None);
        while !event.has_happened().map_err(|error| self.fail(&error))? {
            if looked_round.elapsed() > LOOK_ROUND {
                self.look_round(comm, wait, &mut in_doubt)?;
                looked_round = Instant::now();
            }
            match began.elapsed() {
                soon if soon < SOON => thread::yield_now(),
                late if late < LATE => thread::sleep(NAP),
                _ => thread::sleep(SLEEP),
            }
        }
        // What the device was doing when the communicator was aborted has ended, too.
        match self.lookout.error() {
            Some(error) => Err(error),
            None => self.ask_nccl(comm),
        }
    }

    /// Whether to wait on. Somebody may have ended after it had done its part: then the device is done soon,
    /// and it is `in_doubt` since when that should be.
    fn look_round(&self, comm: &Comm, wait: &Wait<'_>, in_doubt: &mut Option<Doubt>) -> Result<()> {
        self.lookout.listen();
        let doubt = self.without(wait).map(|(rank, time)| match in_doubt.take() {
            Some(known) if (known.rank, known.time) == (rank, time) => known,
            _ => Doubt { rank, time, since: Instant::now() },
        });
        let judged = match &doubt {
            Some(doubt) if doubt.is_settled() => self.lookout.judge(&[doubt.rank], || false),
            Some(_) => self.lookout.judge(&[], || false),
            None => self.lookout.judge(&[], || wait.until.has_passed()),
        };
        *in_doubt = doubt;
        match judged {
            Err(stuck) => Err(self.give_up_on(stuck, wait)),
            Ok(()) => self.ask_nccl(comm),
        }
    }

    /// A rank that does nothing more for a call as its process has ended, and how long the others may take to be done if
    /// it has done its part.
    fn without(&self, wait: &Wait<'_>) -> Option<(usize, Duration)> {
        if let Some(rank) = self.others().find(|&rank| self.lookout.is_gone(rank)) {
            return Some((rank, LAST_BREATH));
        }
        // Who has left in good order may have let go of the call before the device was done with it. If one rank of a
        // call for all is done, the others will be soon; of others a rank may be done long before all have begun.
        let left = self.others().find(|&rank| wait.is_for_all && self.lookout.is_dead(rank));
        left.map(|rank| (rank, if wait.until.has_passed() { LAST_BREATH } else { LAST_DATA }))
    }

    fn others(&self) -> impl Iterator<Item = usize> {
        let me = self.me;
        (0..self.world).filter(move |&rank| rank != me)
    }

    /// Ends the group because NCCL did not come to an end in time, unless there is a reason for that.
    #[cold]
    pub(super) fn too_late(&self, wait: &Wait<'_>) -> Error {
        match self.reason_elsewhere() {
            Some(known) => {
                self.end();
                known
            }
            None => self.give_up_on(Stuck::Late, wait),
        }
    }

    /// Ends the group because of what its ranks are found to be.
    #[cold]
    fn give_up_on(&self, stuck: Stuck, wait: &Wait<'_>) -> Error {
        let others = self.others().collect();
        let error = self.lookout.give_up(stuck, wait.waiting(), others, Stakes::Group);
        self.end();
        error
    }

    /// Whether NCCL knows of nothing that has failed.
    fn ask_nccl(&self, comm: &Comm) -> Result<()> {
        match comm.async_error() {
            Ok(Code::SUCCESS | Code::IN_PROGRESS) => Ok(()),
            Ok(code) => Err(self.give_up(format!("NCCL has failed on the way: {code}"))),
            Err(error) => Err(self.give_up(error.to_string())),
        }
    }

    /// Ends the group because of what NCCL or the device says, unless that follows from something else.
    #[cold]
    pub(super) fn give_up(&self, found: String) -> Error {
        let known = self.reason_elsewhere();
        let error = known.unwrap_or_else(|| self.lookout.decide(Cause::Unable { reason: found }));
        self.end();
        error
    }

    /// Why the group has ended, or a rank that has died: NCCL may notice that first, and cannot say who.
    fn reason_elsewhere(&self) -> Option<Error> {
        let began = Instant::now();
        loop {
            self.lookout.listen();
            let found = self
                .lookout
                .error()
                .or_else(|| self.lookout.look_round(|| Waiting::beside(AT_WORK)));
            if found.is_some() || began.elapsed() > LAST_BREATH {
                return found;
            }
            thread::sleep(SLEEP);
        }
    }
}

/// A rank that has ended, and may have done its part of a call before.
struct Doubt {
    rank: usize,
    /// How long the others may take then.
    time: Duration,
    since: Instant,
}

impl Doubt {
    /// Whether the rank has not done its part: the others would be done by now.
    fn is_settled(&self) -> bool {
        self.since.elapsed() > self.time
    }
}

/// Waits so long for an event. Says whether it has happened, or cannot any more.
pub(super) fn happens_within(event: &Event, limit: Duration) -> bool {
    let began = Instant::now();
    while matches!(event.has_happened(), Ok(false)) {
        if began.elapsed() > limit {
            return false;
        }
        thread::sleep(NAP);
    }
    true
}

/// What somebody is in to whom NCCL or the device has said that something has failed.
pub(super) const AT_WORK: &str = "a call on devices";
/// How often somebody who waits looks whether to wait on.
pub(super) const LOOK_ROUND: Duration = Duration::from_millis(10);
/// How long it may take until a death is known.
pub(super) const LAST_BREATH: Duration = Duration::from_millis(200);
/// How long devices may take for what is left of a call that one of them is done with.
const LAST_DATA: Duration = Duration::from_secs(5);
/// How long a device may take to end what was aborted.
const AFTERMATH: Duration = Duration::from_secs(10);
/// Most calls are done by then.
const SOON: Duration = Duration::from_micros(200);
/// Few take longer.
const LATE: Duration = Duration::from_millis(10);
const NAP: Duration = Duration::from_micros(50);
const SLEEP: Duration = Duration::from_millis(1);
