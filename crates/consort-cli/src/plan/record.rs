//! One prediction, and how it is written for scripts.

use consort_plan::Collective;
use consort_plan::cost::CannotPredict;
use serde::Serialize;

/// What an algorithm would take for one size between so many ranks.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) op: Collective,
    pub(super) algorithm: &'static str,
    pub(super) ranks: u32,
    pub(super) hosts: u32,
    pub(super) bytes: usize,
    pub(super) outcome: Outcome,
    /// What the table would choose.
    pub(super) chosen: &'static str,
}

/// How a prediction went.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Outcome {
    /// Seconds.
    Takes(f64),
    /// The algorithm has no programs for this.
    Unsupported,
    /// There would be too many messages to go through.
    TooLarge,
}

impl Record {
    /// An object in one line; nothing for what is not supported.
    pub(super) fn json(&self) -> Option<String> {
        let us = match self.outcome {
            Outcome::Takes(seconds) => Some((seconds * 1e8).round() / 100.0),
            Outcome::TooLarge => None,
            Outcome::Unsupported => return None,
        };
        let line = Line {
            op: self.op.name(),
            algorithm: self.algorithm,
            ranks: self.ranks,
            hosts: self.hosts,
            bytes: self.bytes,
            predicted_us: us,
            chosen: self.algorithm == self.chosen,
        };
        Some(serde_json::to_string(&line).expect("numbers and names can be written"))
    }
}

impl From<CannotPredict> for Outcome {
    fn from(error: CannotPredict) -> Self {
        match error {
            CannotPredict::TooLarge { .. } => Self::TooLarge,
            _ => Self::Unsupported,
        }
    }
}

#[derive(Serialize)]
struct Line {
    op: &'static str,
    algorithm: &'static str,
    ranks: u32,
    hosts: u32,
    bytes: usize,
    /// Null when there are too many messages to go through.
    predicted_us: Option<f64>,
    chosen: bool,
}
