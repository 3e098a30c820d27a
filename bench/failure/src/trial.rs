//! One run of one scenario: all are told what to do, harm is done, and the harness waits to see what
//! becomes of everyone.

use std::collections::BTreeMap;
use std::error::Error;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::answer::{Answer, Outcome};
use crate::clock;
use crate::crew::{Crew, Event};
use crate::library::Library;
use crate::order::Order;
use crate::scenario::{Fault, ODD, SETTLE, SUM, Scenario, WORLD};
use crate::stage::Stage;

/// What became of everyone in one run.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    pub(crate) version: String,
    /// Of each rank that was watched.
    pub(crate) ends: BTreeMap<u32, End>,
    /// How long it took the survivors to work together again, or why they could not; `None` if there
    /// was nothing to try.
    pub(crate) goes_on: Option<Result<f64, String>>,
}

/// What became of one rank. Times are milliseconds since the fault.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum End {
    /// It got an error.
    Failed { ms: f64, class: String, text: String },
    /// It got no error: the first elements of its results.
    Unaware { values: Vec<String> },
    /// Its process was ended.
    Ended { ms: f64 },
    /// Nothing was heard of it until the harness lost patience.
    Hung,
}

impl End {
    /// Whether it has a result where there should be none.
    pub(crate) fn is_unaware(&self) -> bool {
        matches!(self, Self::Unaware { .. })
    }
}

impl Trial {
    /// Runs a scenario once.
    pub(crate) fn run(library: Library, scenario: &Scenario) -> Result<Self, Box<dyn Error>> {
        let stage = Stage::new(library, scenario)?;
        let crew = Crew::assemble(library, scenario, &stage)?;
        let mut course = Course { crew, scenario, fault: None, ranks: Default::default() };
        course.warm_up()?;
        course.set_to_work();
        thread::sleep(SETTLE);
        course.do_harm(&stage)?;
        course.wait_for_harm(START_LIMIT)?;
        course.wait(scenario.timeout + PATIENCE, &scenario.watched())?;
        let ends = course.ends()?;
        let goes_on = course.go_on(&ends)?;
        Ok(Self { version: course.crew.version.clone(), ends, goes_on })
    }
}

/// A run on its way.
struct Course<'a> {
    crew: Crew,
    scenario: &'a Scenario,
    fault: Option<u64>,
    ranks: [Progress; WORLD as usize],
}

/// How far a rank is.
#[derive(Clone, Debug, Default)]
struct Progress {
    /// How many answers are awaited.
    awaited: usize,
    outcomes: Vec<(u64, Outcome)>,
    gone: Option<u64>,
}

impl Course<'_> {
    /// Makes every connection that the calls need.
    fn warm_up(&mut self) -> Result<(), Box<dyn Error>> {
        let all: Vec<u32> = (0..WORLD).collect();
        all.iter().for_each(|&rank| self.tell(rank, &Order::Call(SUM)));
        self.wait(START_LIMIT, &all)?;
        for (rank, progress) in self.ranks.iter_mut().enumerate() {
            match std::mem::take(progress).outcomes.pop() {
                Some((_, Outcome::Good(_))) => {}
                other => return Err(format!("rank {rank} is not fit to begin: {other:?}").into()),
            }
        }
        Ok(())
    }

    fn set_to_work(&mut self) {
        let orders = &self.scenario.orders;
        for (rank, orders) in (0..).zip(orders) {
            orders.iter().for_each(|order| self.tell(rank, order));
        }
    }

    /// The fault, and when it was. If a rank does it, that one says when.
    fn do_harm(&mut self, stage: &Stage) -> Result<(), Box<dyn Error>> {
        let now = clock::nanoseconds();
        match &self.scenario.fault {
            Fault::Kill => self.crew.signal(ODD, Signal::KILL)?,
            Fault::Stop => self.crew.signal(ODD, Signal::STOP)?,
            Fault::Cut => stage.cut(),
            Fault::Order(order) => {
                self.tell(ODD, order);
                return Ok(());
            }
            Fault::Abort => return Ok(()),
        }
        self.fault = Some(now);
        Ok(())
    }

    fn tell(&mut self, rank: u32, order: &Order) {
        if !matches!(order, Order::Abort(_)) {
            self.ranks[rank as usize].awaited += 1;
        }
        self.crew.tell(rank, order);
    }

    /// Waits until all of these have answered everything, or are gone.
    fn wait(&mut self, patience: Duration, ranks: &[u32]) -> Result<(), String> {
        let until = Instant::now() + patience;
        while ranks.iter().any(|&rank| !self.ranks[rank as usize].is_done()) {
            let Some((rank, event)) = self.crew.next(until)? else { break };
            self.note(rank, event);
        }
        Ok(())
    }

    /// Waits until the fault has happened, for those who are told to do it may take their time.
    fn wait_for_harm(&mut self, patience: Duration) -> Result<(), String> {
        let until = Instant::now() + patience;
        while self.fault.is_none() {
            let Some((rank, event)) = self.crew.next(until)? else { break };
            self.note(rank, event);
        }
        Ok(())
    }

    fn note(&mut self, rank: u32, event: Event) {
        match (&self.scenario.fault, &event) {
            // To end by oneself may take a while.
            (Fault::Order(Order::Exit(_)), Event::Gone { at }) if rank == ODD => {
                self.fault = Some(*at);
            }
            // What it was told before, if anything, was to warm up.
            (Fault::Order(_), Event::Said(Answer::Begins { at })) if rank == ODD => {
                self.fault = Some(*at);
            }
            (Fault::Abort, Event::Said(Answer::Aborts { at })) => self.fault = Some(*at),
            _ => {}
        }
        let progress = &mut self.ranks[rank as usize];
        match event {
            Event::Said(Answer::Did { at, outcome }) => progress.outcomes.push((at, outcome)),
            Event::Gone { at } => progress.gone = Some(at),
            Event::Said(_) => {}
        }
    }

    fn ends(&self) -> Result<BTreeMap<u32, End>, Box<dyn Error>> {
        let fault = self.fault.ok_or("the fault did not happen")?;
        let watched = self.scenario.watched();
        Ok(watched.into_iter().map(|rank| (rank, self.ranks[rank as usize].end(fault))).collect())
    }

    /// Has the survivors form a new group and use it, if all of them know that they should.
    fn go_on(
        &mut self,
        ends: &BTreeMap<u32, End>,
    ) -> Result<Option<Result<f64, String>>, Box<dyn Error>> {
        let survivors = self.scenario.survivors();
        let can_try = |rank: &u32| {
            let knows = ends.get(rank).is_none_or(|end| matches!(end, End::Failed { .. }));
            knows && self.ranks[*rank as usize].is_done()
        };
        if !survivors.iter().all(can_try) {
            return Ok(None);
        }
        let begun = clock::nanoseconds();
        survivors.iter().for_each(|&rank| self.tell(rank, &Order::Regroup(survivors.clone())));
        self.wait(self.scenario.timeout + PATIENCE, &survivors)?;
        let mut longest = 0.0_f64;
        for rank in survivors {
            match self.ranks[rank as usize].last_words() {
                Ok(at) => longest = longest.max(milliseconds(begun, at)),
                Err(why) => return Ok(Some(Err(format!("rank {rank}: {why}")))),
            }
        }
        Ok(Some(Ok(longest)))
    }
}

