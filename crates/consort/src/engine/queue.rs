//! A group's calls in the order in which they were made, and the one road they share.
//!
//! Whoever carries out a call has the road to itself. A blocking call that finds nobody before it
//! passes a [turnstile](consort_sys::turn): that is all a blocking call costs. Everyone else stands
//! in line at the desk, which is locked for moments only, so that calls can be queued and counted
//! whatever somebody is waiting for on the road.
//!
//! Whoever carries out queued calls takes the road out of the turnstile, which stays barred. It is
//! the progress thread, or a thread that has nothing better to do: one that wants to make a blocking
//! call after them, or that waits for one of them.
//!
//! Each call has its own deadline, and those who carry out calls before it keep it as if it were
//! theirs: when it has passed, the group ends.
//!
//! The last hold on a group may be let go while queued calls are on their way; then the group is
//! left after the last of them.

mod desk;
mod held;
mod inside;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use consort_store::Deadline;
use consort_sys::turn::{Turn, Turnstile};
use consort_sys::wait::Patience;

use self::desk::{Desk, Next};
use self::held::Held;
pub(crate) use self::held::{Carried, carry_out_here};
use self::inside::Inside;
use super::lookout::Lookout;
use super::progress::{self, Charge};
use super::road::Road;
use super::sleep::Sleep;
use super::verdict::{Cause, Waiting};
use crate::backend::Terms;
use crate::call::{Call, Operation};
use crate::error::{Error, Result};
use crate::group::Job as Membership;
use crate::job::Job;

/// The queue.
#[derive(Debug)]
pub(crate) struct Queue {
    /// `None` while somebody carries out a queued call. It is barred then, and while somebody is in
    /// line.
    road: Turnstile<Option<Road>>,
    desk: Mutex<Desk>,
    /// It may be the turn of a thread in line.
    free: Condvar,
    lookout: Lookout,
    /// How the progress thread waits for this group's ranks.
    patience: Patience,
    /// Where it sleeps then, if not on a step of a board.
    place: Option<Arc<dyn Sleep>>,
}

impl Queue {
    pub(crate) fn new(road: Road, patience: Patience) -> Arc<Self> {
        let (lookout, place) = (road.lookout().clone(), road.place());
        let road = Turnstile::new(Some(road));
        let (desk, free) = (Mutex::default(), Condvar::new());
        Arc::new(Self { road, desk, free, lookout, patience, place })
    }

    /// Carries out a checked call on this thread, after all that were made before it. Says which of
    /// the group's calls it was.
    #[inline]
    pub(crate) fn run(self: &Arc<Self>, call: &Call<'_>, terms: Terms) -> Result<u64> {
        match self.road.pass() {
            Some(turn) => Inside::new(self, turn).run(call, terms),
            None => {
                let (inside, left) = self.wait_in_line(call.operation(), terms.timeout)?;
                inside.run(call, Terms { timeout: left, ..terms })
            }
        }
    }

