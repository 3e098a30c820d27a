//! The thread that stands at the door.
//!
//! A rank that computes waits for nothing, and would keep those waiting who want to connect to it: they
//! could not even leave a message. So one thread sleeps on the listening socket, and on those who are
//! introducing themselves. It touches no data.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Switch;
use super::signal::Signal;

/// That thread, for whoever ends it.
#[derive(Debug)]
pub(super) struct Porter(Arc<Signal>);

impl Porter {
    /// # Errors
    /// When the system gives no more threads, or descriptors.
    pub(super) fn hire(switch: &Arc<Switch>) -> io::Result<Self> {
        let signal = Arc::new(Signal::new()?);
        let (switch, end) = (switch.clone(), signal.clone());
        let stand = move || while stand_once(&switch, &end) {};
        thread::Builder::new().name("consort-door".to_owned()).spawn(stand)?;
        Ok(Self(signal))
    }

    /// Ends it, soon.
    pub(super) fn leave(&self) {
        self.0.ring();
    }
}

/// Waits for somebody to come, and takes them in. Whether to go on.
fn stand_once(switch: &Switch, end: &Signal) -> bool {
    let (ways_in, callers) = {
        let hub = switch.lock();
        (hub.door.ways_in(), hub.door.callers().cloned().collect::<Vec<_>>())
    };
    let mut list = vec![PollFd::new(end, PollFlags::IN)];
    if let Some((listener, hatch)) = &ways_in {
        list.push(PollFd::new(listener, PollFlags::IN));
        list.extend(hatch.iter().map(|hatch| PollFd::new(hatch, PollFlags::IN)));
    }
    list.extend(callers.iter().map(|caller| PollFd::new(caller, PollFlags::IN)));
    // Those who take too long to introduce themselves are turned away, and a shut door opens again.
    let limit = if callers.is_empty() && ways_in.is_some() { IDLE } else { HURRY };
    let limit = Timespec { tv_sec: limit.as_secs() as _, tv_nsec: 0 };
    if let Err(error) = poll(&mut list, Some(&limit))
        && error != rustix::io::Errno::INTR
    {
        tracing::error!("nobody stands at the door any more: {error}");
        return false;
    }
    if list[0].revents().contains(PollFlags::IN) {
        return false;
    }
    let mut hub = switch.lock();
    switch.open_door(&mut hub);
    true
}

const IDLE: Duration = Duration::from_secs(3600);
const HURRY: Duration = Duration::from_secs(1);
