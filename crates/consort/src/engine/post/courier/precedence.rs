//! What blocking calls have to know of the courier's messages, so that they stay behind them.

use std::sync::Mutex;

use super::awaited::Sender;
use crate::engine::post::inbox::Inbox;
use crate::engine::post::outbox::Dispatch;
use crate::engine::post::{Post, lock};

impl Post {
    /// A message to a rank is behind all that the courier was given for it before.
    pub(super) fn queue(&self, to: usize, dispatch: &mut Dispatch) {
        lock(&self.outboxes[to]).queue(dispatch);
    }

    /// Which message the courier has to send to a rank next. Nobody waits for earlier ones.
    pub(super) fn let_pass(&self, to: usize, next: Option<&Dispatch>) {
        lock(&self.outboxes[to]).let_pass(next);
        self.rest.ring();
    }

    /// Leaves a message with this tag to the courier.
    pub(super) fn bespeak(&self, from: Sender, tag: u32) {
        self.inboxes_of(from).iter().for_each(|inbox| lock(inbox).bespeak(tag));
    }

    /// The courier waits for one message less.
    pub(super) fn release(&self, from: Sender, tag: u32) {
        self.inboxes_of(from).iter().for_each(|inbox| lock(inbox).release(tag));
        self.rest.ring();
    }

    fn inboxes_of(&self, from: Sender) -> &[Mutex<Inbox>] {
        match from {
            Some(from) => &self.inboxes[from..=from],
            None => &self.inboxes,
        }
    }
}
