//! How long a call waits for the other ranks.

use std::time::{Duration, Instant};

use super::lane::Neighbour;
use super::pace::Pace;
use super::verdict::Waiting;
use crate::call::Description;

/// How a call waits, and what it is.
#[derive(Debug)]
pub(super) struct Patient<'p> {
    pub(super) pace: Pace<'p>,
    pub(super) description: Description,
    /// When it first had to sleep. Most calls never do, and need not know the time.
    began: Option<Instant>,
}

impl<'p> Patient<'p> {
    #[inline]
    pub(super) fn new(pace: Pace<'p>, description: Description) -> Self {
        Self { pace, description, began: None }
    }

    /// Whether it makes sense to wait for a rank any longer.
    pub(super) fn look_round(
        &mut self,
        halted: Option<(usize, String)>,
        neighbour: &Neighbour,
    ) -> Result<(), Stuck> {
        let began = *self.began.get_or_insert_with(Instant::now);
        if let Some((by, reason)) = halted {
            return Err(Stuck::Told { by, reason });
        }
        if neighbour.is_dead() {
            return Err(Stuck::Dead);
        }
        let is_late = match self.pace {
            Pace::Here(timeout, line) => {
                began.elapsed() >= timeout
                    || line.is_some_and(|line| line.patience_of_others().has_passed())
            }
            Pace::Elsewhere(notes) => notes.is_late(),
        };
        if is_late { Err(Stuck::Late) } else { Ok(()) }
    }

    pub(super) fn waiting(&self, number: u64) -> Waiting {
        let waited = self.began.map_or(Duration::ZERO, |began| began.elapsed());
        Waiting { description: self.description, number, waited }
    }
}

/// Why a wait ended in vain.
#[derive(Debug)]
pub(super) enum Stuck {
    Told { by: usize, reason: String },
    Dead,
    Late,
}
