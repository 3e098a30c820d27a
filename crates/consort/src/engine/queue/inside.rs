//! A thread that carries out a call of its own.

use std::sync::Arc;

use consort_sys::turn::Turn;

use super::Queue;
use crate::backend::Terms;
use crate::call::Call;
use crate::engine::lane::Lane;
use crate::error::Result;

/// A thread in the lane. When it leaves, whoever is in line hears of it.
pub(super) struct Inside<'q> {
    pub(super) queue: &'q Arc<Queue>,
    /// `None` when it has left.
    pub(super) turn: Option<Turn<'q, Option<Box<Lane>>>>,
}

impl Inside<'_> {
    #[inline]
    pub(super) fn run(mut self, call: &Call<'_>, terms: Terms) -> Result<()> {
        let lane = self.turn.as_mut().and_then(|turn| turn.as_mut());
        lane.expect("the lane is out only behind a bar").run(call, terms, Some(self.queue))
    }
}

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.turn.take().is_some_and(Turn::leave) {
            self.queue.call_next(self.queue.lock());
        }
    }
}
