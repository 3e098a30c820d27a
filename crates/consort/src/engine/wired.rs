//! A group's way over the wire, for one call at a time.

mod history;
mod links;
mod mail;
mod route;
mod waits;
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
use super::pace::{Notes, Pace, at_once, wait_once};
use super::patient::Patient;
use super::queue::Queue;
use super::road::Way;
use super::sleep::Sleep;
use super::verdict::Waiting;
use crate::backend::Terms;
use crate::call::{Call, Description, Within};
use crate::error::{Error, Result};
use crate::exec::{Cache, Choices, Progress, Run};
use crate::group::Job as Membership;
use crate::wire::Switch;

/// The way.
#[derive(Debug)]
pub(crate) struct Wired {
    route: Route,
    lookout: Lookout,
    history: History,
    choices: Choices,
    cache: Cache,
    patience: Patience,
    /// For how long numbers were combined, by a stopwatch.
    combined: u64,
}

impl Wired {
    pub(crate) fn new(
        route: Route,
        lookout: Lookout,
        choices: Choices,
        patience: Patience,
    ) -> Self {
        let (history, cache, patience) = (History::default(), Cache::default(), patience.asking());
        Self { route, lookout, history, choices, cache, patience, combined: 0 }
    }

    /// This rank.
    pub(super) fn me(&self) -> usize {
        self.route.me()
    }

    /// How many calls there were.
    pub(super) fn number(&self) -> u64 {
        self.history.number()
    }

    /// How a rank of each host carries out its part of a call, if these ranks of the group are those.
    pub(super) fn column(&self, ranks: Vec<usize>) -> Column {
        let me = ranks.iter().position(|&rank| rank == self.route.me());
        let me = me.expect("it is one of them");
        Column { me, ranks, choices: self.choices.of_hosts() }
    }

    /// For how long numbers were combined since this was last asked, by a stopwatch.
    pub(super) fn take_combined(&mut self) -> u64 {
        std::mem::take(&mut self.combined)
    }

    /// Counts a call.
    pub(super) fn begin(&mut self, call: &Call<'_>, terms: Terms) -> Result<Description> {
        if self.lookout.has_ended() {
            return Err(self.lookout.ended());
        }
        let description = Description::of(call, self.route.world(), Within::Nothing)
            .made_for(terms.purpose, terms.sizes);
        self.history.note(&description);
        Ok(description)
    }

    /// Carries out a call that was counted, or the part of it that a column of ranks has, at the
    /// patient's pace.
    pub(super) async fn carry_out(
        &mut self,
        call: &Call<'_>,
        column: Option<&Column>,
        patient: &mut Patient<'_>,
    ) -> Result<()> {
        let Self { route, lookout, history, choices, cache, patience, combined } = self;
        let (me, choices) = match column {
            None => (route.me(), &*choices),
            Some(column) => (column.me, &column.choices),
        };
        let mut run = Run::new(call, me, choices, cache)?;
        let mut links = CallLinks::new(route, lookout, history, patient.description, column);
        let mut watch = Watch::default();
        // Who is awaited may itself wait for another on its host.
        let grace = if column.is_some() { GRACE } else { Duration::ZERO };
        loop {
            let progress = run.go_on(&mut links)?;
            let pace = patient.pace;
            let mut look_round = |links: &CallLinks<'_>, awaited: &[usize]| {
                if let Some(&rank) = awaited.first() {
                    lookout.note_wait(history.number(), rank);
                }
                watch.look_round(route, links, awaited)?;
                judge(lookout, awaited, || patient.is_late_for(grace))?;
                patient.warn(lookout, history.number(), awaited);
                Ok(())
            };
            let waited = match (progress, pace) {
                (Progress::Done, _) => break,
                (_, Pace::Here(..)) => wait(&mut run, &mut links, patience, look_round),
                (Progress::Moved, Pace::Elsewhere(notes)) => {
                    notes.has_moved();
                    Ok(progress)
                }
                (Progress::Stuck, Pace::Elsewhere(notes)) if notes.is_to_look_round() => {
                    match look_round(&links, &links.in_group(run.awaits())) {
                        // It may have come with somebody's last breath, or in the last moment.
                        Err(why) if run.go_on(&mut links)? == Progress::Stuck => Err(why),
                        _ => Ok(progress),
                    }
                }
                (Progress::Stuck, Pace::Elsewhere(_)) => Ok(progress),
            };
            let progress = match waited {
                Ok(progress) => progress,
                Err(why) => {
                    let waiting = patient.waiting(history.number());
                    let missing = links.in_group(run.awaits());
                    return Err(why.into_error(lookout, waiting, missing));
                }
            };
            if progress == Progress::Done {
                break;
            }
            if let Pace::Elsewhere(_) = pace {
                wait_once().await;
            }
        }
        links.finish()?;
        *combined += run.end(cache);
        Ok(())
    }
}

impl Way for Wired {
    fn run(&mut self, call: &Call<'_>, terms: Terms, line: Option<&Queue>) -> Result<u64> {
        let description = self.begin(call, terms)?;
        let mut patient = Patient::new(Pace::Here(terms.timeout, line), description);
        self.lookout.diary().begin(self.number(), &description, terms.site);
        let done = at_once(self.carry_out(call, None, &mut patient));
        let combined = self.take_combined();
        self.lookout.diary().end(self.number(), &description, done.is_ok(), combined);
        done.map(|()| self.number())
    }

    fn run_elsewhere<'a>(
        &'a mut self,
        call: &'a Call<'_>,
        terms: Terms,
        notes: &'a Notes,
    ) -> Pin<Box<dyn Future<Output = Result<()>> + 'a>> {
        Box::pin(async move {
            let description = self.begin(call, terms)?;
            let mut patient = Patient::new(Pace::Elsewhere(notes), description);
            self.lookout.diary().begin(self.number(), &description, terms.site);
            let done = self.carry_out(call, None, &mut patient).await;
            let combined = self.take_combined();
            self.lookout.diary().end(self.number(), &description, done.is_ok(), combined);
            done
        })
    }

    fn lookout(&self) -> &Lookout {
        &self.lookout
    }

    fn place(&self) -> Arc<dyn Sleep> {
        self.route.wire().clone()
    }

    fn leave(self: Box<Self>, _membership: &Membership) {}
}

/// One rank of each host, who carry out a part of a call among themselves.
#[derive(Debug)]
pub(super) struct Column {
    /// This rank's place among them.
    me: usize,
    /// Their ranks in the group, in the order of hosts.
    ranks: Vec<usize>,
    choices: Choices,
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
    let wire: &Switch = links.wire();
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
        look_round(links, &links.in_group(run.awaits()))
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

/// How long a rank of a column lets the ranks of a host say first who is late.
const GRACE: Duration = Duration::from_millis(200);
