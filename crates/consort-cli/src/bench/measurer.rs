//! Whoever can be asked for the times of a point.

use serde::Deserialize;

use super::point::Point;
use super::record::Record;

/// Somebody who measures: our own ranks, or a peer's.
pub(crate) trait Measurer {
    /// Whose collectives they are.
    fn name(&self) -> &str;

    /// Measures one point.
    fn measure(&mut self, point: &Point) -> Result<Record, Refusal>;
}

/// Why there are no times.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// It cannot measure this point; others it may.
    #[error("{0}")]
    Point(String),
    /// It cannot be asked any more.
    #[error("{0}")]
    Gone(String),
}

/// A line of an answer, from whichever process.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Answer<T> {
    /// What was asked for.
    Good(T),
    /// Why there is none.
    Bad {
        /// In words.
        error: String,
    },
}

impl<T> From<Answer<T>> for Result<T, Refusal> {
    fn from(answer: Answer<T>) -> Self {
        match answer {
            Answer::Good(good) => Ok(good),
            Answer::Bad { error } => Err(Refusal::Point(error)),
        }
    }
}
