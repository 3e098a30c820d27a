//! What comes of it all: figures and checks. Pure.

use serde::Serialize;

use super::args::Setting;
use super::digits::{Set, label};
use super::failure::{Failure, Killed};
use super::figures::{accuracy, difference};
use super::history::History;
use super::traffic::Traffic;
use super::words::Task;

/// All figures.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Summary {
    pub(crate) cores: usize,
    pub(crate) ranks: usize,
    /// With how many threads each process computes.
    pub(crate) threads: usize,
    pub(crate) seed: u64,
    pub(crate) steps: usize,
    pub(crate) batch: usize,
    pub(crate) model: Model,
    /// The ranks together.
    pub(crate) distributed: Figures,
    /// One process.
    pub(crate) alone: Option<Figures>,
    /// Its time by that of the ranks.
    pub(crate) speedup: Option<f64>,
    pub(crate) traffic: Option<Traffic>,
    pub(crate) loss_difference: Option<Difference>,
    pub(crate) failure: Option<Failure>,
    pub(crate) checks: Vec<Check>,
}

/// How large the model is.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Model {
    /// Its numbers.
    pub(crate) numbers: usize,
    /// In so many parameters.
    pub(crate) parameters: usize,
}

/// What one run has come to.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figures {
    /// How long it has learned.
    pub(crate) seconds: f64,
    pub(crate) samples_per_second: f64,
    /// In the first step.
    pub(crate) first_loss: f64,
    /// On average over the last ones.
    pub(crate) last_loss: f64,
    /// On pictures that were kept back.
    pub(crate) test_loss: f64,
    pub(crate) test_accuracy: f64,
    /// What it takes each of those for.
    #[serde(skip)]
    pub(crate) answers: Vec<u8>,
    /// The loss of every step.
    #[serde(skip)]
    pub(crate) losses: Vec<f64>,
}

/// How far the losses of two runs are apart.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Difference {
    /// On average over all steps.
    pub(crate) mean: f64,
    /// In the step in which they are furthest apart.
    pub(crate) most: f64,
}

/// Something that has to be so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) passed: bool,
    /// What was found.
    pub(crate) found: String,
}

impl Summary {
    /// Of what was heard from the ranks, and from one process.
    ///
    /// # Errors
    /// When something is missing that every run has.
    pub(crate) fn new(
        setting: Setting,
        task: Task,
        ranks: &History,
        alone: Option<&History>,
        killed: Option<Killed>,
    ) -> Result<Self, String> {
        let distributed = Figures::of(ranks, task)?;
        let alone = alone.map(|history| Figures::of(history, task)).transpose()?;
        let model = ranks.members.iter().find_map(|member| member.model);
        let (numbers, parameters) = model.ok_or("no rank has said how large its model is")?;
        let loss_difference =
            alone.as_ref().map(|it| Difference::of(&distributed.losses, &it.losses));
        let failure = killed.map(|killed| Failure::of(ranks, killed));
        let mut checks = vec![check_parameters(ranks, killed.map(|killed| killed.rank))];
        checks.extend(loss_difference.map(check_losses));
        checks.push(check_learning(&distributed, task));
        checks.extend(failure.as_ref().map(|failure| check_failure(failure, setting.ranks)));
        Ok(Self {
            cores: setting.cores,
            ranks: setting.ranks,
            threads: setting.threads,
            seed: task.seed,
            steps: task.steps,
            batch: task.batch,
            model: Model { numbers, parameters },
            speedup: alone.as_ref().map(|alone| alone.seconds / distributed.seconds),
            distributed,
            alone,
            traffic: Traffic::of(ranks),
            loss_difference,
            failure,
            checks,
        })
    }

    /// Whether all is as it should be.
    pub(crate) fn is_good(&self) -> bool {
        self.checks.iter().all(|check| check.passed)
    }
}

