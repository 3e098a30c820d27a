//! A group's way over the wire, for one call at a time.

mod history;
mod links;
mod mail;
mod route;

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use consort_sys::wait::Patience;

use self::history::History;
use self::links::CallLinks;
pub(crate) use self::route::Route;
use super::lookout::{Lookout, Stakes, Stuck};
use super::pace::{Notes, Pace, wait_once};
use super::patient::Patient;
use super::queue::Queue;
use super::road::Way;
use super::sleep::Sleep;
use crate::backend::Terms;
use crate::call::{Call, Description, Within};
use crate::error::Result;
use crate::exec::{Cache, Choices, Progress, Run};
use crate::group::Job as Membership;

/// The way.
#[derive(Debug)]
pub(crate) struct Wired {
    route: Route,
    lookout: Lookout,
    history: History,
    choices: Choices,
    cache: Cache,
    patience: Patience,
}

impl Wired {
    pub(crate) fn new(
        route: Route,
        lookout: Lookout,
        choices: Choices,
        patience: Patience,
    ) -> Self {
        let (history, cache) = (History::default(), Cache::default());
        Self { route, lookout, history, choices, cache, patience }
    }

    fn begin(&mut self, call: &Call<'_>, terms: Terms) -> Description {
        let description = Description::of(call, self.route.world(), Within::Nothing)
            .made_for(terms.purpose, terms.sizes);
        self.history.note(&description);
        description
    }

    /// Waits on the spot until the call goes on. Whether it is done.
    fn wait(&mut self, run: &mut Run<'_>, patient: &mut Patient<'_>) -> Result<Progress> {
        let Self { route, lookout, history, patience, .. } = self;
        let links = RefCell::new(CallLinks::new(route, lookout, history, patient.description));
        let run = RefCell::new(run);
        let found = RefCell::new(Ok(Progress::Stuck));
        let look = || {
            let mut found = found.borrow_mut();
            if matches!(*found, Ok(Progress::Stuck)) {
                *found = run.borrow_mut().go_on(&mut *links.borrow_mut());
            }
            !matches!(*found, Ok(Progress::Stuck))
        };
        let doze = |limit| route.wire().doze(look, limit);
        let check = || judge(route, lookout, &run.borrow().awaits(), || patient.is_late());
        let waited = patience.wait(look, doze, check);
        // It may have come with somebody's last breath, or in the last moment.
        match waited {
            Err(stuck) if !look() => {
                let missing = run.borrow().awaits().into_iter().collect();
                let waiting = patient.waiting(history.number());
                Err(lookout.give_up(stuck, waiting, missing, Stakes::Group))
            }
            _ => found.into_inner(),
        }
    }

    async fn run_at_pace(&mut self, call: &Call<'_>, notes: &Notes) -> Result<()> {
        if self.lookout.has_ended() {
            return Err(self.lookout.ended());
        }
        let description = self.begin(call, Terms::within(Duration::ZERO));
        let mut patient = Patient::new(Pace::Elsewhere(notes), description);
        let Self { route, lookout, history, choices, cache, .. } = self;
        let mut run = Run::new(call, route.me(), choices, cache)?;
        loop {
            let mut links = CallLinks::new(route, lookout, history, description);
            match run.go_on(&mut links)? {
                Progress::Done => break,
                Progress::Moved => notes.has_moved(),
                Progress::Stuck if notes.is_to_look_round() => {
                    let awaits = run.awaits();
                    let judged = judge(route, lookout, &awaits, || patient.is_late());
                    if let Err(stuck) = judged
                        && run.go_on(&mut links)? == Progress::Stuck
                    {
                        let waiting = patient.waiting(history.number());
                        let missing = awaits.into_iter().collect();
                        return Err(lookout.give_up(stuck, waiting, missing, Stakes::Group));
                    }
                }
                Progress::Stuck => {}
            }
            wait_once().await;
        }
        run.end(cache);
        Ok(())
    }
}

impl Way for Wired {
    fn run(&mut self, call: &Call<'_>, terms: Terms, line: Option<&Queue>) -> Result<u64> {
        if self.lookout.has_ended() {
            return Err(self.lookout.ended());
        }
        let description = self.begin(call, terms);
        let mut run = Run::new(call, self.route.me(), &self.choices, &mut self.cache)?;
        let mut patient = Patient::new(Pace::Here(terms.timeout, line), description);
        loop {
            let Self { route, lookout, history, .. } = &*self;
            let mut links = CallLinks::new(route, lookout, history, description);
            match run.go_on(&mut links)? {
                Progress::Done => break,
                Progress::Moved => {}
                Progress::Stuck => {
                    if self.wait(&mut run, &mut patient)? == Progress::Done {
                        break;
                    }
                }
            }
        }
        run.end(&mut self.cache);
        Ok(self.history.number())
    }

    fn run_elsewhere<'a>(
        &'a mut self,
        call: &'a Call<'_>,
        notes: &'a Notes,
    ) -> Pin<Box<dyn Future<Output = Result<()>> + 'a>> {
        Box::pin(self.run_at_pace(call, notes))
    }

    fn lookout(&self) -> &Lookout {
        &self.lookout
    }

    fn place(&self) -> Arc<dyn Sleep> {
        self.route.wire().clone()
    }

    fn leave(self: Box<Self>, _membership: &Membership) {}
}

/// Whether it makes sense to wait any longer for these ranks, all of whom have to come.
fn judge(
    route: &Route,
    lookout: &Lookout,
    awaited: &[usize],
    is_late: impl FnOnce() -> bool,
) -> Result<(), Stuck> {
    route.look_round(awaited);
    for &rank in awaited {
        lookout.judge(&[rank], || false)?;
    }
    lookout.judge(&[], is_late)
}
