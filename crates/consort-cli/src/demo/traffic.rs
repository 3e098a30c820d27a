//! What gradients did on their way, over all ranks and steps, and one step that is like most: pure.

use serde::Serialize;

use super::history::History;
use super::words::{Pass, Sent, Span, Step};

/// Gradients on their way, a step and a rank on average.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Traffic {
    /// What travels in each step.
    pub(crate) bytes: usize,
    pub(crate) buckets: usize,
    pub(crate) step_ms: f64,
    pub(crate) forward_ms: f64,
    pub(crate) backward_ms: f64,
    /// How long at least one bucket is on its way.
    pub(crate) communication_ms: f64,
    /// How much of that backward covers.
    pub(crate) hidden_ms: f64,
    /// The rest.
    pub(crate) exposed_ms: f64,
    /// How much of a step gradients are on their way.
    pub(crate) share: f64,
    /// How much of that is hidden.
    pub(crate) hidden_share: f64,
    /// What each rank's link carries, as nccl-tests counts.
    #[serde(rename = "bus_GBs")]
    pub(crate) bus: f64,
}

/// One step on every rank.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Timeline {
    /// Which step, from 0.
    pub(crate) step: usize,
    /// How long it took all of them.
    pub(crate) length: u64,
    pub(crate) lanes: Vec<Lane>,
}

/// What one rank did in it. Times are since the first of them has begun.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lane {
    pub(crate) rank: usize,
    /// When it began.
    pub(crate) begin: u64,
    pub(crate) forward: Span,
    pub(crate) backward: Span,
    /// Until the step was over.
    pub(crate) end: u64,
    pub(crate) buckets: Vec<Sent>,
}

impl Traffic {
    /// Of all steps that were taken by more than one, but the first few; `None` if there are none.
    pub(crate) fn of(history: &History) -> Option<Self> {
        let usual: Vec<(&Step, &Pass)> = passes(history).collect();
        let (_, last) = usual.last()?;
        let mean = |of: &dyn Fn(&(&Step, &Pass)) -> f64| {
            usual.iter().map(of).sum::<f64>() / usual.len() as f64 * 1e3
        };
        let nanos = |it: u64| it as f64 * 1e-9;
        let communication_ms = mean(&|(_, pass)| nanos(pass.communication));
        let hidden_ms = mean(&|(_, pass)| nanos(pass.hidden));
        let carried = |(step, pass): &(&Step, &Pass)| {
            let ranks = step.world as f64;
            bytes(pass) as f64 * 2.0 * (ranks - 1.0) / ranks
        };
        let on_the_way: u64 = usual.iter().map(|(_, pass)| pass.communication).sum();
        let step_ms = mean(&|(step, _)| step.span.seconds());
        let part = |of: f64, whole: f64| if whole > 0.0 { of / whole } else { 0.0 };
        Some(Self {
            bytes: bytes(last),
            buckets: last.buckets.len(),
            step_ms,
            forward_ms: mean(&|(_, pass)| pass.forward.seconds()),
            backward_ms: mean(&|(_, pass)| pass.backward.seconds()),
            communication_ms,
            hidden_ms,
            exposed_ms: communication_ms - hidden_ms,
            share: part(communication_ms, step_ms),
            hidden_share: part(hidden_ms, communication_ms),
            bus: usual.iter().map(carried).sum::<f64>() / on_the_way.max(1) as f64,
        })
    }
}

impl Timeline {
    /// Of the step that all ranks have taken and that took as long as the others mostly do; `None` if
    /// there is none.
    pub(crate) fn of(history: &History) -> Option<Self> {
        let all = 0..history.steps();
        let mut known: Vec<Self> = all.filter_map(|step| Self::of_step(history, step)).collect();
        known.sort_by_key(|timeline| timeline.length);
        (!known.is_empty()).then(|| known.swap_remove(known.len() / 2))
    }

    fn of_step(history: &History, number: usize) -> Option<Self> {
        let of_member = |steps: &[Step]| {
            let step = steps.iter().find(|step| step.number == number && is_usual(step))?.clone();
            Some((step.span, step.pass?))
        };
        let members = history.members.iter().map(|member| of_member(&member.steps));
        let taken: Vec<(Span, Pass)> = members.collect::<Option<_>>()?;
        let from = taken.iter().map(|(span, _)| span.from).min()?;
        let to = taken.iter().map(|(span, _)| span.to).max()?;
        let since = |moment: u64| moment.saturating_sub(from);
        let moved = |span: Span| Span { from: since(span.from), to: since(span.to) };
        let lane = |(rank, (span, pass)): (usize, (Span, Pass))| Lane {
            rank,
            begin: since(span.from),
            forward: moved(pass.forward),
            backward: moved(pass.backward),
            end: since(span.to),
            buckets: pass.buckets.iter().map(|it| Sent { span: moved(it.span), ..*it }).collect(),
        };
        let lanes = taken.into_iter().enumerate().map(lane).collect();
        Some(Self { step: number, length: to - from, lanes })
    }
}