impl Progress {
    fn is_done(&self) -> bool {
        self.gone.is_some() || self.outcomes.len() >= self.awaited
    }

    /// What became of it: its first error counts.
    fn end(&self, fault: u64) -> End {
        let failed = self.outcomes.iter().find_map(|(at, outcome)| match outcome {
            Outcome::Failed { class, text } => Some((*at, class, text)),
            Outcome::Good(_) => None,
        });
        match (failed, self.gone) {
            (Some((at, class, text)), _) => {
                let (class, text) = (class.clone(), text.clone());
                End::Failed { ms: milliseconds(fault, at), class, text }
            }
            (None, Some(at)) => End::Ended { ms: milliseconds(fault, at) },
            (None, None) if self.is_done() => {
                let value = |(_, outcome): &(u64, Outcome)| match outcome {
                    Outcome::Good(value) => value.clone(),
                    Outcome::Failed { .. } => unreachable!("looked for above"),
                };
                End::Unaware { values: self.outcomes.iter().map(value).collect() }
            }
            (None, None) => End::Hung,
        }
    }

    /// When it has done what it was told last, or why it has not.
    fn last_words(&self) -> Result<u64, String> {
        match (self.is_done(), self.gone, self.outcomes.last()) {
            (_, Some(_), _) => Err("it has ended".to_owned()),
            (true, None, Some((at, Outcome::Good(_)))) => Ok(*at),
            (true, None, Some((_, Outcome::Failed { class, text }))) => {
                Err(format!("{class}: {text}"))
            }
            _ => Err("it hung".to_owned()),
        }
    }
}

/// From one moment to a later one; a rank that did not wait for the fault may be before it.
fn milliseconds(from: u64, to: u64) -> f64 {
    to.saturating_sub(from) as f64 / 1e6
}

/// Beyond the timeout, for those who have none, and for news to come around.
const PATIENCE: Duration = Duration::from_secs(5);
const START_LIMIT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn good(value: &str) -> Outcome {
        Outcome::Good(value.to_owned())
    }

    fn failed() -> Outcome {
        Outcome::Failed { class: "Gone".to_owned(), text: "rank 2".to_owned() }
    }

    #[test]
    fn the_first_error_counts_and_an_end_only_without_one() {
        let mut progress = Progress { awaited: 2, ..Progress::default() };
        assert_eq!(progress.end(0), End::Hung);
        progress.outcomes = vec![(1_000_000, good("4"))];
        assert_eq!(progress.end(0), End::Hung, "one answer is missing");
        progress.gone = Some(7_000_000);
        assert_eq!(progress.end(2_000_000), End::Ended { ms: 5.0 });
        progress.outcomes.push((4_000_000, failed()));
        let End::Failed { ms, .. } = progress.end(2_000_000) else { unreachable!() };
        assert_eq!(ms, 2.0);
    }

    #[test]
    fn who_has_done_all_without_an_error_knows_of_nothing() {
        let outcomes = vec![(1, good("4")), (2, good("13"))];
        let progress = Progress { awaited: 2, outcomes, gone: None };
        let values = vec!["4".to_owned(), "13".to_owned()];
        assert_eq!(progress.end(5_000_000), End::Unaware { values });
        assert_eq!(progress.last_words(), Ok(2));
    }
}
