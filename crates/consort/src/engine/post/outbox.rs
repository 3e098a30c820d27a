//! What goes to one rank.

use consort_sys::ring::{Envelope, Progress};
use consort_sys::view::Source;

use super::News;
use super::ends::{Broken, Outlet, Sending};

/// What leads to another rank, which several threads may want to use.
#[derive(Debug)]
pub(super) struct Outbox {
    /// `None` for this rank itself: what it sends goes into its inbox.
    outlet: Option<Outlet>,
    /// Whether a message has begun to go and its thread has yet to send the rest.
    busy: bool,
    /// How many messages the courier was given.
    given: u64,
    /// How many of them, from the first one on, need not be waited for any more.
    passed: u64,
    /// Whether threads that had to wait should look again.
    news: bool,
}

/// How far a message has come on its way to another rank.
#[derive(Debug)]
pub(super) struct Dispatch {
    sending: Sending,
    /// How many of the courier's messages go before it: those that it was given before. `None` if
    /// nobody has looked so far.
    behind: Option<u64>,
    held_up: bool,
}

impl Dispatch {
    pub(super) fn new(envelope: Envelope) -> Self {
        Self { sending: Sending::Ahead(envelope), behind: None, held_up: false }
    }

    pub(super) fn has_begun(&self) -> bool {
        self.sending.has_begun()
    }

    /// Whether it waits for another message to the same rank, and not for the rank.
    pub(super) fn is_held_up(&self) -> bool {
        self.held_up
    }
}

impl Outbox {
    pub(super) fn new(outlet: Option<Outlet>) -> Self {
        Self { outlet, busy: false, given: 0, passed: 0, news: false }
    }

    /// Takes notice of a message that the courier was given.
    pub(super) fn queue(&mut self, dispatch: &mut Dispatch) {
        dispatch.behind = Some(self.given);
        self.given += 1;
    }

    /// Takes notice of which of its messages the courier has to send next.
    pub(super) fn let_pass(&mut self, next: Option<&Dispatch>) {
        self.passed = next.and_then(|next| next.behind).unwrap_or(self.given);
    }

    /// Sends what can be sent of a message now: nothing while another one is on its way, or has to
    /// go first.
    pub(super) fn go_on(
        &mut self,
        dispatch: &mut Dispatch,
        data: Source<'_>,
    ) -> Result<Progress, Broken> {
        let Dispatch { sending, behind, held_up } = dispatch;
        let behind = *behind.get_or_insert(self.given);
        *held_up = !sending.has_begun() && (self.busy || self.passed < behind);
        if *held_up {
            return Ok(Progress::Stuck);
        }
        let outlet = self.outlet.as_mut().expect("it goes to another rank");
        let progress = outlet.go_on(sending, data)?;
        if progress == Progress::Done {
            self.news |= std::mem::take(&mut self.busy);
        } else {
            self.busy = sending.has_begun();
        }
        Ok(progress)
    }

    /// Whether a rank that has left may have received all of the message that has begun.
    pub(super) fn may_be_done(&mut self) -> bool {
        self.outlet.as_mut().is_some_and(Outlet::may_be_done)
    }

    pub(super) fn abandon(&mut self) {
        self.outlet.iter_mut().for_each(Outlet::abandon);
    }
}

impl News for Outbox {
    fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.news)
    }
}
