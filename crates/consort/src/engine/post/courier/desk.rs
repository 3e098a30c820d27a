//! The messages that the courier has to see to.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use consort_sys::ring::Progress;

use super::awaited::Awaited;
use super::trouble::Party;
use crate::delivery::{Delivery, Message};
use crate::engine::post::Post;
use crate::engine::post::exchange::{Stage, envelope};
use crate::engine::post::outbox::Dispatch;
use crate::error::{Error, Result};
use crate::group::Rank;

/// All of them, and how far each has come.
#[derive(Debug)]
pub(super) struct Desk {
    /// By receiver, in the order in which they have to go.
    pub(super) departing: Vec<VecDeque<Departing>>,
    /// Those that have not begun to come.
    pub(super) awaited: Awaited,
    /// By sender, those that have begun to come.
    pub(super) arriving: Vec<Option<Arriving>>,
    /// By receiver, what came of going on last.
    pub(super) to: Vec<Went>,
    /// By sender, what came of going on last.
    pub(super) from: Vec<Went>,
    /// Those that have come to their end since somebody looked last.
    ended: VecDeque<Ended>,
    /// Of whom was said how often that it is waited for.
    pub(super) warned: Vec<(Party, u32)>,
}

/// What came of going on with the messages to a rank or from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Went {
    Nowhere,
    /// Nothing can be said of the rank: another thread is in the way.
    HeldUp,
    Further,
}

/// A delivery, and what came of it.
pub(super) type Ended = (Delivery, Result<Option<Rank>>);

#[derive(Debug)]
pub(super) struct Departing {
    pub(super) delivery: Delivery,
    pub(super) dispatch: Dispatch,
}

#[derive(Debug)]
pub(super) struct Arriving {
    pub(super) delivery: Delivery,
    pub(super) stage: Stage,
}

impl Desk {
    pub(super) fn new(world: usize) -> Self {
        Self {
            departing: (0..world).map(|_| VecDeque::new()).collect(),
            awaited: Awaited::new(world),
            arriving: (0..world).map(|_| None).collect(),
            to: vec![Went::Nowhere; world],
            from: vec![Went::Nowhere; world],
            ended: VecDeque::new(),
            warned: Vec::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.awaited.is_empty()
            && self.arriving.iter().all(Option::is_none)
            && self.departing.iter().all(VecDeque::is_empty)
    }

    pub(super) fn next_ended(&mut self) -> Option<Ended> {
        self.ended.pop_front()
    }

    /// Takes a message, and goes on with it as far as it can: most need not wait.
    pub(super) fn add(&mut self, post: &Post, mut delivery: Delivery) {
        match delivery.message() {
            Message::Out(message) => {
                let to = message.to.index();
                let mut dispatch = Dispatch::new(envelope(&message));
                post.queue(to, &mut dispatch);
                self.departing[to].push_back(Departing { delivery, dispatch });
                self.send_to(post, to);
            }
            Message::In(message) => {
                let (from, tag) = (message.from.map(Rank::index), message.tag.get());
                post.bespeak(from, tag);
                self.awaited.add(from, tag, delivery);
                match from {
                    Some(from) => drop(self.receive_from(post, from)),
                    None => self.receive(post),
                }
            }
        }
    }

    /// Goes on with every message that can, each at most as far as a ring reaches. Whether something
    /// has moved.
    pub(super) fn go_on(&mut self, post: &Post) -> bool {
        for to in 0..self.to.len() {
            self.to[to] = self.send_to(post, to);
        }
        self.receive(post);
        self.to.contains(&Went::Further) || self.from.contains(&Went::Further)
    }

    fn send_to(&mut self, post: &Post, to: usize) -> Went {
        let Some(Departing { delivery, dispatch }) = self.departing[to].front_mut() else {
            return Went::Nowhere;
        };
        let progress = undisturbed(post, delivery, |message| match message {
            Message::Out(message) => post.send(message, dispatch),
            Message::In(_) => unreachable!("a message stays the same"),
        });
        match progress {
            Ok(Progress::Stuck) if dispatch.is_held_up() => return Went::HeldUp,
            Ok(Progress::Stuck) => return Went::Nowhere,
            Ok(Progress::Moved) => delivery.begin(),
            Ok(Progress::Done) => {
                delivery.begin();
                self.end_first(post, to, Ok(None));
            }
            Err(error) => self.end_first(post, to, Err(error)),
        }
        Went::Further
    }

    fn end_first(&mut self, post: &Post, to: usize, result: Result<Option<Rank>>) {
        if let Some(Departing { delivery, .. }) = self.departing[to].pop_front() {
            self.end(delivery, result);
        }
        post.let_pass(to, self.departing[to].front().map(|next| &next.dispatch));
    }

    /// What came of it is told when the desk is free again: those who hear of it may come back.
    pub(super) fn end(&mut self, delivery: Delivery, result: Result<Option<Rank>>) {
        self.ended.push_back((delivery, result));
    }
}

/// Does something with a message. What goes wrong in somebody's buffer goes wrong in its own
/// message, and in its group, but not in whoever carries it out.
pub(super) fn undisturbed<R>(
    post: &Post,
    delivery: &mut Delivery,
    act: impl FnOnce(Message<'_>) -> Result<R>,
) -> Result<R> {
    let done = catch_unwind(AssertUnwindSafe(|| act(delivery.message())));
    done.unwrap_or_else(|_| {
        tracing::error!("an asynchronous message has panicked");
        post.lookout.abort("an asynchronous message has panicked");
        Err(Error::Abandoned { operation: delivery.operation() })
    })
}
