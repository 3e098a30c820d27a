//! Who waits for the device, and notices what it cannot.

use std::thread;
use std::time::{Duration, Instant};

use super::{Inner, Wait};
use crate::device::Event;
use crate::engine::{Cause, Stakes};
use crate::error::Result;
use crate::nccl::Code;

impl Inner {
    /// Waits until the device is done with a call.
    ///
    /// # Errors
    /// When it fails, when a rank has died, when the time is up, and when somebody has ended the group. The
    /// device does nothing more for the group then.
    pub(super) fn watch(&self, event: &Event, wait: &Wait<'_>) -> Result<()> {
        let began = Instant::now();
        let mut looked_round = began;
        while !event.has_happened().map_err(|error| self.fail(&error))? {
            if looked_round.elapsed() > LOOK_ROUND {
                self.look_round(wait)?;
                looked_round = Instant::now();
            }
            match began.elapsed() {
                soon if soon < SOON => thread::yield_now(),
                late if late < LATE => thread::sleep(NAP),
                _ => thread::sleep(SLEEP),
            }
        }
        Ok(())
    }

    /// Whether to wait on.
    fn look_round(&self, wait: &Wait<'_>) -> Result<()> {
        match self.comm.async_error() {
            Ok(Code::SUCCESS | Code::IN_PROGRESS) => {}
            // Somebody has ended the group, and says why.
            Err(_) | Ok(_) if self.lookout.has_ended() => {}
            Ok(code) => {
                let reason = format!("NCCL has failed on the way: {code}");
                return Err(self.decide(Cause::Unable { reason }));
            }
            Err(error) => return Err(self.fail(&error)),
        }
        self.lookout.listen();
        let others = (0..self.world).filter(|&rank| rank != self.me);
        for rank in others {
            if let Err(stuck) = self.lookout.judge(&[rank], || wait.until.has_passed()) {
                let missing = [rank].into_iter().collect();
                let error = self.lookout.give_up(stuck, wait.waiting(), missing, Stakes::Group);
                self.end();
                return Err(error);
            }
        }
        match self.lookout.judge(&[], || wait.until.has_passed()) {
            Ok(()) => Ok(()),
            Err(stuck) => {
                let everyone = (0..self.world).collect();
                let error = self.lookout.give_up(stuck, wait.waiting(), everyone, Stakes::Group);
                self.end();
                Err(error)
            }
        }
    }
}

/// How often somebody who waits looks whether to wait on.
const LOOK_ROUND: Duration = Duration::from_millis(10);
/// Most calls are done by then.
const SOON: Duration = Duration::from_micros(200);
/// Few take longer.
const LATE: Duration = Duration::from_millis(10);
const NAP: Duration = Duration::from_micros(50);
const SLEEP: Duration = Duration::from_millis(1);
