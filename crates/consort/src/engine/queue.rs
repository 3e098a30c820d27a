//! A group's calls in the order in which they were made, and the one lane they share.
//!
//! Whoever carries out a call has the lane to itself. A blocking call that finds nothing before it
//! keeps the lock while it uses the lane: that is all a blocking call costs. Whoever carries out
//! queued calls takes the lane out of the queue and leaves the lock alone, so that more can be
//! queued meanwhile. It is the progress thread, or a thread that has nothing better to do: one that
//! wants to make a blocking call after them, or that waits for one of them.
//!
//! So the lock is held for long only by a blocking call, and while it is, nothing is queued.
//!
//! The last hold on a group may be let go while queued calls are on their way; then the group is
//! left after the last of them.

mod held;

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use consort_store::Deadline;
use consort_sys::board::Alarm;
use consort_sys::wait::Patience;

use self::held::Held;
pub(crate) use self::held::{Carried, carry_out_here};
use super::lane::Lane;
use super::progress::{self, Charge};
use crate::backend::Terms;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::group::Job as Membership;
use crate::job::Job;

/// The queue.
#[derive(Debug)]
pub(crate) struct Queue {
    desk: Mutex<Desk>,
    /// The lane is back, and nothing is queued.
    free: Condvar,
    alarm: Alarm,
    /// How the progress thread waits for this group's ranks.
    patience: Patience,
}

#[derive(Debug)]
struct Desk {
    /// `None` while somebody carries out a queued call.
    lane: Option<Box<Lane>>,
    jobs: VecDeque<Job>,
    /// The number of the last call that was queued.
    last: u64,
    /// Whether the progress thread sees to this queue, or will.
    attended: bool,
    /// Whether the progress thread counts this queue among those it is there for.
    served: bool,
    /// Until when blocking calls wait behind queued ones.
    waiting: Vec<Deadline>,
    /// What has to be left once nothing is queued any more, if nobody else holds the group.
    orphaned: Option<Arc<Membership>>,
}

impl Queue {
    pub(crate) fn new(lane: Lane, patience: Patience) -> Arc<Self> {
        let alarm = lane.alarm();
        let desk = Desk {
            lane: Some(Box::new(lane)),
            jobs: VecDeque::new(),
            last: 0,
            attended: false,
            served: false,
            waiting: Vec::new(),
            orphaned: None,
        };
        let (desk, free) = (Mutex::new(desk), Condvar::new());
        Arc::new(Self { desk, free, alarm, patience })
    }

    /// Carries out a checked call on this thread, after all that were made before it.
    #[inline]
    pub(crate) fn run(self: &Arc<Self>, call: &Call<'_>, terms: Terms) -> Result<()> {
        let mut desk = self.lock();
        if !desk.is_free() {
            desk = self.catch_up(desk, terms.timeout);
        }
        let lane = desk.lane.as_mut().expect("nobody else has it");
        lane.run(call, terms)
    }

    /// Queues checked calls. Says which of the group's calls the first one is.
    pub(crate) fn submit(self: &Arc<Self>, mut job: Job) -> u64 {
        let mut desk = self.lock();
        let number = desk.made() + 1;
        job.accept(number);
        if !desk.served {
            if let Err(error) = progress::serve() {
                drop(desk);
                // The others are going to wait for this rank's part of the call.
                let error = Error::Thread(error);
                self.abort(&error.to_string());
                job.finish(Err(error));
                return number;
            }
            desk.served = true;
        }
        desk.last = desk.made() + job.count() as u64;
        desk.jobs.push_back(job);
        let attended = std::mem::replace(&mut desk.attended, true);
        drop(desk);
        if !attended {
            progress::attend(Charge::Calls(self.clone()));
        }
        number
    }

    /// Carries out queued calls on this thread, up to this one, unless somebody else is at it.
    pub(crate) fn help(self: &Arc<Self>, number: u64) {
        loop {
            let mut desk = self.lock();
            if desk.jobs.front().is_none_or(|job| job.number() > number) {
                return;
            }
            let Some((held, job)) = self.next_of(&mut desk) else { return };
            drop(desk);
            carry_out_here(held, job, Deadline::never());
        }
    }