impl Figures {
    fn of(history: &History, task: Task) -> Result<Self, String> {
        let (losses, tests) = (history.losses(), Set::Test.len());
        let span = history.span().ok_or("no step was done")?;
        if losses.len() != task.steps {
            return Err(format!("{} of {} steps were done", losses.len(), task.steps));
        }
        let (answers, test_loss) =
            history.tested(tests).ok_or("not all pictures were looked at")?;
        let is_right = |(number, answer): (usize, &u8)| *answer == label(number);
        let right = answers.iter().enumerate().filter(|it| is_right(*it)).count();
        let last = &losses[losses.len().saturating_sub(LAST)..];
        Ok(Self {
            seconds: span.seconds(),
            samples_per_second: (task.steps * task.batch) as f64 / span.seconds().max(1e-9),
            first_loss: losses[0],
            last_loss: last.iter().sum::<f64>() / last.len() as f64,
            test_loss,
            test_accuracy: right as f64 / tests as f64,
            answers,
            losses,
        })
    }
}

impl Difference {
    fn of(one: &[f64], other: &[f64]) -> Self {
        let apart = || one.iter().zip(other).map(|(one, other)| (one - other).abs());
        let count = one.len().min(other.len()).max(1);
        Self { mean: apart().sum::<f64>() / count as f64, most: apart().fold(0.0, f64::max) }
    }
}

fn check_parameters(ranks: &History, killed: Option<usize>) -> Check {
    let living = || ranks.members.iter().enumerate().filter(|(rank, _)| Some(*rank) != killed);
    let wrong = living().find_map(|(rank, member)| match &member.compared {
        Some(Ok(())) => None,
        Some(Err(why)) => Some(format!("rank {rank}: {why}")),
        None => Some(format!("rank {rank} has not compared them")),
    });
    Check {
        name: "parameters are the same on all ranks, bit by bit",
        passed: wrong.is_none(),
        found: wrong.unwrap_or_else(|| match living().count() {
            1 => "one rank is left".to_owned(),
            count => format!("compared by {count} ranks"),
        }),
    }
}

fn check_losses(found: Difference) -> Check {
    let Difference { mean, most } = found;
    let (mean_in_words, most_in_words) = (difference(mean), difference(most));
    Check {
        name: "the loss is that of one process",
        passed: mean <= TOLERANCE,
        found: format!(
            "they differ by {mean_in_words} on average and {most_in_words} at most; up to {TOLERANCE} on \
             average is put down to rounding"
        ),
    }
}

fn check_learning(figures: &Figures, task: Task) -> Check {
    // A few steps, or a few pictures, cannot be expected to come to much.
    let is_enough = task.steps >= SOME_STEPS && task.steps * task.batch >= SOME_PICTURES;
    let expected = if is_enough { CHANCE } else { 0.0 };
    let found = accuracy(figures.test_accuracy);
    Check {
        name: "pictures that were kept back are read",
        passed: figures.test_accuracy >= expected && figures.test_loss.is_finite(),
        found: format!("{found} of {} are read rightly", Set::Test.len()),
    }
}

fn check_failure(failure: &Failure, ranks: usize) -> Check {
    let Failure { rank, noticed, survivors, .. } = failure;
    Check {
        name: "the others named the rank that was killed, and went on",
        passed: failure.is_survived(ranks),
        found: format!(
            "rank {rank} was killed, {} of {} others noticed, {} went on",
            noticed.len(),
            ranks - 1,
            survivors.len()
        ),
    }
}

/// The last loss is the average of so many steps.
const LAST: usize = 10;
/// How far losses may be apart on average. Sums in another order are rounded otherwise, which came to less
/// than a millionth in all runs of some hundred steps that were looked at.
const TOLERANCE: f64 = 0.001;
/// After so many steps, and from so many pictures, something should have been learned.
const SOME_STEPS: usize = 100;
const SOME_PICTURES: usize = 5000;
/// Twice as much as by chance.
const CHANCE: f64 = 0.2;

#[cfg(test)]
pub(crate) mod tests;
