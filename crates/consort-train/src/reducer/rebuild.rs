//! Buckets that are made anew when it is known in which order gradients come.

use std::sync::Arc;

use consort::Group;

use super::inner::Inner;
use super::state::State;
use crate::assign::{Caps, assign};
use crate::error::Result;
use crate::layout::Layout;

impl Inner {
    /// Before a pass: makes buckets anew if it is time to. All ranks come to it at the same time, as they
    /// have averaged the same number of passes.
    pub(crate) fn renew(&self, state: &mut State, group: &Group) -> Result<()> {
        let Some(order) = state.observed.take() else { return Ok(()) };
        if state.averaged == AFTER {
            let order = as_rank_0_saw(group, order)?;
            self.lay_out(state, group, order, state.caps.clone())?;
        }
        Ok(())
    }

    /// Puts parameters into buckets of these sizes in this order, with what was added up.
    fn lay_out(
        &self,
        state: &mut State,
        group: &Group,
        order: Vec<usize>,
        caps: Caps,
    ) -> Result<()> {
        let rules = &self.settings.rules;
        let buckets = assign(&self.parameters, order, &caps, |it| rules.is_alone(it));
        (state.caps, state.is_rebuilt) = (caps, true);
        if buckets != state.layout.members() {
            let new = Layout::new(&self.parameters, buckets, rules, group)?;
            new.take_over(&state.layout);
            state.layout = Arc::new(new);
        }
        Ok(())
    }
}

/// The order that rank 0 has seen, which is as good as any, on all ranks.
fn as_rank_0_saw(group: &Group, order: Vec<usize>) -> Result<Vec<usize>> {
    let mut order: Vec<u32> = order.into_iter().map(|index| index as u32).collect();
    group.broadcast(&mut order, 0)?;
    Ok(order.into_iter().map(|index| index as usize).collect())
}

/// After so many passes the order of gradients is known.
const AFTER: u64 = 1;
