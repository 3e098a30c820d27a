//! Messages that come.

use consort_sys::ring::Progress;

use super::desk::{Arriving, Desk, Went, undisturbed};
use crate::delivery::Message;
use crate::engine::post::exchange::{Arrival, Stage};
use crate::engine::post::inbox::{Found, Inbox, Looked, Wanted};
use crate::engine::post::{Post, lock};
use crate::error::{Error, Result};
use crate::group::Rank;

impl Desk {
    /// Goes on with what comes from every rank that something is waited for from.
    pub(super) fn receive(&mut self, post: &Post) {
        let (world, first) = (self.from.len(), *lock(&post.next));
        for from in (first..first + world).map(|rank| rank % world) {
            self.from[from] = self.receive_from(post, from);
        }
    }

    /// Goes on with the message that comes from a rank, or finds out whose the next one is.
    pub(super) fn receive_from(&mut self, post: &Post, from: usize) -> Went {
        if self.arriving[from].is_some() {
            return self.go_on_from(post, from, None);
        }
        if !self.awaited.is_awaited(Some(from)) && !self.awaited.is_awaited(None) {
            return Went::Nowhere;
        }
        let look = |inbox: &mut Inbox| inbox.look_for(Wanted::Bespoken);
        match post.with(&post.inboxes, from, look) {
            Ok(Looked::Found(found)) => self.begin_from(post, from, found),
            Ok(Looked::NotYet(Progress::Stuck)) => Went::Nowhere,
            Ok(Looked::Behind(Progress::Stuck)) => Went::HeldUp,
            Ok(Looked::NotYet(_) | Looked::Behind(_)) => Went::Further,
            Err(error) => self.cannot_look(post, from, error),
        }
    }

    /// Begins with a message that was found: it is for the first delivery that it can be for.
    fn begin_from(&mut self, post: &Post, from: usize, found: Found) -> Went {
        let first = self.awaited.take(from, found.tag());
        let (sender, delivery) = first.expect("somebody has bespoken it");
        if sender.is_none() {
            *lock(&post.next) = (from + 1) % self.from.len();
        }
        self.arriving[from] = Some(Arriving { delivery, stage: Stage::Awaited });
        let went = self.go_on_from(post, from, Some(found));
        // Not earlier: nobody else may take it meanwhile.
        post.release(sender, found.tag());
        went
    }

    /// Goes on with a message that has just been found, or was before.
    fn go_on_from(&mut self, post: &Post, from: usize, found: Option<Found>) -> Went {
        let Some(Arriving { delivery, stage }) = &mut self.arriving[from] else {
            return Went::Nowhere;
        };
        let mut outcome = Ok(None);
        let progress = undisturbed(post, delivery, |message| {
            let Message::In(message) = message else {
                unreachable!("a message stays the same");
            };
            let mut arrival = Arrival::at(*stage, message);
            let progress = post.with(&post.inboxes, from, |inbox| match found {
                Some(found) => inbox.take(found, &mut arrival),
                None => inbox.go_on(&mut arrival),
            })?;
            *stage = arrival.stage();
            if progress == Progress::Done {
                outcome = post.outcome(&arrival);
            }
            Ok(progress)
        });
        match progress {
            Ok(Progress::Stuck) => return Went::Nowhere,
            Ok(Progress::Moved) => delivery.begin(),
            Ok(Progress::Done) => {
                delivery.begin();
                self.end_arriving(from, outcome);
            }
            Err(error) => self.end_arriving(from, Err(error)),
        }
        Went::Further
    }

    fn end_arriving(&mut self, from: usize, outcome: Result<Option<usize>>) {
        if let Some(Arriving { delivery, .. }) = self.arriving[from].take() {
            self.end(delivery, outcome.map(|from| from.map(|rank| Rank(rank as u32))));
        }
    }

    /// The first one that waits for a rank is told why its message cannot be got at.
    fn cannot_look(&mut self, post: &Post, from: usize, error: Error) -> Went {
        let Some((tag, sender, delivery)) = self.awaited.take_first(from) else {
            return Went::Nowhere;
        };
        post.release(sender, tag);
        self.end(delivery, Err(error));
        Went::Further
    }
}
