//! A rank that learns together with others, and goes on when one of them is gone.
//!
//! A step has three parts: gradients are averaged, ranks tell each other that they have the averages, and
//! everyone changes its parameters by them. If somebody is gone, the others may have come differently far.
//! But whoever has changed its parameters knows that all others have the averages, so those can follow; and
//! if nobody has, all forget the averages and take the step again without the one who is gone. So no step is
//! lost or taken twice, and what the optimizer remembers stays the same everywhere.

use std::time::Duration;

use candle_core::DType;
use candle_nn::{AdamW, Optimizer, VarMap};
use consort::{ErrorKind, Group, ReduceOp};
use consort_train::candle::{DistributedDataParallel, Gradients, Options};
use consort_train::{Caps, Error, PassTimes, Result};

use super::lesson::{Lesson, optimizer};
use super::model::{Net, initialise};
use super::words::{Pass, Sent, Span, Step, Task, Tested, Word};
use crate::bench::timing::now;

/// One of them.
pub(crate) struct Pupil {
    task: Task,
    group: Group,
    ddp: DistributedDataParallel,
    net: Net,
    changes: AdamW,
    lesson: Lesson,
    /// How many steps it has taken.
    taken: usize,
    /// The averages of a step that it has not taken.
    held: Option<Gradients>,
}

/// What comes of trying to take a step.
pub(crate) enum Done {
    /// It is taken.
    Step(Step),
    /// Somebody is gone.
    Lost(Error),
}

impl Pupil {
    /// Begins with parameters that are made from the seed.
    pub(crate) fn new(group: &Group, task: Task) -> Result<Self> {
        let parameters = VarMap::new();
        let buckets = consort_train::Options::new().caps(Caps::of(BUCKET)?);
        let options = Options::new().reducer(buckets);
        let (ddp, net) =
            DistributedDataParallel::with_options(group, &parameters, DType::F32, options, |vb| {
                let net = Net::new(vb)?;
                initialise(&parameters, task.seed)?;
                Ok(net)
            })?;
        let changes = AdamW::new(ddp.vars(), optimizer())?;
        let (group, lesson) = (group.clone(), Lesson::new(task));
        Ok(Self { task, group, ddp, net, changes, lesson, taken: 0, held: None })
    }

    /// How large its model is.
    pub(crate) fn ready(&self) -> Word {
        let all = self.ddp.vars();
        let numbers = all.iter().map(|parameter| parameter.elem_count()).sum();
        Word::Ready { numbers, parameters: all.len() }
    }

    /// Those who are left, as they were numbered in the beginning.
    pub(crate) fn ranks(&self) -> Vec<u32> {
        self.group.world_ranks().to_vec()
    }

    /// Takes a step with the others.
    ///
    /// # Errors
    /// Whatever is wrong but for the loss of a rank.
    pub(crate) fn step(&mut self, number: usize) -> Result<Done> {
        let from = now();
        match self.try_step(number) {
            Ok((loss, pass)) => {
                let (world, span) = (self.group.world(), Span { from, to: now() });
                Ok(Done::Step(Step { number, world, loss, span, pass }))
            }
            Err(error) if error.kind() == ErrorKind::PeerGone => Ok(Done::Lost(error)),
            Err(error) => Err(error),
        }
    }

    fn try_step(&mut self, number: usize) -> Result<(f64, Option<Pass>)> {
        let (rank, world) = (self.group.rank().get() as usize, self.group.world());
        let pictures = self.lesson.pictures(number, rank, world);
        let began = now();
        self.ddp.reducer().begin_forward();
        let judged = self.lesson.judge(&self.net, &pictures, world)?;
        self.held = Some(self.ddp.backward(&judged.part)?);
        // Once this has succeeded, everyone has the averages.
        let mut loss = [judged.sum];
        self.group.all_reduce(&mut loss, ReduceOp::Sum)?;
        self.take(number)?;
        let pass = self.ddp.reducer().times().map(|times| pass(&times, began));
        Ok((loss[0] / self.task.batch as f64, pass))
    }

    /// Changes the parameters by the averages that it holds.
    fn take(&mut self, number: usize) -> Result<()> {
        let Some(averages) = self.held.take() else {
            return Err(Error::Argument(format!("there are no averages for step {number}")));
        };
        self.changes.set_learning_rate(self.lesson.rate(number));
        self.ddp.step(&mut self.changes, averages)?;
        self.taken = number + 1;
        Ok(())
    }

    /// Goes on without those who are gone. Says which step is next.
    ///
    /// # Errors
    /// When the others cannot be found, or somebody else is gone meanwhile.
    pub(crate) fn go_on(&mut self, number: usize) -> Result<usize> {
        self.group = self.group.shrink()?;
        let mut furthest = [self.taken as u64];
        self.group.all_reduce(&mut furthest, ReduceOp::Max)?;
        if furthest[0] as usize > self.taken {
            self.take(number)?;
        }
        self.held = None;
        self.ddp.set_group(&self.group)?;
        Ok(self.taken)
    }

    /// Lets the model read its part of the pictures that were kept back.
    pub(crate) fn test(&self) -> Result<Tested> {
        let (rank, world) = (self.group.rank().get() as usize, self.group.world());
        Ok(self.lesson.test(&self.net, rank, world)?)
    }

    /// Whether all ranks have the same parameters; if not, in which they differ.
    pub(crate) fn compare(&self) -> std::result::Result<(), String> {
        self.ddp.verify().map_err(|error| error.to_string())
    }
}

/// What the reducer says of a pass whose forward began at a moment.
fn pass(times: &PassTimes, began: u64) -> Pass {
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let pass_began = began + times.forward.map_or(0, nanos);
    let span = |from: Duration, to: Duration| Span {
        from: pass_began + nanos(from),
        to: pass_began + nanos(to),
    };
    let sent = |bucket: &consort_train::BucketTimes| Sent {
        bytes: bucket.bytes,
        span: span(bucket.launched, bucket.done),
    };
    Pass {
        forward: Span { from: began, to: pass_began },
        backward: span(Duration::ZERO, times.backward),
        communication: nanos(times.communication),
        hidden: nanos(times.hidden),
        buckets: times.buckets.iter().map(sent).collect(),
    }
}

/// So many bytes of gradients travel together: little, as the model is small.
const BUCKET: usize = 16 << 10;