    /// Queues checked calls. Says which of the group's calls the first one is.
    pub(crate) fn submit(self: &Arc<Self>, mut job: Job) -> u64 {
        let mut desk = self.lock();
        if !desk.served {
            if let Err(error) = progress::serve() {
                drop(desk);
                return self.refuse(job, &Error::Thread(error.into()));
            }
            desk.served = true;
        }
        let number = self.road.line_up(job.count() as u64) + 1;
        self.lookout.diary().queue(number + job.count() as u64 - 1);
        job.accept(number);
        desk.line.push_back(Next::Queued(job));
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
            match desk.line.front() {
                Some(Next::Queued(job)) if job.number() <= number => {}
                _ => return,
            }
            let Some((held, job)) = self.next_of(&mut desk) else { return };
            drop(desk);
            carry_out_here(held, job, Deadline::never());
        }
    }

    /// The next queued call, with the road, for the progress thread. If there is none, or somebody
    /// else is at it, the thread has to be called again.
    pub(crate) fn next(self: &Arc<Self>) -> Option<(Held, Job)> {
        let mut desk = self.lock();
        let next = self.next_of(&mut desk);
        desk.attended = next.is_some();
        next
    }

    /// Whether this very thread carries out queued calls, so that it cannot wait for others.
    pub(crate) fn is_carried_here(&self) -> bool {
        self.lock().is_carried_here()
    }

    /// Until when the call that is being carried out may keep others waiting.
    pub(crate) fn patience_of_others(&self) -> Deadline {
        let elsewhere = self.lookout.deadlines().soonest();
        self.lock().line.iter().map(Next::deadline).fold(elsewhere, Deadline::min)
    }

    pub(crate) fn patience(&self) -> Patience {
        self.patience
    }

    /// Where the progress thread has to sleep, if not on a step of a board.
    pub(crate) fn place(&self) -> Option<&Arc<dyn Sleep>> {
        self.place.as_ref()
    }

    /// How many calls were made.
    pub(crate) fn calls(&self) -> u64 {
        self.road.count()
    }

    /// Ends the group, even if a call is being carried out.
    pub(crate) fn abort(&self, reason: &str) {
        self.lookout.abort(reason);
    }

    /// Why the group has failed, if it has.
    pub(crate) fn error(&self) -> Option<Error> {
        self.lookout.listen();
        self.lookout.error().or_else(|| self.lookout.look_round(|| Waiting::beside(WATCH)))
    }

    /// Leaves the group: at once, or when what is queued is done. Nobody makes calls any more. What it
    /// was part of is let go of last, for that may take a while.
    pub(crate) fn close(&self, membership: Arc<Membership>) {
        let mut desk = self.lock();
        let road = self.road.enter().filter(|_| desk.line.is_empty()).and_then(|mut it| it.take());
        match road {
            Some(road) => desk.leave(road, &membership),
            None => desk.orphaned = Some(membership),
        }
    }

    /// Waits until it is the turn of a blocking call, and helps with what is before it. Says how
    /// much of its time is left.
    ///
    /// # Errors
    /// When this thread would wait for itself; or when its turn does not come in time, because
    /// whoever has the road does not look at the clock: it runs somebody else's code.
    #[cold]
    fn wait_in_line(
        self: &Arc<Self>,
        operation: Operation,
        timeout: Duration,
    ) -> Result<(Inside<'_>, Duration)> {
        let until = Deadline::after(timeout);
        let mut desk = self.lock();
        if desk.is_carried_here() {
            return Err(waits_for_itself(operation.name()));
        }
        let number = self.road.line_up(1) + 1;
        self.lookout.diary().queue(number);
        desk.line.push_back(Next::Thread { number, until });
        let turn = loop {
            if let Some((held, job)) = self.next_of(&mut desk) {
                drop(desk);
                carry_out_here(held, job, until);
                desk = self.lock();
            } else if let Some(turn) = self.turn_of(number, &desk) {
                break turn;
            } else {
                desk = match until.remaining().map(|left| left.saturating_add(GRACE)) {
                    None => self.free.wait(desk).unwrap_or_else(PoisonError::into_inner),
                    Some(left) => {
                        let waited = self.free.wait_timeout(desk, left);
                        let (desk, waited) = waited.unwrap_or_else(PoisonError::into_inner);
                        if waited.timed_out() && until.has_passed() {
                            return Err(self.leave_line(desk, number, operation, timeout));
                        }
                        desk
                    }
                };
            }
        };
        desk.line.pop_front();
        if desk.line.is_empty() {
            self.road.open();
        }
        Ok((Inside::new(self, turn), until.remaining().unwrap_or(Duration::MAX)))
    }

    /// Ends the group because a thread's turn did not come in time.
    #[cold]
    fn leave_line(
        self: &Arc<Self>,
        mut desk: MutexGuard<'_, Desk>,
        number: u64,
        operation: Operation,
        timeout: Duration,
    ) -> Error {
        let before = match desk.carrier {
            Some(_) => "an asynchronous one whose hook, or buffer, has not returned",
            None => "one of another thread",
        };
        desk.line.retain(|next| !matches!(next, Next::Thread { number: it, .. } if *it == number));
        // Who brings the road back takes the bar down.
        if desk.line.is_empty() && desk.carrier.is_none() {
            self.road.open();
        }
        self.call_next(desk);
        let call = format!("{operation} behind {before}");
        let missing = [self.lookout.me()].into_iter().collect();
        self.lookout
            .decide(Cause::Late { missing, waiting: Waiting { call, number, waited: timeout } })
    }

    /// The road, if it is there and this thread is the next.
    fn turn_of(&self, mine: u64, desk: &Desk) -> Option<Turn<'_, Option<Road>>> {
        match desk.line.front() {
            Some(Next::Thread { number, .. }) if *number == mine => {
                self.road.enter().filter(|turn| turn.is_some())
            }
            _ => None,
        }
    }

    fn next_of(self: &Arc<Self>, desk: &mut Desk) -> Option<(Held, Job)> {
        let Some(Next::Queued(_)) = desk.line.front() else { return None };
        let road = self.road.enter()?.take()?;
        desk.carrier = Some(thread::current().id());
        match desk.line.pop_front() {
            Some(Next::Queued(job)) => Some((Held::new(self.clone(), road), job)),
            _ => unreachable!("it was looked at above"),
        }
    }

    /// Takes the road back from whoever carried out a queued call, and does `settle` in the same
    /// moment.
    fn take_back(self: &Arc<Self>, road: Road, settle: &mut dyn FnMut()) {
        let mut desk = self.lock();
        desk.carrier = None;
        settle();
        if desk.line.is_empty()
            && let Some(membership) = desk.orphaned.take()
        {
            progress::let_go(membership.clone());
            return desk.leave(road, &membership);
        }
        *self.road.enter().expect("nobody is in while the road is out") = Some(road);
        if desk.line.is_empty() {
            self.road.open();
        }
        self.call_next(desk);
    }

    /// Has the first in line go on, now that the road is free.
    fn call_next(self: &Arc<Self>, mut desk: MutexGuard<'_, Desk>) {
        match desk.line.front() {
            Some(Next::Thread { .. }) => self.free.notify_all(),
            Some(Next::Queued(_)) if !desk.attended => {
                desk.attended = true;
                drop(desk);
                progress::attend(Charge::Calls(self.clone()));
            }
            _ => {}
        }
    }

    /// Ends the group because calls cannot be carried out: the others are going to wait for this
    /// rank's part of them.
    #[cold]
    fn refuse(&self, mut job: Job, error: &Error) -> u64 {
        let number = self.calls() + 1;
        job.accept(number);
        let reason = error.to_string();
        job.finish(Err(self.lookout.decide(Cause::Unable { reason })));
        number
    }

    #[inline]
    fn lock(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a thread that carries out a group's calls cannot make one, or wait for one.
pub(crate) fn waits_for_itself(operation: &str) -> Error {
    Error::Argument(format!(
        "this thread is carrying out asynchronous calls of the group, in a hook or a buffer of which \
         it is asked to wait for {operation}: it would wait for itself; begin the call there and wait \
         for it elsewhere"
    ))
}

/// What somebody is in who asks how its group is.
const WATCH: &str = "Group::error";
/// Whoever has the road and looks at the clock is the first to find that somebody in line is late.
const GRACE: Duration = Duration::from_secs(1);