    /// The next queued call, with the lane, for the progress thread. If there is none, or somebody
    /// else is at it, the thread has to be called again.
    pub(crate) fn next(self: &Arc<Self>) -> Option<(Held, Job)> {
        let mut desk = self.lock();
        let next = self.next_of(&mut desk);
        desk.attended = next.is_some();
        next
    }

    /// Until when the call that is being carried out may keep others waiting.
    pub(crate) fn patience_of_others(&self) -> Deadline {
        let desk = self.lock();
        let queued = desk.jobs.iter().map(Job::deadline);
        queued.chain(desk.waiting.iter().copied()).fold(Deadline::never(), Deadline::min)
    }

    pub(crate) fn patience(&self) -> Patience {
        self.patience
    }

    /// How many calls were made.
    pub(crate) fn calls(&self) -> u64 {
        self.lock().made()
    }

    /// Ends the group, even if a call is being carried out.
    pub(crate) fn abort(&self, reason: &str) {
        self.alarm.halt(reason);
    }

    /// Leaves the group: at once, or when what is queued is done. Nobody makes calls any more.
    pub(crate) fn close(&self, membership: Arc<Membership>) {
        let mut desk = self.lock();
        if !desk.is_free() {
            desk.orphaned = Some(membership);
            return;
        }
        desk.leave(&membership);
        // Letting go of it may take a while.
        drop(desk);
    }

    /// Waits until nothing is before a blocking call, and helps with it.
    #[cold]
    fn catch_up<'a>(
        self: &'a Arc<Self>,
        mut desk: MutexGuard<'a, Desk>,
        timeout: Duration,
    ) -> MutexGuard<'a, Desk> {
        let until = Deadline::after(timeout);
        desk.waiting.push(until);
        while !desk.is_free() {
            match self.next_of(&mut desk) {
                Some((held, job)) => {
                    drop(desk);
                    carry_out_here(held, job, until);
                    desk = self.lock();
                }
                None => desk = self.free.wait(desk).unwrap_or_else(PoisonError::into_inner),
            }
        }
        let mine = desk.waiting.iter().position(|it| *it == until);
        desk.waiting.swap_remove(mine.expect("it was put there above"));
        desk
    }

    fn next_of(self: &Arc<Self>, desk: &mut Desk) -> Option<(Held, Job)> {
        if desk.jobs.is_empty() {
            return None;
        }
        let lane = desk.lane.take()?;
        Some((Held::new(self.clone(), lane), desk.jobs.pop_front()?))
    }

    /// Takes the lane back from whoever carried out a queued call, and does `settle` in the same
    /// moment.
    fn take_back(self: &Arc<Self>, lane: Box<Lane>, settle: &mut dyn FnMut()) {
        let mut desk = self.lock();
        desk.lane = Some(lane);
        settle();
        if !desk.jobs.is_empty() {
            if !std::mem::replace(&mut desk.attended, true) {
                drop(desk);
                progress::attend(Charge::Calls(self.clone()));
            }
        } else if let Some(membership) = desk.orphaned.take() {
            progress::let_go(membership.clone());
            desk.leave(&membership);
        } else if !desk.waiting.is_empty() {
            self.free.notify_all();
        }
    }

    #[inline]
    fn lock(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Desk {
    #[inline]
    fn is_free(&self) -> bool {
        self.jobs.is_empty() && self.lane.is_some()
    }

    /// Nothing is queued, and nobody makes calls any more.
    fn leave(&mut self, membership: &Membership) {
        if let (Some(lane), Some(neighbourhood)) = (self.lane.take(), &membership.neighbourhood) {
            neighbourhood.take_back(lane);
        }
        if std::mem::take(&mut self.served) {
            progress::stop_serving();
        }
    }

    /// How many calls were made, carried out or not.
    fn made(&self) -> u64 {
        self.last.max(self.lane.as_ref().map_or(0, |lane| lane.number()))
    }
}
