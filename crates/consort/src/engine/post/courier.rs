//! Messages that are sent and received in the background.
//!
//! The courier has them on its desk. Whoever gives it one goes on with that as far as it can, at
//! once: most messages need not wait. What has to wait is seen to by the progress thread, beside
//! the calls of all groups, or by threads that wait for one of them: as long as there are such, the
//! progress thread leaves the desk to them. Nobody keeps the desk while it waits.
//!
//! Messages of one thread do not overtake each other. To a rank they go in the order in which the
//! courier was given them; a blocking one goes behind those that were there before it. What comes
//! from a rank is for the first that asked for it, by sender or for anybody's; blocking calls leave
//! to the courier what it was asked for.

mod arrivals;
mod awaited;
mod desk;
mod precedence;
#[cfg(test)]
mod tests;
mod trouble;

use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use consort_sys::wait::Patience;

use self::desk::{Desk, Ended};
use super::{Post, lock};
use crate::delivery::Delivery;
use crate::engine::progress::{self, Charge, LOOK_ROUND, Went};
use crate::engine::queue::Queue;
use crate::engine::sleep::Rest;
use crate::error::Error;
use crate::group::Job as Membership;

/// The courier of a group.
#[derive(Debug)]
pub(crate) struct Courier {
    post: Arc<Post>,
    state: Mutex<State>,
    /// How the progress thread waits for this group's ranks.
    patience: Patience,
}

#[derive(Debug)]
struct State {
    desk: Desk,
    /// Whether the progress thread sees to the desk, or will.
    attended: bool,
    /// Whether the progress thread counts this courier among those it is there for.
    served: bool,
    /// How many threads see to the desk while they wait.
    helpers: usize,
    /// What has to be left once the desk is empty, if nobody else holds the group.
    orphaned: Option<(Arc<Queue>, Arc<Membership>)>,
}

impl Courier {
    pub(crate) fn new(post: Arc<Post>, patience: Patience) -> Arc<Self> {
        let desk = Desk::new(post.lookout.world());
        let state = State { desk, attended: false, served: false, helpers: 0, orphaned: None };
        Arc::new(Self { post, state: Mutex::new(state), patience })
    }

    /// Takes a checked message.
    pub(crate) fn submit(self: &Arc<Self>, delivery: Delivery) {
        if let Some(error) = self.post.lookout.error() {
            return delivery.finish(Err(error));
        }
        let mut state = lock(&self.state);
        if !state.served {
            if let Err(error) = progress::serve() {
                drop(state);
                return delivery.finish(Err(Error::Thread(error.into())));
            }
            state.served = true;
        }
        state.desk.add(&self.post, delivery);
        self.call_for_attention(&mut state);
        self.conclude(state);
    }

    /// Sees to the desk on this thread until `is_done`.
    pub(crate) fn help(self: &Arc<Self>, is_done: &dyn Fn() -> bool) {
        lock(&self.state).helpers += 1;
        let mut patience = *lock(&self.post.patience);
        let look = || is_done() || self.see_to(lock(&self.state)) || is_done();
        let mut looked_round = Instant::now();
        while !is_done() {
            if looked_round.elapsed() > LOOK_ROUND {
                self.look_round();
                looked_round = Instant::now();
            }
            let waited: Result<(), Infallible> = patience.wait(
                look,
                |limit| self.post.rest.doze(look, limit),
                || {
                    self.look_round();
                    Ok(())
                },
            );
            let Ok(()) = waited;
        }
        *lock(&self.post.patience) = patience;
        let mut state = lock(&self.state);
        state.helpers -= 1;
        self.call_for_attention(&mut state);
    }

    /// Goes on with what can go on, for the progress thread. If there is nothing to do, or others
    /// see to it, the thread has to be called again.
    pub(crate) fn go_on(&self) -> Went {
        let mut state = lock(&self.state);
        if state.desk.is_empty() || state.helpers > 0 {
            state.attended = false;
            return Went::ToTheEnd;
        }
        if self.see_to(state) { Went::Further } else { Went::Nowhere }
    }

    /// Gives up what there is no use in waiting for.
    pub(crate) fn look_round(&self) {
        let mut state = lock(&self.state);
        state.desk.look_round(&self.post);
        self.conclude(state);
    }

    /// What is rung when something can go on.
    pub(crate) fn rest(&self) -> &Rest {
        &self.post.rest
    }

    pub(crate) fn patience(&self) -> Patience {
        self.patience
    }

    /// Leaves the group: at once, or when what is on its way is done. Nobody makes calls any more.
    pub(crate) fn close(&self, queue: &Arc<Queue>, membership: &Arc<Membership>) {
        let mut state = lock(&self.state);
        if !state.desk.is_empty() {
            state.orphaned = Some((queue.clone(), membership.clone()));
            return;
        }
        state.stop_serving();
        drop(state);
        queue.close(membership.clone());
    }

    /// Goes on with what can go on. Whether something has moved.
    fn see_to<'a>(&'a self, mut state: MutexGuard<'a, State>) -> bool {
        let moved = state.desk.go_on(&self.post);
        self.conclude(state);
        moved
    }

    fn call_for_attention(self: &Arc<Self>, state: &mut State) {
        if !state.desk.is_empty() && state.helpers == 0 && !state.attended {
            state.attended = true;
            progress::attend(Charge::Messages(self.clone()));
        }
    }

    /// Tells what came of messages that have ended, when the desk is free for others; and leaves the
    /// group if they were the last and nobody holds it.
    fn conclude<'a>(&'a self, mut state: MutexGuard<'a, State>) {
        let mut some_ended = false;
        // One after the other: who hears of one may wait for the next, and finds it here.
        while let Some(ended) = state.desk.next_ended() {
            some_ended = true;
            drop(state);
            finish(ended);
            state = lock(&self.state);
        }
        if !some_ended {
            return;
        }
        let orphaned = if state.desk.is_empty() { state.orphaned.take() } else { None };
        if orphaned.is_some() {
            state.stop_serving();
        }
        drop(state);
        // Somebody else may have waited for one of them.
        self.post.rest.ring();
        if let Some((queue, membership)) = orphaned {
            progress::let_go(membership.clone());
            queue.close(membership);
        }
    }
}

impl State {
    fn stop_serving(&mut self) {
        if std::mem::take(&mut self.served) {
            progress::stop_serving();
        }
    }
}

/// What goes wrong in somebody's code is no business of whoever carries out its message.
fn finish((delivery, result): Ended) {
    if catch_unwind(AssertUnwindSafe(|| delivery.finish(result))).is_err() {
        tracing::error!("an asynchronous message has panicked");
    }
}
