//! What the demo and the processes it starts tell each other: a line of JSON each.

use serde::{Deserialize, Serialize};

/// Who a process is, and what it is to do. It is told in a pipe, because others can read command lines and
/// environments.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Seat {
    /// The process that has started it, with which it ends.
    pub(crate) asker: u32,
    pub(crate) task: Task,
    /// Where it meets the others; `None` if it works alone.
    pub(crate) meeting: Option<Meeting>,
    /// Whether it is going to be killed on the way. It waits for that before the last step, if nobody came
    /// to it earlier.
    pub(crate) is_doomed: bool,
}

/// What is learned: the same for all, and for one alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) seed: u64,
    pub(crate) steps: usize,
    /// Pictures in each step, of all ranks together.
    pub(crate) batch: usize,
}

/// Where ranks meet.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Meeting {
    pub(crate) rank: u32,
    pub(crate) world: u32,
    pub(crate) address: String,
    pub(crate) secret: String,
}

/// What a process says. Times are of the clock that all processes of a machine share, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Word {
    /// It has met the others, and has its model: so many numbers in so many parameters.
    Ready { numbers: usize, parameters: usize },
    /// A step is done.
    Step(Step),
    /// A step could not be done.
    Lost(Loss),
    /// It goes on with these ranks, as they were numbered in the beginning.
    Resumed { at: u64, ranks: Vec<u32> },
    /// It has looked at its part of the pictures that were kept back.
    Tested(Tested),
    /// Its parameters are those of all others, bit by bit; or why not. One alone has nobody to compare
    /// them with.
    Compared(Result<(), String>),
    /// It has done all that it was told.
    Done,
    /// It cannot go on.
    Failed(String),
}

/// One step of learning, on one rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Step {
    /// Which, from 0.
    pub(crate) number: usize,
    /// How many ranks have taken it.
    pub(crate) world: usize,
    /// The loss of the whole batch.
    pub(crate) loss: f64,
    pub(crate) span: Span,
    /// What its gradients were doing, if they had anywhere to go.
    pub(crate) pass: Option<Pass>,
}

/// How long something took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Span {
    pub(crate) from: u64,
    pub(crate) to: u64,
}

impl Span {
    /// In seconds.
    pub(crate) fn seconds(self) -> f64 {
        self.to.saturating_sub(self.from) as f64 * 1e-9
    }
}

/// What a reducer says of one pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pass {
    pub(crate) forward: Span,
    pub(crate) backward: Span,
    /// How long at least one bucket was on its way, and how much of that backward has covered.
    pub(crate) communication: u64,
    pub(crate) hidden: u64,
    pub(crate) buckets: Vec<Sent>,
}

/// A bucket on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sent {
    pub(crate) bytes: usize,
    pub(crate) span: Span,
}

/// Somebody is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Loss {
    /// When it was noticed.
    pub(crate) at: u64,
    /// In which step.
    pub(crate) step: usize,
    /// What the rank was told.
    pub(crate) error: String,
}

/// How well the model reads pictures that it has not learned from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Tested {
    /// The number of the first one.
    pub(crate) first: usize,
    /// What it takes each of them for.
    pub(crate) answers: Vec<u8>,
    /// The loss of all of them together.
    pub(crate) loss: f64,
}

/// What is started for each process.
pub(crate) const COMMAND: &str = "__demo_rank";
