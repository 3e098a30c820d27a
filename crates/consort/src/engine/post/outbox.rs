//! What goes to one rank.

use consort_sys::ring::{Outlet, Progress, RingError, Sending};

/// The ring to another rank, which several threads may want to use.
#[derive(Debug)]
pub(super) struct Outbox {
    outlet: Outlet,
    /// Whether a message has begun to go and its thread has yet to send the rest.
    busy: bool,
    /// Whether threads that found it busy should look again.
    news: bool,
}

impl Outbox {
    pub(super) fn new(outlet: Outlet) -> Self {
        Self { outlet, busy: false, news: false }
    }

    /// Sends what can be sent of a message now: nothing while another one is on its way.
    pub(super) fn go_on(&mut self, message: &mut Sending<'_>) -> Result<Progress, RingError> {
        if self.busy && !message.has_begun() {
            return Ok(Progress::Stuck);
        }
        let progress = self.outlet.go_on(message)?;
        if progress == Progress::Done {
            self.news |= std::mem::take(&mut self.busy);
        } else {
            self.busy = message.has_begun();
        }
        Ok(progress)
    }

    pub(super) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.news)
    }

    pub(super) fn abandon(self) {
        self.outlet.abandon();
    }
}
