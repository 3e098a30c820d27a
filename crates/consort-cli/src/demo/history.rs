//! All that the processes of one run have said: pure.

use std::collections::BTreeMap;

use super::words::{Loss, Span, Step, Tested, Word};

/// What is known of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    /// One for each rank.
    pub(crate) members: Vec<Member>,
}

/// What is known of one rank.
#[derive(Clone, Debug, Default)]
pub(crate) struct Member {
    /// How many numbers its model has, in how many parameters.
    pub(crate) model: Option<(usize, usize)>,
    pub(crate) steps: Vec<Step>,
    pub(crate) loss: Option<Loss>,
    /// When it went on after a loss, and with whom.
    pub(crate) resumed: Option<(u64, Vec<u32>)>,
    pub(crate) tested: Option<Tested>,
    pub(crate) compared: Option<Result<(), String>>,
    pub(crate) is_done: bool,
}

impl History {
    /// Of so many ranks that have not said anything.
    pub(crate) fn new(ranks: usize) -> Self {
        Self { members: vec![Member::default(); ranks] }
    }

    /// Takes note of something.
    ///
    /// # Errors
    /// Why a rank cannot go on.
    pub(crate) fn note(&mut self, rank: usize, word: Word) -> Result<(), String> {
        let member = &mut self.members[rank];
        match word {
            Word::Ready { numbers, parameters } => member.model = Some((numbers, parameters)),
            Word::Step(step) => member.steps.push(step),
            Word::Lost(loss) => member.loss = Some(loss),
            Word::Resumed { at, ranks } => member.resumed = Some((at, ranks)),
            Word::Tested(tested) => member.tested = Some(tested),
            Word::Compared(compared) => member.compared = Some(compared),
            Word::Done => member.is_done = true,
            Word::Failed(why) => return Err(why),
        }
        Ok(())
    }

    /// How many steps are done.
    pub(crate) fn steps(&self) -> usize {
        let last = self.members.iter().filter_map(|member| member.steps.last());
        last.map(|step| step.number + 1).max().unwrap_or(0)
    }

    /// The loss of each step. A rank that had to catch up after a loss does not know it, but others do.
    pub(crate) fn losses(&self) -> Vec<f64> {
        let all: BTreeMap<usize, f64> =
            self.every_step().map(|step| (step.number, step.loss)).collect();
        all.into_values().collect()
    }

    /// From the beginning of the first step to the end of the last one.
    pub(crate) fn span(&self) -> Option<Span> {
        let from = self.every_step().map(|step| step.span.from).min()?;
        Some(Span { from, to: self.every_step().map(|step| step.span.to).max()? })
    }

    /// Every rank's steps.
    pub(crate) fn every_step(&self) -> impl Iterator<Item = &Step> {
        self.members.iter().flat_map(|member| &member.steps)
    }

    /// The answers to all pictures that were kept back, and the loss of each on average; `None` while
    /// some are missing.
    pub(crate) fn tested(&self, count: usize) -> Option<(Vec<u8>, f64)> {
        let mut parts: Vec<&Tested> =
            self.members.iter().filter_map(|member| member.tested.as_ref()).collect();
        parts.sort_unstable_by_key(|part| part.first);
        let answers: Vec<u8> = parts.iter().flat_map(|part| &part.answers).copied().collect();
        let loss: f64 = parts.iter().map(|part| part.loss).sum();
        (answers.len() == count).then(|| (answers, loss / count as f64))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn step(number: usize, loss: f64, (from, to): (u64, u64)) -> Step {
        Step { number, world: 2, loss, span: Span { from, to }, pass: None }
    }

    #[test]
    fn losses_are_in_the_order_of_steps_whoever_tells_them() {
        let mut history = History::new(2);
        history.note(0, Word::Step(step(0, 2.5, (10, 20)))).unwrap();
        history.note(1, Word::Step(step(0, 2.5, (8, 21)))).unwrap();
        history.note(1, Word::Step(step(1, 2.0, (21, 30)))).unwrap();
        assert_eq!(history.losses(), [2.5, 2.0]);
        assert_eq!((history.steps(), history.span()), (2, Some(Span { from: 8, to: 30 })));
    }

    #[test]
    fn answers_are_put_together_in_the_order_of_pictures() {
        let mut history = History::new(2);
        let part = |first, answers: &[u8], loss| {
            Word::Tested(Tested { first, answers: answers.to_vec(), loss })
        };
        history.note(0, part(2, &[5, 6], 3.0)).unwrap();
        assert_eq!(history.tested(4), None, "two are missing");
        history.note(1, part(0, &[3, 4], 1.0)).unwrap();
        assert_eq!(history.tested(4), Some((vec![3, 4, 5, 6], 1.0)));
    }

    #[test]
    fn a_rank_that_cannot_go_on_says_why() {
        let why = History::new(1).note(0, Word::Failed("no memory".to_owned()));
        assert_eq!(why, Err("no memory".to_owned()));
    }
}
