//! What is learned and how, whoever learns: the same for ranks and for one process.

use candle_core::{D, Result, Tensor, bail};
use candle_nn::loss::cross_entropy;
use candle_nn::{Module, ParamsAdamW};

use super::batches::{Batches, share};
use super::digits::{Digit, Set, draw};
use super::model::{Net, tensors};
use super::words::{Task, Tested};

/// The part of one of several ranks.
#[derive(Debug)]
pub(crate) struct Lesson {
    task: Task,
    batches: Batches,
}

/// A loss to go back from, and what it says of the pictures.
#[derive(Debug)]
pub(crate) struct Judged {
    /// This rank's part in the loss, so that the average of all ranks' is that of the whole batch, also
    /// where their shares are not equally large.
    pub(crate) part: Tensor,
    /// The loss of all pictures of the share together.
    pub(crate) sum: f64,
}

impl Lesson {
    /// From its beginning.
    pub(crate) fn new(task: Task) -> Self {
        Self { task, batches: Batches::new(task.seed, Set::Training.len(), task.batch) }
    }

    /// The pictures of a rank in a step.
    pub(crate) fn pictures(&mut self, step: usize, rank: usize, world: usize) -> Vec<Digit> {
        let numbers = self.batches.of(step, rank, world);
        numbers.into_iter().map(|number| draw(self.task.seed, Set::Training, number)).collect()
    }

    /// How wrong a model is on pictures that are one of several shares of a batch.
    pub(crate) fn judge(&self, net: &Net, pictures: &[Digit], world: usize) -> Result<Judged> {
        let (pixels, labels) = tensors(pictures)?;
        let mean = cross_entropy(&net.forward(&pixels)?, &labels)?;
        let sum = f64::from(mean.to_scalar::<f32>()?) * pictures.len() as f64;
        if !sum.is_finite() {
            bail!("the loss is {sum}: nothing can be learned from it")
        }
        let weight = (pictures.len() * world) as f64 / self.task.batch as f64;
        let part = if weight == 1.0 { mean } else { mean.affine(weight, 0.0)? };
        Ok(Judged { part, sum })
    }

    /// How far parameters go in a step: less and less.
    pub(crate) fn rate(&self, step: usize) -> f64 {
        let left = 1.0 - step as f64 / self.task.steps as f64;
        RATE * (LEAST + (1.0 - LEAST) * left)
    }

    /// Lets a model read a rank's part of the pictures that were kept back.
    pub(crate) fn test(&self, net: &Net, rank: usize, world: usize) -> Result<Tested> {
        let mine = share(Set::Test.len(), rank, world);
        let numbers: Vec<usize> = mine.clone().collect();
        let mut tested = Tested { first: mine.start, answers: Vec::new(), loss: 0.0 };
        for some in numbers.chunks(AT_ONCE) {
            let pictures: Vec<Digit> =
                some.iter().map(|&number| draw(self.task.seed, Set::Test, number)).collect();
            let (pixels, labels) = tensors(&pictures)?;
            let scores = net.forward(&pixels)?;
            let mean = cross_entropy(&scores, &labels)?.to_scalar::<f32>()?;
            tested.loss += f64::from(mean) * pictures.len() as f64;
            let answers = scores.argmax(D::Minus1)?.to_vec1::<u32>()?;
            tested.answers.extend(answers.into_iter().map(|answer| answer as u8));
        }
        Ok(tested)
    }
}

/// How parameters are changed.
pub(crate) fn optimizer() -> ParamsAdamW {
    ParamsAdamW { lr: RATE, eps: LITTLE, ..ParamsAdamW::default() }
}

const RATE: f64 = 3e-3;
/// Gradients far below this move next to nothing. With much less, those that are nothing but rounding would
/// move parameters as far as others do, and in another direction with every order of summing up.
const LITTLE: f64 = 1e-5;
/// What is left of the rate in the end.
const LEAST: f64 = 0.05;
/// So many pictures are looked at together.
const AT_ONCE: usize = 100;
