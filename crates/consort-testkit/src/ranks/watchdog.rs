//! The limit that every job has.

use std::os::fd::OwnedFd;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::process::{Signal, pidfd_send_signal};

/// Kills all ranks when the limit comes, whatever the test is doing at that moment.
#[derive(Debug)]
pub(crate) struct Watchdog {
    limit: Duration,
    expired: Arc<Mutex<bool>>,
    _ended: Sender<()>,
}

impl Watchdog {
    pub(crate) fn start(limit: Duration, ranks: Vec<Arc<OwnedFd>>) -> Self {
        let expired = Arc::new(Mutex::new(false));
        let (ended, has_ended) = channel::<()>();
        let flag = expired.clone();
        thread::spawn(move || {
            if has_ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                *flag.lock().unwrap_or_else(PoisonError::into_inner) = true;
                for rank in ranks {
                    let _ = pidfd_send_signal(&*rank, Signal::KILL);
                }
            }
        });
        Self { limit, expired, _ended: ended }
    }

    /// The limit, if it has come.
    pub(crate) fn has_expired(&self) -> Option<Duration> {
        let expired = *self.expired.lock().unwrap_or_else(PoisonError::into_inner);
        expired.then_some(self.limit)
    }
}
