//! What was asked for.

use std::fmt;

use super::matrix::Shape;

/// What has to be the same on every rank.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) rank: usize,
    pub(super) after: u64,
    pub(super) rate: f64,
    pub(super) has_feedback: bool,
    pub(super) is_warm: bool,
    pub(super) seed: u64,
    pub(super) is_batched: bool,
}

impl Settings {
    /// How a matrix of this size is compressed, if that makes it small enough.
    pub(super) fn worthwhile(&self, rows: usize, cols: usize) -> Option<Shape> {
        let shape = Shape { rows, cols, rank: self.rank.min(rows).min(cols) };
        let after = (shape.left() + shape.right()) as f64;
        (after * self.rate < shape.len() as f64).then_some(shape)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            rank: 1,
            after: 1000,
            rate: 2.0,
            has_feedback: true,
            is_warm: true,
            seed: 0,
            is_batched: false,
        }
    }
}

impl fmt::Display for Settings {
    /// All of it: ranks compare the names of their hooks.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rank, after, rate, has_feedback, is_warm, seed, is_batched } = self;
        let batched = if *is_batched { "batched " } else { "" };
        let feedback = if *has_feedback { "with" } else { "without" };
        let warm = if *is_warm { "warm" } else { "cold" };
        write!(
            f,
            "{batched}PowerSGD of rank {rank} (after {after} passes, at a rate above {rate}, {feedback} \
             error feedback, {warm} start, seed {seed})"
        )
    }
}
