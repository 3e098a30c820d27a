//! A group's way over the wire, for one call at a time.

mod history;
mod links;
mod mail;
mod route;
mod watch;

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use consort_sys::wait::Patience;

use self::history::History;
use self::links::CallLinks;
pub(crate) use self::route::Route;
use self::watch::Watch;
use super::lookout::{Lookout, Stakes, Stuck};
use super::pace::{Notes, Pace, wait_once};
use super::patient::Patient;
use super::queue::Queue;
use super::road::Way;
use super::sleep::Sleep;
use super::verdict::Waiting;
use crate::backend::Terms;
use crate::call::{Call, Description, Purpose, Within};
use crate::error::{Error, Result};
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

    /// Counts a call.
    fn begin(&mut self, call: &Call<'_>, terms: Terms) -> Result<Description> {
        if self.lookout.has_ended() {
            return Err(self.lookout.ended());
        }
        let description = Description::of(call, self.route.world(), Within::Nothing)
            .made_for(terms.purpose, terms.sizes);
        self.history.note(&description);
        Ok(description)
    }

    /// Carries out a call that was counted, on the spot.
    fn carry_out(&mut self, call: &Call<'_>, patient: &mut Patient<'_>) -> Result<()> {
        let Self { route, lookout, history, choices, cache, patience } = self;
        let mut run = Run::new(call, route.me(), choices, cache)?;
        let mut links = CallLinks::new(route, lookout, history, patient.description);
        let mut watch = Watch::default();
        loop {
            let mut progress = run.go_on(&mut links)?;
            if progress == Progress::Stuck {
                let look_round = |links: &CallLinks<'_>, awaited: &[usize]| {
                    watch.look_round(route, links, awaited)?;
                    Ok(judge(lookout, awaited, || patient.is_late())?)
                };
                progress = match wait(&mut run, &mut links, patience, look_round) {
                    Ok(progress) => progress,
                    Err(why) => {
                        let waiting = patient.waiting(history.number());
                        return Err(why.into_error(lookout, waiting, run.awaits()));
                    }
                };
            }
            if progress == Progress::Done {
                break;
            }
        }
        links.finish()?;
        run.end(cache);
        Ok(())
    }

    /// Carries out a call that was counted, and lets its thread do something else when it has to wait.
    async fn carry_out_elsewhere(
        &mut self,
        call: &Call<'_>,
        purpose: Purpose,
        notes: &Notes,
    ) -> Result<()> {
        let terms = Terms { purpose, ..Terms::within(Duration::ZERO) };
        let description = self.begin(call, terms)?;
        let mut patient = Patient::new(Pace::Elsewhere(notes), description);
        let Self { route, lookout, history, choices, cache, .. } = self;
        let mut run = Run::new(call, route.me(), choices, cache)?;
        let mut links = CallLinks::new(route, lookout, history, description);
        let mut watch = Watch::default();
        loop {
            match run.go_on(&mut links)? {
                Progress::Done => break,
                Progress::Moved => notes.has_moved(),
                Progress::Stuck if notes.is_to_look_round() => {
                    let awaited = run.awaits();
                    watch.look_round(route, &links, &awaited)?;
                    let judged = judge(lookout, &awaited, || patient.is_late());
                    if let Err(stuck) = judged
                        && run.go_on(&mut links)? == Progress::Stuck
                    {
                        let waiting = patient.waiting(history.number());
                        return Err(InVain::from(stuck).into_error(lookout, waiting, awaited));
                    }
                }
                Progress::Stuck => {}
            }
            wait_once().await;
        }
        links.finish()?;
        run.end(cache);
        Ok(())
    }
}

impl Way for Wired {
    fn run(&mut self, call: &Call<'_>, terms: Terms, line: Option<&Queue>) -> Result<u64> {
        let description = self.begin(call, terms)?;
        let mut patient = Patient::new(Pace::Here(terms.timeout, line), description);
        self.carry_out(call, &mut patient)?;
        Ok(self.history.number())
    }

    fn run_elsewhere<'a>(
        &'a mut self,
        call: &'a Call<'_>,
        purpose: Purpose,
        notes: &'a Notes,
    ) -> Pin<Box<dyn Future<Output = Result<()>> + 'a>> {
        Box::pin(self.carry_out_elsewhere(call, purpose, notes))
    }

    fn lookout(&self) -> &Lookout {
        &self.lookout
    }

    fn place(&self) -> Arc<dyn Sleep> {
        self.route.wire().clone()
    }

    fn leave(self: Box<Self>, _membership: &Membership) {}
}

/// Why there is no use in waiting.
enum InVain {
    Stuck(Stuck),
    /// The group has ended, because of what was found meanwhile.
    Failed(Error),
}

impl InVain {
    fn into_error(self, lookout: &Lookout, waiting: Waiting, missing: Vec<usize>) -> Error {
        match self {
            Self::Failed(error) => error,
            Self::Stuck(stuck) => {
                lookout.give_up(stuck, waiting, missing.into_iter().collect(), Stakes::Group)
            }
        }
    }
}

impl From<Stuck> for InVain {
    fn from(stuck: Stuck) -> Self {
        Self::Stuck(stuck)
    }
}

impl From<Error> for InVain {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// Waits on the spot until a call goes on, or `look_round` says that there is no use in that.
fn wait<'c>(
    run: &mut Run<'_>,
    links: &mut CallLinks<'c>,
    patience: &mut Patience,
    mut look_round: impl FnMut(&CallLinks<'c>, &[usize]) -> Result<(), InVain>,
) -> Result<Progress, InVain> {
    let wire = links.wire();
    let call = RefCell::new((run, links));
    let found = RefCell::new(Ok(Progress::Stuck));
    let look = || {
        let mut found = found.borrow_mut();
        if matches!(*found, Ok(Progress::Stuck)) {
            let (run, links) = &mut *call.borrow_mut();
            *found = run.go_on(*links);
        }
        !matches!(*found, Ok(Progress::Stuck))
    };
    let doze = |limit| wire.doze(look, limit);
    let waited = patience.wait(look, doze, || {
        let (run, links) = &*call.borrow();
        look_round(links, &run.awaits())
    });
    match waited {
        // It may have come with somebody's last breath, or in the last moment.
        Err(why) if !look() => Err(why),
        _ => Ok(found.into_inner()?),
    }
}

/// Whether it makes sense to wait any longer for these ranks, all of whom have to come.
fn judge(
    lookout: &Lookout,
    awaited: &[usize],
    is_late: impl FnOnce() -> bool,
) -> Result<(), Stuck> {
    for &rank in awaited {
        lookout.judge(&[rank], || false)?;
    }
    lookout.judge(&[], is_late)
}