fn passes(history: &History) -> impl Iterator<Item = (&Step, &Pass)> {
    let usual = history.every_step().filter(|step| is_usual(step));
    usual.filter_map(|step| Some((step, step.pass.as_ref()?)))
}

/// Buckets are made anew after the first step; and one alone has nobody to send them to.
fn is_usual(step: &Step) -> bool {
    step.number >= FIRST && step.world > 1
}

fn bytes(pass: &Pass) -> usize {
    pass.buckets.iter().map(|bucket| bucket.bytes).sum()
}

const FIRST: usize = 2;

#[cfg(test)]
pub(crate) mod tests {
    use super::super::words::Word;
    use super::*;

    fn span(from: u64, to: u64) -> Span {
        Span { from, to }
    }

    /// A step of some milliseconds that begins at a moment.
    pub(crate) fn step(number: usize, from: u64, millis: u64) -> Step {
        let at = |part: u64| from + part * millis * 10_000;
        let bucket = |bytes, begin, end| Sent { bytes, span: span(at(begin), at(end)) };
        let pass = Pass {
            forward: span(at(0), at(30)),
            backward: span(at(30), at(80)),
            communication: millis * 300_000,
            hidden: millis * 200_000,
            buckets: vec![bucket(1000, 50, 60), bucket(3000, 70, 90)],
        };
        let loss = 2.3 / (number + 1) as f64;
        Step { number, world: 2, loss, span: span(at(0), at(100)), pass: Some(pass) }
    }

    pub(crate) fn history() -> History {
        let mut history = History::new(2);
        let mut now = 1_000_000;
        for number in 0..6 {
            // The first ones take longest.
            let millis = 20 - 2 * number as u64;
            for rank in 0..2 {
                history
                    .note(rank, Word::Step(step(number, now + rank as u64 * 1000, millis)))
                    .unwrap();
            }
            now += millis * 1_000_000;
        }
        history
    }

    #[test]
    fn figures_are_averages_of_all_steps_but_the_first() {
        let traffic = Traffic::of(&history()).unwrap();
        // Of 16, 14, 12 and 10 ms.
        let expected =
            |part: f64, found: f64| assert!((found - 13.0 * part).abs() < 1e-6, "{traffic:?}");
        expected(1.0, traffic.step_ms);
        expected(0.3, traffic.forward_ms);
        expected(0.5, traffic.backward_ms);
        expected(0.3, traffic.communication_ms);
        expected(0.1, traffic.exposed_ms);
        assert_eq!((traffic.bytes, traffic.buckets), (4000, 2));
        assert!(
            (traffic.share - 0.3).abs() < 1e-9 && (traffic.hidden_share - 2.0 / 3.0).abs() < 1e-9
        );
        // Each of two ranks sends as much as there is, in 3.9 ms on average.
        assert!((traffic.bus - 4000.0 / 3.9e6).abs() < 1e-9, "{traffic:?}");
    }

    #[test]
    fn one_alone_has_no_traffic() {
        let mut history = history();
        for member in &mut history.members {
            member.steps.iter_mut().for_each(|step| step.world = 1);
        }
        assert_eq!((Traffic::of(&history), Timeline::of(&history)), (None, None));
    }

    #[test]
    fn the_step_that_is_shown_is_like_most_and_everyone_has_taken_it() {
        let mut history = history();
        // It was killed.
        history.members[1].steps.truncate(5);
        let timeline = Timeline::of(&history).unwrap();
        // Of 16, 14 and 12 ms.
        assert_eq!((timeline.step, timeline.length), (3, 14_001_000));
        assert_eq!(timeline.lanes.len(), 2);
        let lane = &timeline.lanes[1];
        assert_eq!((lane.rank, lane.forward), (1, span(1000, 4_201_000)));
        assert_eq!(lane.buckets[1], Sent { bytes: 3000, span: span(9_801_000, 12_601_000) });
    }
}
