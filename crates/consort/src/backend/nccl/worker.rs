//! The thread that carries out what was submitted.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, ThreadId};
use std::time::Duration;

use consort_sys::origin::Own;

use super::order::Place;
use super::{Inner, LINGER, Office, lock};
use crate::job::{Job, Lists};

/// The way to a thread that carries out calls.
#[derive(Debug)]
pub(super) struct Worker {
    jobs: Sender<(Place, Job)>,
    /// It ends when the thread does.
    ended: Receiver<()>,
    thread: ThreadId,
}

impl Worker {
    fn start(inner: Arc<Own<Inner>>) -> std::io::Result<Self> {
        let ((jobs, receiver), (tell, ended)) = (channel(), channel());
        let name = "consort-device".to_owned();
        let begun = thread::Builder::new().name(name).spawn(move || {
            work(&inner, receiver);
            drop((inner, tell));
        })?;
        Ok(Self { jobs, ended, thread: begun.thread().id() })
    }

    /// The one that there is, or else one that is started.
    fn of<'a>(there: &'a mut Option<Self>, inner: &Arc<Own<Inner>>) -> std::io::Result<&'a Self> {
        let worker = match there.take() {
            Some(worker) => worker,
            None => Self::start(inner.clone())?,
        };
        Ok(there.insert(worker))
    }
}

impl Office {
    /// Gives a job a place, and hands it to the thread that carries them out. Says which number its first call has.
    pub(super) fn hand_over(&self, mut job: Job) -> u64 {
        // The thread waits for the turn of whatever comes to it next: so nobody who has a later place may send first.
        let mut worker = lock(&self.worker);
        let (order, calls) = (&self.inner.order, job.count() as u64);
        let place = order.join(calls, job.deadline());
        let number = place.number;
        job.accept(number);
        match Worker::of(&mut worker, &self.inner) {
            Ok(worker) => {
                self.inner.lookout.diary().queue(number + calls - 1);
                // A thread that has ended drops what it is sent, which then counts as failed.
                let _ = worker.jobs.send((place, job));
            }
            Err(error) => {
                drop(worker);
                order.give_up(place);
                // It counts as failed, and whoever hears of that may call again.
                drop(job);
                let reason = format!("cannot start the thread for device calls: {error}");
                self.inner.lookout.abort(&reason);
            }
        }
        number
    }
}

impl Drop for Office {
    /// A thread that has nothing to do ends before what it works with: otherwise that would end on the thread, and the
    /// process perhaps before it.
    fn drop(&mut self) {
        let Some(Worker { jobs, ended, thread }) = lock(&self.worker).take() else { return };
        drop(jobs);
        // The last hold on the group may be let go by a call that this very thread has just carried out.
        if self.inner.order.is_idle() && thread::current().id() != thread {
            let _ = ended.recv_timeout(LINGER);
        }
    }
}

/// Carries out jobs one after the other, until all are done and nobody can send any more: also when the last
/// hold on the group was let go.
fn work(inner: &Inner, jobs: Receiver<(Place, Job)>) {
    for (place, job) in jobs {
        // What goes wrong in somebody's buffer goes wrong in its own call, and in its group.
        if catch_unwind(AssertUnwindSafe(|| carry_out(inner, place, job))).is_err() {
            inner.lookout.abort("an asynchronous call on a device has panicked");
            inner.end();
        }
    }
}

fn carry_out(inner: &Inner, place: Place, mut job: Job) {
    let (first, until) = (place.number, job.deadline());
    let result = inner.take_turn(place, until).and_then(|_turn| {
        inner.lookout.diary().was_queued(job.called().elapsed(), job.site());
        (0..job.count()).zip(first..).try_for_each(|(index, number)| {
            let terms = job.terms(index, until.remaining().unwrap_or(Duration::MAX));
            let streams = job.take_streams(index);
            let mut lists = Lists::default();
            let call = job.call(index, &mut lists);
            inner.carry_out(&call, (terms, streams), number, until)
        })
    });
    job.finish(result);
}
