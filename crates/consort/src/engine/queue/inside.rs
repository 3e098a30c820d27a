//! A thread that carries out a call of its own.

use std::sync::Arc;

use consort_sys::turn::Turn;

use super::Queue;
use crate::backend::Terms;
use crate::call::Call;
use crate::engine::road::Road;
use crate::error::Result;

/// A thread on the road. When it leaves, whoever is in line hears of it.
pub(super) struct Inside<'q> {
    pub(super) queue: &'q Arc<Queue>,
    /// `None` when it has left.
    turn: Option<Turn<'q, Option<Road>>>,
    /// Whether its call came to an end, if it has begun one.
    ended: bool,
}

impl<'q> Inside<'q> {
    #[inline]
    pub(super) fn new(queue: &'q Arc<Queue>, turn: Turn<'q, Option<Road>>) -> Self {
        Self { queue, turn: Some(turn), ended: true }
    }

    #[inline]
    pub(super) fn run(mut self, call: &Call<'_>, terms: Terms) -> Result<u64> {
        self.ended = false;
        let road = self.turn.as_mut().and_then(|turn| turn.as_mut());
        let road = road.expect("the road is out only behind a bar");
        let result = road.run(call, terms, Some(self.queue));
        self.ended = true;
        result
    }
}

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.ended {
            // The others would wait for the rest of it.
            self.queue.abort("a call has panicked");
        }
        if self.turn.take().is_some_and(Turn::leave) {
            self.queue.call_next(self.queue.lock());
        }
    }
}
