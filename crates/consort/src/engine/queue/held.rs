//! Queued calls, and the road in the hands of whoever carries them out.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use consort_store::Deadline;

use super::Queue;
use crate::engine::pace::Notes;
use crate::engine::road::Road;
use crate::error::Result;
use crate::job::{Job, Lists};

/// A road that was taken out of its queue, and goes back in any case. If that is not because its
/// call is done, the group ends.
#[derive(Debug)]
pub(crate) struct Held {
    queue: Arc<Queue>,
    /// `None` when it was given back.
    road: Option<Road>,
}

impl Held {
    pub(super) fn new(queue: Arc<Queue>, road: Road) -> Self {
        Self { queue, road: Some(road) }
    }

    /// Writes down where the call that comes next was made, and how long it was queued.
    fn note_wait(&self, job: &Job) {
        self.queue.lookout.diary().was_queued(job.called().elapsed(), job.site());
    }

    fn road(&mut self) -> &mut Road {
        self.road.as_mut().expect("it is held until the end")
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(road) = self.road.take() {
            self.queue.abort("an asynchronous call has panicked");
            self.queue.take_back(road, &mut || {});
        }
    }
}

/// Carries out queued calls on this thread. They wait as long as they may themselves, but no longer
/// than `until`.
pub(crate) fn carry_out_here(mut held: Held, mut job: Job, until: Deadline) {
    undisturbed(move || {
        let (until, line) = (until.min(job.deadline()), held.queue.clone());
        let mut result = Ok(());
        for index in 0..job.count() {
            let mut lists = Lists::default();
            held.note_wait(&job);
            let left = until.remaining().unwrap_or(Duration::MAX);
            let terms = job.terms(index, left);
            let call = job.call(index, &mut lists);
            result = held.road().run(&call, terms, Some(&line)).map(drop);
            if result.is_err() {
                break;
            }
        }
        finish(held, job, result);
    });
}

/// Queued calls on their way, which let their thread do something else when they have to wait.
pub(crate) struct Carried {
    call: Pin<Box<dyn Future<Output = ()>>>,
    notes: Rc<Notes>,
    until: Deadline,
}

impl Carried {
    pub(crate) fn new(held: Held, job: Job) -> Self {
        let until = job.deadline();
        let notes = Rc::new(Notes::new(until));
        Self { call: Box::pin(carry_out(held, job, notes.clone())), notes, until }
    }

    /// Goes on as far as it can. Says whether it is done.
    pub(crate) fn go_on(&mut self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        let mut done = true;
        undisturbed(|| done = self.call.as_mut().poll(&mut context).is_ready());
        done
    }

    /// How it waits.
    pub(crate) fn notes(&self) -> &Notes {
        &self.notes
    }

    /// When it has to be done.
    pub(crate) fn deadline(&self) -> Deadline {
        self.until
    }
}

async fn carry_out(mut held: Held, mut job: Job, notes: Rc<Notes>) {
    let mut result = Ok(());
    for index in 0..job.count() {
        let mut lists = Lists::default();
        held.note_wait(&job);
        // How long it may take is in the notes.
        let terms = job.terms(index, Duration::ZERO);
        let call = job.call(index, &mut lists);
        result = held.road().run_elsewhere(&call, terms, &notes).await;
        if result.is_err() {
            break;
        }
    }
    finish(held, job, result);
}

/// In the moment in which the result is known the road is free: who makes a blocking call finds
/// what was before it done, and who hears that it is done can let go of the group.
fn finish(mut held: Held, job: Job, result: Result<()>) {
    job.finish_within(result, |settle| {
        if let Some(road) = held.road.take() {
            held.queue.take_back(road, settle);
        }
    });
}

/// What goes wrong in somebody's buffer goes wrong in its own call, and in its group, but not in
/// whoever carries it out.
fn undisturbed(run: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(run)).is_err() {
        tracing::error!("an asynchronous call has panicked");
    }
}
